"""Steps that call a service of AWS, as tasks of state machines name it. AWS is behind a port."""

from __future__ import annotations

from typing import Protocol

from stepwell.definition.asl.services import NATIVE, READS, WRITE, call_name, in_sdk
from stepwell.definition.graph import Json
from stepwell.runtime.steps.failures import CallError
from stepwell.runtime.steps.port import StepCall
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """One call. Names are the SDK's for Java, as Step Functions has them, and parameters have capital letters."""

    service: str
    action: str
    given: Json
    is_native: bool = False  # an integration of Step Functions' own, with other names of errors and results


class Services(Protocol):
    def call(self, call: ServiceCall) -> Json:
        """Calls the service and returns its answer. Raises CallError."""

    def read(self, call: ServiceCall) -> Json:
        """Reads a dataset: the text of an object, or a list of objects, from all pages. Raises CallError."""

    def write(self, call: ServiceCall) -> Json:
        """Writes objects to a bucket, one after the other. Returns where the last one is. Raises CallError."""


@dataclass(frozen=True, slots=True)
class ServiceSteps:
    """Calls services. Without any, as in tests, each call fails."""

    services: Services | None = None

    def run(self, call: StepCall) -> Json:
        """Returns the service's answer. Raises CallError."""
        name = call_name(call.run)
        if self.services is None:
            message = f"{name} is a call of AWS, which nothing makes here (in a test, mock the state or its resource)"
            raise CallError("aws_not_here", "step", message)
        made = ServiceCall(*in_sdk(name), call.input, name in NATIVE)
        if name == WRITE:
            return self.services.write(made)
        return self.services.read(made) if name in READS else self.services.call(made)
