"""Refusals in the words of Step Functions: a type that boto3 makes an exception of, and a message."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.api.problems import problem_answer
from stepwell.errors import Conflict, NotFound, UserError
from stepwell.values import dataclass

VALIDATION = "ValidationException"

_BY_CODE: Mapping[str, str] = {
    "already_used": "ExecutionAlreadyExists",
    "run_deleted": "ExecutionAlreadyExists",
    "unknown_run": "ExecutionDoesNotExist",
    "bad_run_id": "ExecutionDoesNotExist",
    "unknown_workflow": "StateMachineDoesNotExist",
    "unknown_version": "StateMachineDoesNotExist",
    "ambiguous_version": "StateMachineDoesNotExist",
    "bad_cursor": "InvalidToken",
    "bad_json": "SerializationException",
    "unknown_link": "InvalidToken",
    "callback_expired": "TaskTimedOut",
    "callback_over": "TaskTimedOut",
    "callback_used": "TaskTimedOut",
    "not_waiting": "TaskTimedOut",
}


class Refused(Exception):
    """A call that cannot be answered. Nothing was written."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Refusal:
    """What is answered. boto3 calls again after a status of 500 or more."""

    status: int
    type: str
    message: str


def refusal_of(error: Exception) -> Refusal:
    """Returns the refusal for any exception. What is not the caller's fault is logged, as for other routes."""
    if isinstance(error, Refused):
        return Refusal(400, error.kind, str(error))
    if isinstance(error, UserError):
        return Refusal(400, _BY_CODE.get(error.code, VALIDATION), str(error))
    answer = problem_answer(error)
    kind = "ServiceUnavailable" if answer.status == 503 else "InternalServerError"
    return Refusal(answer.status, kind, f"{answer.body['detail']} ({answer.body['hint'] or answer.body['code']})")


def refused_as(kind: str, error: UserError) -> Refused:
    """Returns the refusal of an input that its caller knows under another name."""
    return Refused(kind, str(error))


def is_about_input(error: UserError) -> bool:
    """Tells whether a start was refused for its input."""
    return not isinstance(error, NotFound | Conflict) and error.code not in _BY_CODE
