"""Steps that are no Python functions: who runs them, by how their `run` begins."""

from __future__ import annotations

from dataclasses import dataclass, field

from stepwell.definition.graph import Json
from stepwell.runtime.steps.http_step import HttpSteps
from stepwell.runtime.steps.lambdas import LambdaSteps
from stepwell.runtime.steps.port import StepCall

_SCHEMES = ("http:", "lambda:")


@dataclass(frozen=True, slots=True)
class Calls:
    """What a worker may call. By default nothing: each such step fails, and says what is missing."""

    http: HttpSteps = field(default_factory=HttpSteps)
    lambdas: LambdaSteps = field(default_factory=LambdaSteps)

    def run(self, call: StepCall) -> Json:
        """The step's result. Raises CallError; AttemptTimeoutError when its time is up."""
        return self.http.run(call) if call.run.startswith("http:") else self.lambdas.run(call)


def is_call(run: str) -> bool:
    """Whether it is for Calls, and not the name of a function."""
    return run.startswith(_SCHEMES)
