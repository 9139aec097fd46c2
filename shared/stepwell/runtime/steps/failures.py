"""Turns exceptions into failures, each with a category of the table of error categories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from stepwell.definition.graph import Json
from stepwell.engine.records import Failure
from stepwell.errors import StepError, Transient, UserError
from stepwell.limits import STEP_TIMEOUT_MS
from stepwell.runtime.starts.admission import check_json
from stepwell.runtime.steps import clients
from stepwell.runtime.steps.retry_after import given_ms
from stepwell.runtime.steps.secrets import READ, masked_text, without_credentials
from stepwell.runtime.steps.threads import AttemptTimeoutError, StepInterrupted
from stepwell.runtime.steps.tracebacks import own_line, traceback_of

T = TypeVar("T")

MESSAGE_CHARACTERS = 2_000
_MEMBERS = 5  # of an exception group, in its message
_DEEPEST_GROUP = 5  # levels of groups within groups


class CallError(Exception):
    """A call of another system failed: the error's type and category, and data for the workflow's rules.

    The message and the data are stored and logged: no secret may be in them.
    """

    def __init__(self, kind: str, category: str, message: str, data: Json = None, retry_after_ms: int = 0) -> None:
        super().__init__(message)
        self.kind, self.category, self.data, self.retry_after_ms = kind, category, data, retry_after_ms


_CODED = (AttemptTimeoutError, UserError, CallError)  # the type of these errors is a code


class UnreadableError(CallError):
    """Stands in for an exception whose attributes or text raise when they are read."""

    def __init__(self, error: BaseException, worse: BaseException) -> None:
        message = f"its message cannot be shown: {_class_name(worse)}"
        super().__init__(_class_name(error), "step", message)


def reading(error: BaseException, read: Callable[[BaseException], T]) -> T:
    """Returns what `read` makes of the exception, or of an UnreadableError if that raises: users' classes may."""
    try:
        return read(error)
    except (StepInterrupted, KeyboardInterrupt):
        raise
    except BaseException as worse:  # of any type: it is users' code
        return read(UnreadableError(error, worse))


def _class_name(error: BaseException) -> str:
    return _name_of(type(error))


def _name_of(kind: type) -> str:
    name: str = type.__getattribute__(kind, "__name__")  # a metaclass may raise, too
    return name


def not_loaded(run: str, error: BaseException) -> Failure:
    """Returns the failure of code that cannot be loaded, naming `run` for whoever fixes it."""
    place = own_line(error)
    data = {"code": run, "at": place} if place else {"code": run}
    return replace(failure_of(error, "", 0, STEP_TIMEOUT_MS), data=data)


def failure_of(error: BaseException, node: str, attempt: int, limit_ms: int) -> Failure:
    """Returns the error as the definition's rules see it: its class name or a Stepwell code, and its category."""
    if isinstance(error, AttemptTimeoutError):
        message = "; ".join((f"{node or 'the import'} did not end within {limit_ms / 1000:g} s", *error.args))
        return Failure("step_timeout", "timeout", message, node, attempt)
    if isinstance(error, UserError):
        return Failure(error.code, "validation", _message_of(error), node, attempt, traceback=traceback_of(error))
    if isinstance(error, CallError):
        return Failure(error.kind, error.category, _message_of(error), node, attempt, error.data, error.retry_after_ms)
    message = _message_of(error) or type(error).__name__
    category, data = category_of(error), _data_of(error)
    return Failure(type(error).__name__, category, message, node, attempt, data, traceback=traceback_of(error))


def bases_of(error: BaseException) -> tuple[str, ...]:
    """Returns the names of the classes above the exception's own; of none whose type is a code of Stepwell's."""
    kinds: tuple[type, ...] = type.__getattribute__(type(error), "__mro__")  # `isinstance` may ask the error itself
    if any(kind is coded for kind in kinds for coded in _CODED):
        return ()
    return tuple(_name_of(kind) for kind in kinds[1:-1])


def masked_failure(told: Failure) -> Failure:
    """Returns the failure that a step returned as an exception would tell it: its reason is most often an error's."""
    known = tuple(READ)
    return replace(told, message=masked_text(told.message, known), data=without_credentials(told.data, known))


def _message_of(error: BaseException) -> str:
    """Returns the message without secrets. Users' `__str__` may raise, and half a surrogate cannot be stored."""
    try:
        message = masked_text(_text_of(error), tuple(READ))[:MESSAGE_CHARACTERS]  # in this order: no half of a secret
    except Exception as worse:
        message = f"its message cannot be shown: {type(worse).__name__}"
    return message.encode("utf-8", "replace").decode()


def _text_of(error: BaseException, depth: int = 0) -> str:
    """Returns the exception's text; of a group, such as a TaskGroup's, with the type and the text of its members."""
    if not isinstance(error, BaseExceptionGroup) or depth > _DEEPEST_GROUP:
        return str(error)
    members = (f"{type(one).__name__}: {_text_of(one, depth + 1)}" for one in error.exceptions[:_MEMBERS])
    return f"{error}: {'; '.join(members)}"


def category_of(error: BaseException) -> str:
    """Returns `transient` if a retry may help, a StepError's own category, else `step`."""
    if isinstance(error, StepError):
        return error.category if isinstance(error.category, str) else StepError.category
    return "transient" if clients.is_transient(error) else "step"


def asked_to_wait(failure: Failure, error: BaseException, now_ms: int) -> Failure:
    """Adds how long the error asks to wait before the next attempt."""
    if failure.category != "transient" or failure.retry_after_ms:
        return failure
    if isinstance(error, Transient):
        return replace(failure, retry_after_ms=given_ms(error.retry_after, now_ms))
    return replace(failure, retry_after_ms=clients.wait_ms(error, now_ms))


def _data_of(error: BaseException) -> object:
    """Returns the data of a StepError, as text if it is not JSON; for others the status of the answer, if any."""
    if not isinstance(error, StepError):
        status = clients.status_of(error)
        return None if status is None else {"status": status}
    data = error.data
    try:
        check_json(data, "error's data")
    except UserError:
        return masked_text(repr(data), tuple(READ))[:MESSAGE_CHARACTERS]
    return without_credentials(data, tuple(READ))
