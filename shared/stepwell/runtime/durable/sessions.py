"""Sessions of durable functions: kept warm if possible, else replayed from their logs.

    wake ── decide: ask the function ── session kept? the new records, else all since it began ── its turn

A session lives in one process and only saves time: whatever it knows is in the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import deepcopy
from functools import partial
from typing import Any, Protocol, TypeAlias

from stepwell.definition.graph import Json
from stepwell.engine.actions import Outcome
from stepwell.engine.copying import changed
from stepwell.engine.durable.journal import continued_as
from stepwell.engine.durable.turns import Completed, Failed, Result, Stuck, Suspended, Together, Turn
from stepwell.engine.forks.branches import parent_of
from stepwell.engine.records import ROOT, Failure, Record
from stepwell.errors import Conflict, EngineFault, UserError
from stepwell.limits import SECOND_MS, SESSION_RECORDS, SESSION_SECONDS, SESSIONS_KEPT, STEP_TIMEOUT_MS
from stepwell.runtime.durable.context import Context, Url
from stepwell.runtime.durable.handlers import given_up, updated_by
from stepwell.runtime.durable.opening import session_of
from stepwell.runtime.durable.operations import Operation
from stepwell.runtime.durable.parts import with_parts
from stepwell.runtime.durable.running import FunctionSession, read_only
from stepwell.runtime.durable.turning import (
    Since,
    branches_of,
    can_go_on,
    check,
    elsewhere,
    function_of,
    not_imported,
    of_error,
    only,
    turn_of,
)
from stepwell.runtime.durable.warm import Forked, Threads, Warm
from stepwell.runtime.durable.watching import watch
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.steps.binding import binding_of
from stepwell.runtime.steps.port import Updated, WriteRecord
from stepwell.runtime.steps.threads import AttemptTimeoutError, StepThreads

_GONE = Failure("cancelled", "step", "the function that began this has begun anew")


Attempted: TypeAlias = Callable[[Callable[[], object]], Awaitable[Outcome]]  # runs an attempt of a function


class Functions(Protocol):
    """Finds users' code."""

    def function(self, run: str) -> Callable[..., object]:
        """Returns the function at this path. Whatever importing the user's module raises passes through."""


