"""Reads sessions: the branches that their functions await, the result of a turn, and errors around it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stepwell.definition.authoring import WORKFLOW_MARK, WORKFLOW_WRONG
from stepwell.definition.graph import Json
from stepwell.engine.durable.asking import takes_no_longer
from stepwell.engine.durable.journal import entries, first_own
from stepwell.engine.durable.session import CURRENT
from stepwell.engine.durable.turns import Asked, ContinueAs, Failed, Result, Stuck, Suspended, Turn
from stepwell.engine.records import TASKS, Failure, Kind, Record
from stepwell.errors import EngineFault, NewerFormat, UserError
from stepwell.limits import SESSION_SECONDS
from stepwell.runtime.durable.handlers import changed, function_failure
from stepwell.runtime.durable.kept import Kept
from stepwell.runtime.durable.operations import Operation
from stepwell.runtime.durable.running import FunctionSession, Outside
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports.headers import FORK
from stepwell.runtime.steps.binding import copy_of
from stepwell.runtime.steps.failures import not_loaded
from stepwell.runtime.steps.registry import UnknownStepError
from stepwell.runtime.steps.threads import AttemptTimeoutError
from stepwell.runtime.steps.tracebacks import own_line
from stepwell.values import dataclass

NO_LONGER = Asked("step", "ended")  # stands for an operation of tasks that has ended: nobody asks for it


@dataclass(frozen=True, slots=True)
class Since:
    """How a function begins: its path, input, state and time, and its records since."""

    path: str
    input: Json
    state: Mapping[str, Json]
    began_ms: int
    records: list[Record]
    is_own: bool = True  # False: the run goes on as another workflow's function


async def only(one: Operation[Any]) -> Json:
    """Awaits the one operation of a branch and returns its stored result."""
    return await _Raw(one)


@dataclass(frozen=True, slots=True)
class _Raw:
    one: Operation[Any]

    def __await__(self) -> Generator[Asked, Json, Json]:
        return self.one.raw()


def branches_of(session: FunctionSession, slot: int) -> Asked | None:
    """Returns the operations that began in this slot, in a fork or by tasks; None if the function awaits none."""
    if session.stands_at(slot):
        return session.asked if session.asked and session.asked.branches else None
    begun = {index: one.asked for (began, index), one in session.open.items() if began == slot}
    if not begun:
        return None
    most = max(begun) + 1
    return Asked(TASKS, TASKS, branches=tuple(Operation(begun.get(index, NO_LONGER), copy_of) for index in range(most)))


def function_of(turn: Turn, name: str) -> Callable[[], object] | None:
    """Returns the callable that `ctx.run` awaits under this name, to be run outside of the session; or None."""
    asked = turn.result.asked if isinstance(turn.result, Suspended) else None
    if asked is None or asked.function is None or asked.name != name:
        return None
    function = asked.function

    def apart() -> object:
        outside: Any = Outside(Kept(function, "lost_in_branch"))
        CURRENT.set(outside)
        return function()

    return apart


def turn_of(session: FunctionSession, at: Standing) -> Turn:
    result = session.result()
    try:
        writes = _writes(session, at, result)
    except UserError as error:
        return Turn(Failed(function_failure(at, error)))
    answers = {} if isinstance(result, Stuck) else dict(session.answers)
    return Turn(result, writes, session.patches(), answers)


def _writes(session: FunctionSession, at: Standing, result: Result) -> Mapping[str, Json]:
    """Returns what changed of the function's state; all of it as it begins anew, so that a deleted name is gone."""
    is_anew = isinstance(result, ContinueAs)
    if at.token.branch:
        return at.token.scope if is_anew else {}
    return changed(session.state, {} if is_anew else at.token.scope)


def can_go_on(session: FunctionSession, at: Standing) -> bool:
    """Tells whether the session, neither ended nor stale, is at a record of this log since that last began anew."""
    is_of_log = at.token.began_slot <= session.slot <= at.token.slot
    return is_of_log and not session.has_ended and not session.is_stale


def check(at: Standing, function: Callable[..., object], path: str, *, is_own: bool = True) -> None:
    """Raises UnknownStepError if this function is not the run's, and the error of one that is no valid workflow.

    `is_own`: it is the workflow's own function, not one that the run continues as.
    """
    wrong: UserError | None = getattr(function, WORKFLOW_WRONG, None)
    if wrong is not None:
        raise wrong
    name = getattr(function, WORKFLOW_MARK, None)
    if name is None or (is_own and name != at.run.workflow):
        message = f"{path} is not the workflow {at.run.workflow} any more"
        raise UnknownStepError(message, code="version_gone",
                               hint="keep it, with its version, while runs of it are under way")  # fmt: skip


def of_error(at: Standing, error: BaseException | None, records: Sequence[Record] = ()) -> Result:
    """Returns the result of a turn that failed around the function: bad input fails the run, bad code stops it.

    `records`: of the function since it began. If it has asked for something, its input was good for the code of then.
    """
    if isinstance(error, UserError) and error.code == "step_input":
        failure, begun = function_failure(at, error), first_own(entries(_of_this_input(records), has_tasks=False))
        return Failed(failure) if begun is None else takes_no_longer(begun, failure)
    if isinstance(error, AttemptTimeoutError):
        message = f"{at.graph.start} came to no operation within {SESSION_SECONDS} s; what takes long belongs in a step"
        return Stuck(Failure("function_stuck", "timeout", message))
    if isinstance(error, EngineFault | NewerFormat):
        raise error
    return Stuck(function_failure(at, error or RuntimeError("the function came to no end")))


def not_imported(at: Standing, path: str, error: BaseException) -> Result:
    """Returns the result of a turn whose function's module cannot be imported. The line of its wait tells of it."""
    if isinstance(error, AttemptTimeoutError):
        return Stuck(not_loaded(path, error))
    if isinstance(error, UserError | EngineFault | NewerFormat):
        return of_error(at, error)
    failure, line = function_failure(at, error, is_logged=False), own_line(error)
    return Stuck(replace(failure, data={"at": line}) if line and failure.data is None else failure)


def _of_this_input(records: Sequence[Record]) -> Sequence[Record]:
    """Returns the records that were made with the run's input: what a fork kept may have been made with another."""
    mark = max((place for place, one in enumerate(records) if one.kind is Kind.REDRIVEN), default=-1)
    return records[mark + 1 :] if mark >= 0 and records[mark].by.startswith(f"{FORK}:") else records


def elsewhere(turn: Turn) -> Turn:
    """Returns the turn of a function that does not await what its log says it did."""
    message = "the function does not come to the branches that its log has"
    return Turn(Stuck(Failure("non_determinism", "validation", message)))
