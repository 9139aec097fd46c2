"""Runs steps that are no Python functions, by the prefix of their `run`."""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache

from stepwell.definition.asl.services import HTTP, INVOKE, call_name
from stepwell.definition.graph import CALLS, Json
from stepwell.runtime.steps.http_step import HttpSteps
from stepwell.runtime.steps.lambdas import LambdaSteps
from stepwell.runtime.steps.port import StepCall
from stepwell.runtime.steps.services import ServiceSteps
from stepwell.values import dataclass

_INTEGRATION = "arn:"


@dataclass(frozen=True, slots=True)
class Calls:
    """The systems that a worker may call. By default none: each such step fails, and says what is missing."""

    http: HttpSteps = field(default_factory=HttpSteps)
    lambdas: LambdaSteps = field(default_factory=LambdaSteps)
    services: ServiceSteps = field(default_factory=ServiceSteps)

    def run(self, call: StepCall) -> Json:
        """Returns the step's result. Raises CallError; AttemptTimeoutError when its time is up."""
        if call.run.startswith("http:"):
            return self.http.run(call)
        return self._integrated(call) if call.run.startswith(_INTEGRATION) else self.lambdas.run(call)

    def _integrated(self, call: StepCall) -> Json:
        """Runs a service integration of a state machine."""
        name = call_name(call.run)
        if name == HTTP:
            from stepwell.runtime.steps.http_invoke import invoke  # noqa: PLC0415 - few machines have such a task

            return invoke(self.http, call)
        return self.lambdas.run_task(call) if name == INVOKE else self.services.run(call)


@lru_cache(1_024)
def is_call(run: str) -> bool:
    """Tells whether a `run` is for Calls, and not the name of a function."""
    return run.startswith(CALLS)