class Sessions:
    """Asks durable functions for their next operation. Safe to call from many threads."""

    def __init__(
        self,
        logbook: Logbook,
        registry: Functions,
        url: Url | None = None,
        kept: int = SESSIONS_KEPT,
        threads: Threads | None = None,
    ) -> None:
        """`url` signs callbacks. `kept`: how many sessions this process keeps; 0: it always replays."""
        self._logbook, self._registry, self._url = logbook, registry, url
        self._threads: Threads = threads or StepThreads()
        self._warm = Warm(self._threads, kept)
        self._known: set[str] = set()  # functions whose modules are imported

    async def asked(self, at: Standing) -> Standing:
        """Returns the token with its function's turn."""
        session, turn = await self._session_of(at)
        return self._told(at, (session, await with_parts(self._logbook, at, turn)))

    async def answered(self, at: Standing, name: str) -> Json:
        """Returns the function's answer to a query. Raises NotFound, Conflict."""
        session, turn = await self._session_of(at, is_reading=True)
        if session is None or isinstance(turn.result, Stuck):
            self._told(at, (session, turn))
            failure = turn.result.failure if isinstance(turn.result, Stuck | Failed) else None
            raise Conflict(f"the function cannot be asked: {failure.message if failure else 'it has not begun'}",
                           code="function_stuck", hint="stepwell explain RUN tells more")  # fmt: skip
        session.is_reading = False
        made, error = self._threads.run(partial(session.answer, name), SESSION_SECONDS)
        if isinstance(error, AttemptTimeoutError):
            raise Conflict(f"query {name} took longer than {SESSION_SECONDS} s", code="query_failed")
        if session.has_muted:  # whoever moves the run is to log that
            self._warm.let_go(session)
        else:
            self._told(at, (session, turn))  # kept from now on, not while it was busy
        if isinstance(error, UserError):
            raise error
        if error is not None:
            raise Conflict(f"query {name} raised {type(error).__name__}: {error}", code="query_failed") from error
        return made

    async def updated(self, at: Standing, asked: Record, write: WriteRecord) -> Updated:
        """Runs the handler of an update. Returns the token after its record, or why the validator refused.

        Stuck: the function cannot go on with the deployed code. None: it cannot run now, or the record was not written
        and the session is closed.
        """
        session, turn = await self._session_of(at)
        if isinstance(turn.result, Stuck):
            self._told(at, (session, turn))
            return turn.result
        if session is None or not isinstance(turn.result, Suspended | Together) or asked.resumption is None:
            self._told(at, (session, turn))
            return None
        made, error = self._threads.run(partial(updated_by, session, at, asked, asked.resumption), SESSION_SECONDS)
        if isinstance(made, Failure):
            self._told(at, (session, turn))
            return made
        is_kept = False
        try:
            record = made if isinstance(made, Record) else given_up(at, asked, error)
            is_written = await write(record)
            is_kept = is_written and record is made
        finally:
            if not is_kept:  # its memory differs from its log
                self._warm.let_go(session)
        if is_kept:
            session.passed(record)
            self._told(at, (session, turn))
        return at.after(record) if is_written else None

    async def ran(self, at: Standing, name: str, attempted: Attempted) -> Outcome | None:
        """Runs an attempt of the function given to `ctx.run`, with the session to itself. Returns its outcome.

        None: the function does not ask for it now. After a failure the session is closed, with what the attempt
        changed.
        """
        session, turn = await self._session_of(at)
        function, closed = function_of(turn, name), self._warm.closed
        if session is None or function is None:
            self._told(at, (session, turn))
            return None
        outcome = await attempted(function)
        if outcome.failure is not None or self._warm.closed != closed:
            self._warm.let_go(session)
        else:
            self._told(at, (session, turn))
        return outcome

    async def _session_of(self, at: Standing, *, is_reading: bool = False) -> tuple[FunctionSession | None, Turn]:
        """Returns the token's session, for this caller alone until it is kept, and the function's turn.

        `is_reading`: its code says nothing, however far it runs, because the caller does not move the run.
        """
        session = self._warm.take(at)
        if session is not None and not can_go_on(session, at):
            self._warm.let_go(session)
            session = None
        records = [] if session is None else await self._new_records(at, session.slot)
        if session is not None and not session.follows(records):
            self._warm.let_go(session)
            session = None
        if session is None:
            return await self._replayed(at, is_reading=is_reading)
        return self._run(at, partial(self._go_on, session, records, is_reading), records)

    def close(self) -> None:
        """Closes every session: their code has changed, or the process is about to end."""
        self._known.clear()
        self._warm.close()

    # -- replaying

    async def _replayed(
        self, at: Standing, *, anew: bool = False, is_reading: bool = False
    ) -> tuple[FunctionSession | None, Turn]:
        """Replays a session from its log. `anew`: it shares nothing with other sessions, as a coroutine runs once."""
        place = parent_of(at.token.id)
        if place is None:
            since = await self._journal(at)
            stuck = self._imported(at, since.path)
            begin = partial(self._begin, at, since, is_reading)
            return (None, Turn(stuck)) if stuck else self._run(at, begin, since.records)
        index = place[2]
        forked = await self._fork(at, *place[:2], anew=anew)
        if isinstance(forked, Forked) and not self._warm.take_branch(forked, index):
            forked = await self._fork(at, *place[:2], anew=True)
        if isinstance(forked, Turn):
            return None, forked
        records = await self._new_records(at, -1)
        made = self._run(at, partial(self._begin_branch, at, forked, index, records), records)
        if not forked.is_kept:
            self._no_longer(forked, index, made[0])
        return made

    def _no_longer(self, forked: Forked, index: int, session: FunctionSession | None) -> None:
        """Closes the parent's session, or leaves it to the branch if that needs objects of the parent's code."""
        one: object = forked.asked.branches[index]
        if session is not None and isinstance(one, Operation) and (one.asked.branches or one.asked.function):
            session.outer = forked.session
        else:
            self._warm.let_go(forked.session)

    async def _journal(self, at: Standing) -> Since:
        """Returns the records since the function began, or began anew, with the input and state of that time."""
        own = at.graph.code
        if not own:
            raise EngineFault(f"{at.graph.name} is no durable function", code="broken_session")
        began = at.token.began_slot
        records = await self._new_records(at, max(began - 1, -1))
        if began < 0:
            since_ms = at.token.first_ms or max(at.run.created_ms, at.run.start_at_ms, at.token.started_ms)
            return Since(own, at.run.input, {}, since_ms, records)
        if not records:
            raise EngineFault(f"{at.token.id} has no record in slot {began}", code="broken_log")
        first = records[0]
        path = continued_as(first) or own
        return Since(path, first.output, first.writes or {}, first.at_ms, records[1:], is_own=path == own)

    async def _fork(self, at: Standing, parent: str, slot: int, *, anew: bool = False) -> Forked | Turn:
        """Returns the branches that the parent awaits in that slot, or the parent's turn if it cannot get there."""
        held = None if anew else self._warm.branches(at, parent, slot)
        if held is not None:
            return held
        fork = await self._logbook.fork(at.run_id, parent, slot)
        if fork is None:
            raise EngineFault(f"{parent} has no fork in slot {slot}", code="broken_log")
        if fork.parent.token.began_slot > slot:  # the parent began anew: nobody waits for the branch
            return Turn(Failed(_GONE))
        session, turn = await self._replayed(fork.parent, anew=anew)
        asked = None if session is None else branches_of(session, slot)
        if session is None or asked is None:
            if session is not None:
                self._warm.let_go(session)
            is_stuck = isinstance(turn.result, Stuck)
            return await with_parts(self._logbook, fork.parent, turn) if is_stuck else elsewhere(turn)
        found = Forked(asked, session, dict(session.state), set(), is_kept=not anew and self._warm.most > 0)
        if found.is_kept:
            self._warm.keep_branches(at, parent, slot, found)
        return found

    # -- users' code, in a thread that can be stopped

    def _imported(self, at: Standing, path: str) -> Result | None:
        """Imports the function's module, apart from the time limit of a turn. Returns what went wrong, else None."""
        if path in self._known:
            return None
        _, error = self._threads.run(lambda: watch(self._registry.function(path)), STEP_TIMEOUT_MS / SECOND_MS)
        if error is not None:
            return not_imported(at, path, error)
        self._known.add(path)
        return None

    def _run(
        self, at: Standing, first: Callable[[], FunctionSession], records: list[Record]
    ) -> tuple[FunctionSession | None, Turn]:
        """Runs the function along its records. The time limit is for a part of them, however long the log is.

        `first` runs it along the first part.
        """
        work = first
        for start in range(SESSION_RECORDS, len(records), SESSION_RECORDS):
            session, error = self._threads.run(work, SESSION_SECONDS)
            if not isinstance(session, FunctionSession):
                return None, Turn(of_error(at, error, records))
            work = partial(_further, session, records, start)
        made, error = self._threads.run(lambda: _with_turn(work(), at), SESSION_SECONDS)
        if isinstance(made, tuple):
            session, turn = made
            return session, turn
        return None, Turn(of_error(at, error, records))

    def _begin(self, at: Standing, since: Since, is_reading: bool) -> FunctionSession:
        function = self._registry.function(since.path)
        check(at, function, since.path, is_own=since.is_own)
        context = Context(at.run_id, at.run.workflow, self._url)
        body: Any = function(**binding_of(function).bind(since.input, context, at.graph.start))
        session = session_of(at, body, at.token.began_slot, since.began_ms, deepcopy(dict(since.state)))
        session.is_reading = session.is_reading or is_reading
        session.begin(since.records, SESSION_RECORDS)
        return session

    def _begin_branch(self, at: Standing, forked: Forked, index: int, records: list[Record]) -> FunctionSession:
        one: Awaitable[object] = forked.asked.branches[index]
        body: Any = only(one) if isinstance(one, Operation) else one
        since_ms = at.token.branch.started_ms if at.token.branch else 0
        session = session_of(at, body, -1, since_ms, read_only(forked.state), isinstance(one, Operation))
        session.parent = forked.session
        session.begin(records, SESSION_RECORDS)
        return session

    def _go_on(self, session: FunctionSession, records: list[Record], is_reading: bool) -> FunctionSession:
        session.is_reading = is_reading
        session.go_on(records, 0, SESSION_RECORDS)
        return session

    # -- keeping

    async def _new_records(self, at: Standing, after: int) -> list[Record]:
        """Returns the records after a slot up to the token's slot: its log may have gone on since."""
        if at.token.slot == after + 1 and at.token.last is not None:
            return await self._logbook.in_full(at.run_id, at.token.id, [at.token.last])
        if at.token.slot == after:
            return []
        return list(await self._logbook.history(at.run_id, at.token.id, after, at.token.slot - after))

    def _told(self, at: Standing, made: tuple[FunctionSession | None, Turn]) -> Standing:
        session, turn = made
        if session is not None and isinstance(turn.result, Suspended | Together):
            self._warm.keep(at, session)
        elif session is not None and isinstance(turn.result, Stuck):
            self._warm.let_go(session)
        elif session is not None and session.outer is not None:
            self._warm.let_go(session.outer)
        if at.token.id == ROOT and isinstance(turn.result, Completed | Failed):
            self._warm.drop_branches(at)
        return changed(at, turn=turn)


def _further(session: FunctionSession, records: list[Record], start: int) -> FunctionSession:
    session.go_on(records, start, start + SESSION_RECORDS)
    return session


def _with_turn(session: FunctionSession, at: Standing) -> tuple[FunctionSession, Turn]:
    return session, turn_of(session, at)
