"""Turns what a function's code did into records: its state, its errors, and the results of update handlers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stepwell.definition.graph import Json
from stepwell.engine.records import Failure, Record, Resumption
from stepwell.engine.stored.codec import failure_to_json
from stepwell.errors import EngineFault, NewerFormat, UserError
from stepwell.limits import SESSION_SECONDS
from stepwell.runtime.durable.failures import OperationFailed
from stepwell.runtime.durable.operations import stored
from stepwell.runtime.durable.places import foreign, raised_at
from stepwell.runtime.durable.running import FunctionSession
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.steps.failures import failure_of, reading
from stepwell.runtime.steps.threads import StepInterrupted
from stepwell.runtime.steps.tracebacks import traceback_of

_REACHES_OUT = frozenset({"foreign_await", "not_deterministic"})
_OF_OTHER_LOOP = "is bound to a different event loop"  # asyncio's words
_DEEPEST = 20  # levels of causes and exception groups
_logger = logging.getLogger("stepwell.worker")


def function_failure(at: Standing, error: BaseException, *, is_logged: bool = True) -> Failure:
    """Returns the failure for an exception of users' code. Raises StepInterrupted again."""
    return reading(error, lambda error: _function_failure(at, error, is_logged=is_logged))


def _function_failure(at: Standing, error: BaseException, *, is_logged: bool) -> Failure:
    if isinstance(error, OperationFailed):
        return error.failure
    if isinstance(error, StepInterrupted):
        raise error
    ours = _of_ours(error) or error
    if is_logged and not isinstance(ours, UserError):
        _logger.warning("%s %s failed: %s", at.run_id, at.graph.start, type(error).__name__, exc_info=error)
    return _failure(at, error, ours)


def _refusal(at: Standing, error: Exception) -> Failure:
    """Returns the failure for what a validator raised: it is an answer to the caller, and no fault of the code."""
    _logger.info("%s %s refuses an update: %s", at.run_id, at.graph.start, type(error).__name__)
    return reading(error, lambda error: _failure(at, error, _of_ours(error) or error))


def _failure(at: Standing, error: BaseException, ours: BaseException) -> Failure:
    failure = failure_of(ours, at.graph.start, 1, SESSION_SECONDS * 1_000)
    # raised in a task of a library, it has no frame of the function
    return failure if failure.traceback else replace(failure, traceback=traceback_of(error))


def _of_ours(error: BaseException, depth: int = 0) -> UserError | None:
    """Returns the error of code that reached outside its function, even wrapped by a library; None if it did not."""
    if isinstance(error, UserError):
        return error if error.code in _REACHES_OUT else None
    if type(error) is RuntimeError and error.args and _is_of_other_loop(error.args[0]):
        what = "it awaits a lock, an event or a queue that another run has awaited: make it in the function"
        return foreign(what, raised_at(error))
    within = [*(error.exceptions if isinstance(error, BaseExceptionGroup) else ()), error.__cause__]
    found = (_of_ours(one, depth + 1) for one in within if one is not None and depth < _DEEPEST)
    return next((one for one in found if one is not None), None)


def _is_of_other_loop(told: object) -> bool:
    return isinstance(told, str) and told.endswith(_OF_OTHER_LOOP)


def changed(state: Mapping[str, Any], scope: Mapping[str, Json]) -> dict[str, Json]:
    """Returns the entries of the state that differ from their stored form. A deleted name is null."""
    now = {name: stored(value, f"ctx.state[{name!r}]") for name, value in state.items()}
    now |= dict.fromkeys(scope.keys() - now.keys())
    return {name: value for name, value in now.items() if name not in scope or scope[name] != value}


def updated_by(session: FunctionSession, at: Standing, asked: Record, resumption: Resumption) -> Record | Failure:
    """Runs an update's handler. Returns the record of what it did, or why its validator refused.

    The handler is not called if there is none of that name, or if the input does not fit it.
    """
    was_ms, session.now_ms, payload = session.now_ms, asked.at_ms, resumption.payload
    try:
        call = session.bound(resumption)
    except UserError as refusal:
        return _answered(asked, resumption, error=failure_to_json(function_failure(at, refusal)), refused=True)
    try:
        session.check(resumption)
    except Exception as error:  # of any type: it is users' code
        session.now_ms = was_ms
        return _refusal(at, error)
    try:
        payload = call()
    except Exception as error:  # of any type: it is users' code
        payload = {"error": failure_to_json(function_failure(at, error))}
    try:
        writes = changed(session.state, at.token.scope)
    except UserError as error:  # the function fails with it when it goes on
        return _answered(asked, resumption, error=failure_to_json(function_failure(at, error)))
    return replace(_answered(asked, resumption, **payload), writes=writes)


def _answered(asked: Record, resumption: Resumption, **answer: Json) -> Record:
    return replace(asked, resumption=replace(resumption, payload={**resumption.payload, **answer}))


def given_up(at: Standing, asked: Record, error: BaseException | None) -> Record:
    """Returns the record of a handler that did not end in time: its changes are lost with its session."""
    if asked.resumption is None or isinstance(error, EngineFault | NewerFormat):
        raise error or EngineFault("an update without its parts", code="broken_record")
    failure = function_failure(at, error or RuntimeError("the handler came to no end"))
    return _answered(asked, asked.resumption, error=failure_to_json(failure), refused=True)
