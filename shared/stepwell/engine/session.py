"""The session: one durable function, replayed against the log of its token. It knows no other workflow.

    log      charge: 12.0      paid: {…}        sleep ▒ under way
    session  ──▶ await step ──▶ await event ──▶ await sleep       = Suspended(sleep)

The function gets the log's results as it awaits them, in order; at the end of the log, its turn is over. So
a session always replays, and a kept session continues with the records that are new to it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from itertools import islice
from typing import Any, TypeAlias

from stepwell.definition.graph import Json
from stepwell.engine.journal import INTERRUPTED, LOST, Entry, Journal
from stepwell.engine.records import UPDATE, Failure, Record, Resumption
from stepwell.engine.turns import Asked, Completed, ContinueAs, Failed, Result, Stuck, Suspended
from stepwell.errors import Cancelled, EngineFault

Body: TypeAlias = Coroutine[Any, Any, object]

_CLOSES = 20  # of one function: one more for each `finally` around what it awaits
CURRENT: ContextVar[Session] = ContextVar("session")  # the session of the running function


class Session:
    """One function's run so far. For one thread at a time."""

    def __init__(
        self,
        body: Body,
        since_ms: int,
        *,
        raised: Callable[[Failure, Asked | None], BaseException],
        told: Callable[[BaseException], Failure],
        stored: Callable[[object], Json],
        slot: int = -1,
        is_whole: bool = False,
    ) -> None:
        """`since_ms`: when it began, as its log tells. `slot`: of the last record before those it replays.

        `raised` makes of a failed operation what the function can catch, `told` the failure of what it raised, and
        `stored` the JSON of what it returned: raising where there is none.
        """
        self._body, self._raised, self._told, self._stored = body, raised, told, stored
        self._journal, self._is_whole = Journal(), is_whole
        self._result: Result | None = None
        self._asked: Asked | None = None
        self._recorded: dict[str, bool] = {}  # patches by their ids: whether they are in force
        self._fresh: list[str] = []  # those found in force since the last operation was asked for
        self._ahead: tuple[list[Record], int] = ([], 0)  # what the log holds, and where, as the function runs up to it
        self._is_closed = self._is_updated_again = False
        self.slot, self.now_ms = slot, since_ms

    def begin(self, records: list[Record]) -> None:
        """Runs the function to its first operation. `records` are those that follow, which may name patches."""
        self._run(None, records, 0)
        self.go_on(records)

    def go_on(self, records: list[Record]) -> None:
        """Adds the new records, in order, and runs the function as far as they lead."""
        for at, record in enumerate(records):
            if record.slot != self.slot + 1:
                raise EngineFault(f"slot {record.slot} cannot follow slot {self.slot}", code="gap_in_log")
            self._take(record, records, at + 1)
            self.slot = record.slot

    @property
    def is_replaying(self) -> bool:
        """Tells whether the log already holds the function's next operation."""
        return self._is_closed or self._is_updated_again or next(self._coming(), None) is not None

    @property
    def asked(self) -> Asked | None:
        """What it awaits."""
        return self._asked

    def result(self) -> Result:
        """Returns the function's state after all its records."""
        if self._result is not None:
            return self._result
        if self._asked is None:
            raise EngineFault("a session that has not begun has no result", code="broken_session")
        under_way = self._journal.open
        return Suspended(self._asked, under_way.slot if under_way else -1, self._is_whole)

    def stands_at(self, slot: int) -> bool:
        """Tells whether the function awaits the operation of this slot."""
        under_way = self._journal.open
        return self._asked is not None and slot == (under_way.slot if under_way else self.slot + 1)

    def patched(self, name: str) -> bool:
        """Tells whether the code after a patch runs. The first answer is recorded, and stays."""
        if name not in self._recorded:
            coming = next((entry for entry in self._coming() if entry.kind != INTERRUPTED), None)
            in_force = coming is None or name in coming.patches
            self._recorded[name] = in_force
            if in_force:
                self._fresh.append(name)
        return self._recorded[name]

    def patches(self) -> tuple[str, ...]:
        """Returns the patches that the next record must name."""
        return tuple(self._fresh)

    def update(self, came: Resumption) -> Failure | None:
        """What goes wrong with an update that the log tells of. A session of more than this can take one."""
        raise EngineFault(f"this session takes no update {came.name}", code="broken_session")

    def passed(self, record: Record) -> None:
        """Notes that the update which was just made is recorded."""
        if record.slot != self.slot + 1:
            raise EngineFault(f"slot {record.slot} cannot follow slot {self.slot}", code="gap_in_log")
        self.slot, self.now_ms = record.slot, record.at_ms

    def close(self) -> None:
        """Closes the function. It cannot await anything any more, and its exceptions are ignored."""
        token = CURRENT.set(self)
        self._is_closed = True
        try:
            _close_unstarted(self._asked)
            for _ in range(_CLOSES):
                if self._closed():
                    break
        finally:
            CURRENT.reset(token)

    def _closed(self) -> bool:
        """Tells whether the function is closed. A `finally` that awaits is interrupted, too."""
        try:
            self._body.close()
        except RuntimeError:
            return False
        except Exception:  # its log says where it stands: what a `finally` meets here will be met again in its place
            return True
        return True

    # -- running

    def _coming(self) -> Iterator[Entry]:
        """What the log has next: looked for only when the function wants to know."""
        records, at = self._ahead
        ahead = Journal()
        return (entry for record in islice(records, at, None) if (entry := ahead.take(record)) is not None)

    def _update_again(self, record: Record, came: Resumption) -> None:
        """As it was made when the function stood here. What its code says now must not be another thing."""
        if self._result is not None or (came.payload or {}).get("refused"):
            return
        self.now_ms, self._is_updated_again = record.at_ms, True
        try:
            failure = self.update(came)
        finally:
            self._is_updated_again = False
        if failure is not None and came.payload.get("error") is None:
            message = f"record {record.slot} holds the update {came.name}, and its handler now fails: {failure.message}"
            data = {"slot": record.slot, "expected": f"update {came.name}", "came": failure.type}
            self._result = Stuck(Failure("non_determinism", "validation", message, data=data))

    def _take(self, record: Record, records: list[Record], following: int) -> None:
        if record.resumption is not None and record.resumption.kind == UPDATE:
            self._update_again(record, record.resumption)
            return
        entry = self._journal.take(record)
        if entry is None or isinstance(self._result, Stuck):
            return
        if entry.kind in (LOST, INTERRUPTED) and self._asked is None:  # who awaits nothing more: its end stands
            return
        if entry.kind != INTERRUPTED and entry.slot == record.slot and not self._fits(entry):
            return
        if entry.ended_ms is None:
            return
        self.now_ms = entry.ended_ms
        self._run(entry, records, following)

    def _fits(self, entry: Entry) -> bool:
        """Whether it is what the function awaits. Else its code is another than that which wrote the log."""
        asked = self._asked
        if asked is not None and entry.kind == LOST:
            return True
        expected, came = str(entry), str(asked) if asked else None
        if asked is not None and expected == came:
            if entry.width == asked.width:
                return True
            expected, came = f"{entry} of {entry.width}", f"{asked} of {asked.width}"
        message = (
            f"record {entry.slot} holds {expected}, and the function {f'asks for {came}' if came else 'has ended'}"
        )
        hint = "bring the old order back, or put what is new behind ctx.patched"
        data = {"slot": entry.slot, "expected": expected, "came": came}
        self._result = Stuck(Failure("non_determinism", "validation", f"{message}; {hint}", data=data))
        return False

    def _run(self, entry: Entry | None, records: list[Record], following: int) -> None:
        """Runs the function to its next operation, or to its end."""
        asked, self._asked, self._ahead = self._asked, None, (records, following)
        if entry is None or entry.kind != INTERRUPTED:  # what was interrupted may have no record to name them
            self._fresh = []
        token = CURRENT.set(self)
        _close_unstarted(asked)
        try:
            self._suspend(self._sent(entry, asked))
        except StopIteration as end:
            self._end(end.value)
        except Cancelled as error:
            self._result = Failed(Failure("cancelled", "step", str(error)))
        except BaseException as error:  # all that users' code raises; `told` passes on what stops it
            self._result = Failed(self._told(error))
        finally:
            CURRENT.reset(token)
            self._ahead = ([], 0)

    def _sent(self, entry: Entry | None, asked: Asked | None) -> object:
        if entry is not None and entry.kind == INTERRUPTED:
            return self._body.throw(Cancelled(entry.name))
        if entry is not None and entry.error is not None:
            return self._body.throw(self._raised(entry.error, asked))
        return self._body.send(None if entry is None else entry.value)

    def _suspend(self, asked: object) -> None:
        if isinstance(asked, Asked):
            self._asked = asked
        else:
            self._result = Failed(foreign_await(f"it awaited {type(asked).__name__}"))

    def _end(self, value: object) -> None:
        if isinstance(value, ContinueAs):
            self._result = value
            return
        try:
            self._result = Completed(self._stored(value))
        except Exception as error:  # of any type, for it makes JSON of users' objects
            self._result = Failed(self._told(error))


def foreign_await(what: str) -> Failure:
    message = f"{what}; a workflow awaits what ctx gives it alone: put this into a step"
    return Failure("foreign_await", "validation", message)


def _close_unstarted(asked: Asked | None) -> None:
    """Closes coroutines of branches that ran in another process, or that will never run."""
    for one in asked.branches if asked is not None and isinstance(asked.branches, tuple) else ():
        if inspect.iscoroutine(one) and inspect.getcoroutinestate(one) == inspect.CORO_CREATED:
            one.close()
        else:  # an operation may have branches itself
            _close_unstarted(getattr(one, "asked", None))
