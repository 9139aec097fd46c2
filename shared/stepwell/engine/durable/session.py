"""The session: one durable function, replayed against the log of its token. It knows no other workflow.

    log      charge: 12.0      paid: {…}        sleep ▒ under way
    session  ──▶ await step ──▶ await event ──▶ await sleep       = Suspended(sleep)

The function gets the log's results as it awaits them, in order; at the end of the log, its turn is over. So
a session always replays, and a kept session continues with the records that are new to it.

A runner runs the function's code. What its tasks await beside each other is begun by one record, and the ends come as
records of their own, in the order of arrival:

    log      tasks begin a, b     b ended     a ended
    session  ──▶ gather(a, b) ──▶ b's task ──▶ a's task, and the rest
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar

from stepwell.definition.graph import Json, Wait
from stepwell.engine.durable.alone import Alone
from stepwell.engine.durable.asking import (
    OF_LOCKS,
    asks_for_another,
    close_unstarted,
    fails_now,
    has_other_arguments,
    lock_in_task,
    lock_nested,
    never_ends,
    of_other_arguments,
    shown,
    takes_no_updates,
)
from stepwell.engine.durable.finished import UNKNOWN
from stepwell.engine.durable.held_back import HeldBack
from stepwell.engine.durable.journal import INPUTS, INTERRUPTED, LOST, TIMER, Entry, Journal, entries, first_own
from stepwell.engine.durable.runner import Pending, Runner
from stepwell.engine.durable.turns import Asked, Completed, ContinueAs, Failed, Result, Stuck, Suspended, Together
from stepwell.engine.limits.locks import LOCK
from stepwell.engine.records import ENDED, TASKS, UPDATE, Failure, Place, Record, Resumption
from stepwell.errors import Cancelled, EngineFault
from stepwell.limits import TASKS_BEGUN

CURRENT: ContextVar[Session] = ContextVar("session")  # the session of the running function


class Session(Alone):
    """One function's run so far. For one thread at a time."""

    def __init__(
        self,
        runner: Runner,
        since_ms: int,
        *,
        raised: Callable[[Failure, Asked | None], BaseException],
        failed: Callable[[BaseException], Failure],
        stored: Callable[[object], Json],
        slot: int = -1,
        is_whole: bool = False,
    ) -> None:
        """`since_ms`: when it began, as its log tells. `slot`: of the last record before those it replays.

        `raised` makes of a failed operation what the function can catch, `failed` the failure of what it raised, and
        `stored` the JSON of what it returned: raising where there is none.
        """
        self._runner, self._raised, self._failed, self._stored = runner, raised, failed, stored
        self._journal, self._is_whole = Journal(), is_whole
        self._result: Result | None = None
        self._alone: Asked | None = None  # an operation under way beside which there is nothing
        self._pending: Pending | None = None  # who awaits that; None: a timer of the tasks
        self.open: dict[Place, Pending] = {}  # operations of its tasks that are under way
        self._recorded: dict[str, bool] = {}  # patches by their ids: whether they are in force
        self._locks = HeldBack()
        self._fresh: list[str] = []  # those found in force since the last operation was asked for
        self.answers: dict[str, Json] = {}  # of updates by id, whose handlers have ended, and no record says so yet
        self._ahead: tuple[list[Record], int] = ([], 0)  # what the log holds, and where, as the function runs up to it
        self._is_closed = self._is_updated_again = self._has_begun = False
        self.slot, self.now_ms = slot, since_ms

    def begin(self, records: list[Record], end: int | None = None) -> None:
        """Runs the function to its first operation, then as `go_on` does. The records may name patches."""
        self._has_begun = True
        self._run(records, 0)
        self.go_on(records, 0, end)

    def go_on(self, records: list[Record], start: int = 0, end: int | None = None) -> None:
        """Adds the new records, in order, and runs the function as far as they lead.

        `start` and `end` are those of a part of the records, whose other parts have their calls before and after it.
        """
        if not start and self._can_go_on():  # an update woke it
            self._run(records, 0)
        for at in range(start, len(records) if end is None else min(end, len(records))):
            record = records[at]
            if record.slot != self.slot + 1:
                raise EngineFault(f"slot {record.slot} cannot follow slot {self.slot}", code="gap_in_log")
            self._take(record, records, at + 1)
            self.slot = record.slot

    def follows(self, records: list[Record]) -> bool:
        """Tells whether it came here the way of new records. Another worker may have code from before its patches."""
        if not self._fresh or self._journal.open is not None:
            return True
        own = first_own(entries(records, has_tasks=self._journal.has_tasks))
        return own is None or {*self._fresh} <= {*own.patches}

    @property
    def is_replaying(self) -> bool:
        """Tells whether the log already holds the function's next operation."""
        return self._is_closed or self._is_updated_again or next(self._coming(), None) is not None

    @property
    def asked(self) -> Asked | None:
        """The operation that it awaits, if it awaits no other beside it."""
        result = self.result()
        return result.asked if isinstance(result, Suspended) else None

    @property
    def has_ended(self) -> bool:
        """Tells whether the function awaits nothing any more, or cannot go on."""
        return self._result is not None

    def result(self) -> Result:
        """Returns the function's state after all its records."""
        if self._result is not None:
            return self._result
        if not self._has_begun:
            raise EngineFault("a session that has not begun has no result", code="broken_session")
        if self._alone is not None:
            under_way = self._journal.open
            by = self._pending.by if self._pending else ""
            return Suspended(self._alone, under_way.slot if under_way else -1, self._is_whole, by)
        return self._next()

    def stands_at(self, slot: int) -> bool:
        """Tells whether the function awaits the operation of this slot."""
        under_way = self._journal.open
        return self.asked is not None and slot == (under_way.slot if under_way else self.slot + 1)

    def patched(self, name: str) -> bool:
        """Tells whether the code after a patch runs. The first answer is recorded, and stays."""
        if name not in self._recorded:
            self._recorded[name] = self.in_force(name)
        return self._recorded[name]

    def in_force(self, name: str) -> bool:
        """Tells whether the log has this patch next; at the end of the log it gets it. It may differ the next time."""
        coming = first_own(self._coming())
        in_force = coming is None or name in coming.patches
        if in_force and name not in self._fresh:
            self._fresh.append(name)
        return in_force

    def is_recorded_fork(self, asked: Asked) -> bool:
        """Tells whether the log has this next, as a fork of coroutines, which releases before 0.2 made of it."""
        coming = first_own(self._coming())
        if coming is None or not coming.may_be_coroutines:
            return False
        return (coming.kind, coming.name, coming.width) == (asked.kind, asked.name, asked.width)

    def patches(self) -> tuple[str, ...]:
        """Returns the patches that the next record must name."""
        return tuple(self._fresh)

    def passed(self, record: Record) -> None:
        """Notes that the update which was just made is recorded."""
        if record.slot != self.slot + 1:
            raise EngineFault(f"slot {record.slot} cannot follow slot {self.slot}", code="gap_in_log")
        self.slot, self.now_ms = record.slot, record.at_ms

    @property
    def is_closed(self) -> bool:
        """Tells whether the function was let go: what it holds may be other than its log says."""
        return self._is_closed

    def close(self) -> None:
        """Closes the function. It cannot await anything any more, and its exceptions are ignored."""
        self._is_closed = True
        begun = (one.asked for one in (*self._runner.fresh, *self.open.values()))
        close_unstarted([self._alone, *begun, *self.unawaited()])
        self._runner.close()

    # -- running

    def _coming(self) -> Iterator[Entry]:
        """What the log has next: looked for only when the function wants to know."""
        records, following = self._ahead
        coming = (records[at] for at in range(following, len(records)))  # `islice` would pass over all before
        return entries(coming, has_tasks=self._journal.has_tasks)

    def _can_go_on(self) -> bool:
        """Tells whether an update has woken a task, or came when a timer was due."""
        due_ms = self._runner.due_ms
        return self._runner.is_ready or (due_ms is not None and due_ms <= self.now_ms)

    def _next(self) -> Result:
        """What follows the last record, where no operation is under way alone."""
        runner, fresh = self._runner, self._runner.fresh
        cancelled = tuple(one.place for one in runner.cancelled if one.place is not None)
        if not self._journal.has_tasks and not self.open:
            if len(fresh) == 1 and self._is_alone():
                return self._lock_nested(fresh[0]) or Suspended(fresh[0].asked, -1, self._is_whole, fresh[0].by)
            if not fresh and runner.due_ms is not None and not self.takes_updates:
                wait = Wait("sleep", timeout_ms=max(runner.due_ms - self.now_ms, 0))
                return Suspended(Asked("sleep", "sleep", wait=wait), by=UNKNOWN if runner.is_shared else "")
        if not (fresh or self.open or cancelled) and runner.due_ms is None and not self.takes_updates:
            return Failed(never_ends(runner.place))
        if (lock := next((one for one in fresh if one.asked.kind in OF_LOCKS), None)) is not None:
            if len(fresh) == 1 and not self.open and runner.due_ms is None:  # the tasks await nothing more
                return self._lock_nested(lock) or Suspended(lock.asked, -1, self._is_whole, lock.by)
            return Failed(lock_in_task(runner.place_of(lock)))
        begun = fresh[:TASKS_BEGUN]
        return Together(tuple(one.asked for one in begun), cancelled, runner.due_ms, by=tuple(one.by for one in begun))

    def _lock_nested(self, asked: Pending) -> Failed | None:
        """Returns the function's failure if it asks for a lock while it holds one; None for what it may ask."""
        if not (asked.asked.locks and self._locks.is_held):
            return None
        return Failed(lock_nested(self._runner.place_of(asked)))

    def _is_alone(self) -> bool:
        """Tells whether the one operation that has no record is to be recorded as the only one in progress.

        Where updates may come, what takes no update while it is in progress is a task's; so is what the operations of
        an update would wait for.
        """
        is_task = self.takes_updates and takes_no_updates(self._runner.fresh[0].asked)
        return self._is_single() and not (self.awaits_in_updates or is_task)

    def _is_single(self) -> bool:
        """Tells whether no task awaits anything but the one operation that has no record."""
        runner = self._runner
        if self._journal.has_tasks or self.open or runner.due_ms is not None or self._result is not None:
            return False
        return not (self.takes_updates and runner.is_shared)  # an update may let another task go on

    def _update_again(self, record: Record, resumption: Resumption) -> None:
        """As it was made when the function stood here. What its code says now must not be another thing."""
        if self._result is not None:
            return
        self.now_ms = record.at_ms
        if (resumption.payload or {}).get("refused"):
            return
        self._is_updated_again = True
        try:
            failure = self.update(resumption)
        finally:
            self._is_updated_again = False
        if failure is not None and resumption.payload.get("error") is None:
            self._result = Stuck(fails_now(record.slot, resumption.name, failure))

    def _take(self, record: Record, records: list[Record], following: int) -> None:
        if record.answers:
            for update in record.answers:
                self.answers.pop(update, None)
        if record.resumption is not None and record.resumption.kind == UPDATE:
            self._update_again(record, record.resumption)
            if self._result is None and self._can_go_on():
                self._run(records, following)
            return
        entry = self._journal.take(record)
        if entry is None or isinstance(self._result, Stuck):
            return
        if entry.kind in (LOST, INTERRUPTED) and self._result is not None:  # who awaits nothing more: its end stands
            return
        if entry.kind == TASKS:
            self._claim(entry)
            return
        if entry.kind not in INPUTS and entry.slot == record.slot and not self._begins(entry):
            return
        if entry.ended_ms is not None:
            self.now_ms = entry.ended_ms
            self._deliver(entry)
            self._run(records, following)

    def _deliver(self, entry: Entry) -> None:
        """Gives what came to whoever awaits it."""
        alone, pending = self._alone, self._pending
        if entry.kind == ENDED and entry.place is not None:
            self._end(self.open.pop(entry.place, None), entry)
            return
        if entry.kind == TIMER:
            return
        self._alone = self._pending = None
        if entry.kind in OF_LOCKS:
            self._locks.is_held = entry.kind == LOCK and entry.error is None
        if entry.kind == INTERRUPTED:  # what was interrupted may have no record to name its patches
            awaited = [pending] if pending else []
            under_way = [*awaited, *self.open.values(), *self._runner.fresh, *self._locks.waiting]
            self.open.clear()
            self._locks.waiting.clear()
            self._runner.fresh.clear()
            self._runner.cancelled.clear()
            self._runner.interrupt(Cancelled(entry.name), under_way)
            close_unstarted([alone, *(one.asked for one in under_way)])
        else:
            self._fresh = []
            self._end(pending, entry)
            if alone is not None and alone.branches:
                close_unstarted([alone])

    def _end(self, pending: Pending | None, entry: Entry) -> None:
        if pending is None:
            return
        if self._runner.cancelled and pending in self._runner.cancelled:  # it ended before a record said so
            self._runner.cancelled.remove(pending)
            return
        error = None if entry.error is None else self._raised(entry.error, pending.asked)
        self._runner.end(pending, entry.value, error)

    def _begins(self, entry: Entry) -> bool:
        """Whether this is what the function awaits now; then it is under way."""
        fresh = self._runner.fresh
        asked = fresh[0].asked if len(fresh) == 1 and self._is_single() else None
        if asked is None or asked.name != entry.name or asked.kind != entry.kind or asked.width != entry.width:
            result = self.result()
            asked = result.asked if isinstance(result, Suspended) else None
            if entry.kind == LOST:  # of several, the first stands for all
                asked = fresh[0].asked if fresh else asked
            elif not self._fits(entry, asked, result):
                return False
        if asked is not None and self._has_other_arguments(entry, [asked]):
            self._result = of_other_arguments(entry, str(asked), self._runner.place, [asked])
            return False
        self._alone, self._pending = asked, fresh.pop(0) if fresh else None
        return True

    def _has_other_arguments(self, entry: Entry, asked: Sequence[Asked]) -> bool:
        return has_other_arguments(entry, asked) and not any(map(self.holds_link, asked))

    def _claim(self, entry: Entry) -> None:
        """These operations of the tasks have begun."""
        result, fresh = self.result(), self._runner.fresh
        claimed = fresh[: len(entry.begun)]
        begun = [str(one.asked) for one in claimed]
        if not isinstance(result, Together) or begun != list(entry.begun):
            instead = str(result.asked) if isinstance(result, Suspended) else None
            actual = shown(begun) if isinstance(result, Together) else instead
            self._result = asks_for_another(entry, actual, self._runner.place, shown(entry.begun))
            return
        asked = [one.asked for one in claimed]
        if self._has_other_arguments(entry, asked):
            place = self._runner.place
            self._result = of_other_arguments(entry, shown(begun), place, asked, shown(entry.begun))
            return
        for index, pending in enumerate(claimed):
            pending.place = (entry.slot, index)
            self.open[entry.slot, index] = pending
        del fresh[: len(claimed)]
        for pending in self._runner.cancelled:
            if pending.place is not None:
                self.open.pop(pending.place, None)
        self._runner.cancelled.clear()
        self._hold_back()
        self._fresh = []

    def _fits(self, entry: Entry, asked: Asked | None, result: Result) -> bool:
        """Whether it is what the function awaits. Else its code is another than that which wrote the log."""
        expected, actual = str(entry), str(asked) if asked else None
        if asked is not None and expected == actual:
            if entry.width == asked.width:
                return True
            expected, actual = f"{entry} of {entry.width}", f"{asked} of {asked.width}"
        if isinstance(result, Together):
            actual = shown([str(one) for one in result.begun])
        self._result = asks_for_another(entry, actual, self._runner.place, expected)
        return False

    def _run(self, records: list[Record], following: int) -> None:
        """Runs the function until it awaits operations, or to its end."""
        self._ahead = (records, following)
        try:
            self._runner.run(self.now_ms, self.slot + 1)
            self._hold_back()
            outcome = self._runner.outcome()
            if outcome is not None:
                self._result = self._result_of(*outcome)
        finally:
            self._ahead = ([], 0)

    def _hold_back(self) -> None:
        runner, locks = self._runner, self._locks
        if locks.waiting or any(one.asked.kind in OF_LOCKS for one in runner.fresh):
            locks.hold_back(runner.fresh, self.open.values(), runner.cancelled, has_timer=runner.due_ms is not None)

    def _result_of(self, value: object, error: BaseException | None) -> Result:
        if issubclass(type(error), Cancelled):  # isinstance would read `__class__`, which may raise
            return Failed(Failure("cancelled", "step", str(error)), is_cancel=True)
        if error is not None:
            return Failed(self._failed(error))  # all that users' code raises; `failed` passes on what stops it
        if (forgotten := self.forgotten(value)) is not None:
            return Failed(forgotten)
        if isinstance(value, ContinueAs):
            return value
        try:
            return Completed(self._stored(value))
        except Exception as unstorable:  # of any type, for it makes JSON of users' objects
            return Failed(self._failed(unstorable))
