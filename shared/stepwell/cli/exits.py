"""The exit statuses of all commands, for scripts."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.client.errors import ApiProblem, Unreachable
from stepwell.errors import StepwellError

DONE, FAILED, WRONG_USAGE, REFUSED, NOT_REACHED, UNPROVEN, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130

MEANINGS: Mapping[int, str] = {
    DONE: "done",
    FAILED: "the run failed; what was checked has faults, such as a definition or a replay; a deployment failed",
    WRONG_USAGE: "wrong usage: an argument, a file, a setting, or something that is not installed",
    REFUSED: "the API refused the call; `code` says why",
    NOT_REACHED: "no Stepwell API answered",
    UNPROVEN: "nothing is proven: the run that is verified fails undisturbed, or all that are simulated fail",
    INTERRUPTED: "interrupted with Ctrl-C",
}
_FAILURES = frozenset(
    {"bad_definitions", "cdk_failed", "deploy_failed", "emulator_failed", "synth_failed", "update_failed"}
)


def status_of(error: StepwellError) -> int:
    """Returns the exit status for an error."""
    if isinstance(error, Unreachable):
        return NOT_REACHED
    if isinstance(error, ApiProblem):
        return REFUSED
    return FAILED if error.code in _FAILURES else WRONG_USAGE
