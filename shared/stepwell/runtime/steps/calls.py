"""Runs steps that are no Python functions, by the prefix of their `run`."""

from __future__ import annotations

from dataclasses import field

from stepwell.definition.graph import Json
from stepwell.runtime.steps.http_step import HttpSteps
from stepwell.runtime.steps.lambdas import LambdaSteps
from stepwell.runtime.steps.port import StepCall
from stepwell.values import dataclass

_SCHEMES = ("http:", "lambda:")


@dataclass(frozen=True, slots=True)
class Calls:
    """The systems that a worker may call. By default none: each such step fails, and says what is missing."""

    http: HttpSteps = field(default_factory=HttpSteps)
    lambdas: LambdaSteps = field(default_factory=LambdaSteps)

    def run(self, call: StepCall) -> Json:
        """Returns the step's result. Raises CallError; AttemptTimeoutError when its time is up."""
        return self.http.run(call) if call.run.startswith("http:") else self.lambdas.run(call)


def is_call(run: str) -> bool:
    """Tells whether a `run` is for Calls, and not the name of a function."""
    return run.startswith(_SCHEMES)
