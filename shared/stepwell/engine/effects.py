"""Effects: the side effects of a record, whose kinds are in `effect_kinds`.

They are a function of the record, may be repeated, and happen before the next append.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stepwell.definition.graph import Graph
from stepwell.engine.children import call_of, is_over, startable
from stepwell.engine.decide import due_ms, timer_slot
from stepwell.engine.durable.tasks import wait_shown
from stepwell.engine.effect_kinds import (
    Announce,
    Arrive,
    Close,
    Effect,
    EndChildren,
    Forget,
    GiveBackPermits,
    LeaveChildren,
    LeaveGathering,
    Open,
    Register,
    ReleaseLocks,
    SetDeadline,
    SetTimer,
    ShowStatus,
    StartChildren,
    TakeLocks,
    TakePending,
    TakePermit,
)
from stepwell.engine.forks.branches import parent_of, with_needs
from stepwell.engine.forks.join import fan_in_of
from stepwell.engine.limits import throttles
from stepwell.engine.limits.permits import returned
from stepwell.engine.records import (
    TASKS,
    CleanUp,
    Compensate,
    End,
    Fork,
    Group,
    Kind,
    Parked,
    Pause,
    Place,
    Record,
    Resumption,
    Status,
)
from stepwell.engine.token import Begun, Token
from stepwell.engine.waits.aside import is_for_limit
from stepwell.engine.waits.kind import coming_of
from stepwell.limits import ID_HELD_MS

GOVERNANCE = "governance.blocked"  # the event


def picked_up(token: Token, now_ms: int) -> ShowStatus:
    """Shows that a worker has the run, before its first step. One that is paused before that has not begun."""
    return ShowStatus(2 * token.slot + 1, Status.RUNNING, now_ms, picked_up=True, unless_paused=True)


_OF_WAITS = frozenset({Kind.WAITING, Kind.RECEIVED, Kind.RESUMED})


def effects(graph: Graph, token: Token) -> tuple[Effect, ...]:
    """Returns the effects of the token's last record, in order. The header shows the root, and its branches' waits."""
    found = _effects(graph, token)
    if token.undoing and token.end is None:  # the run is ending, whatever it does
        found = tuple(_undoing(one) for one in found)
    if token.dropped:
        found = (*found, *closing(token.dropped))
    given_back: tuple[Effect, ...] = (ReleaseLocks(token.released),) if token.released else ()
    given_back += (GiveBackPermits(token.returned),) if token.returned else ()
    if given_back:
        found = (*(one for one in found if not _follows(one)), *given_back, *(one for one in found if _follows(one)))
    is_of_wait = token.last is not None and token.last.kind in _OF_WAITS and not token.ended
    if not found or token.branch is None or is_of_wait:
        return found
    return tuple(one for one in found if not isinstance(one, ShowStatus))


def _follows(effect: Effect) -> bool:
    """Tells whether an effect follows what is given back: others go on; or the run is over, and nobody looks again."""
    return isinstance(effect, Open | Arrive) or (isinstance(effect, ShowStatus) and effect.status.terminal)


def _undoing(effect: Effect) -> Effect:
    match effect:
        case ShowStatus():
            return replace(effect, status=Status.COMPENSATING)
        case TakePermit(shown=shown):
            return replace(effect, shown=replace(shown, status=Status.COMPENSATING))
        case _:
            return effect


def _effects(graph: Graph, token: Token) -> tuple[Effect, ...]:
    record = token.last
    if record is None:
        return ()
    if token.end is not None:
        return _of_end(graph, token, record, token.end)
    match record.kind, record.next:
        case kind, _ if kind in _OF_WAITS:
            return _of_waiting(graph, token, record)
        case _, Compensate():
            return _of_broken(graph, token, record)
        case _, CleanUp(until_ms=until_ms):
            return (SetDeadline(until_ms), *_of_broken(graph, token, record, Status.RUNNING))
        case _, Fork(width=width) as fork:
            # a join that failed may fork in its turn
            closed = (Close(record.slot - 1),) if token.early_slot == record.slot else ()
            return (*closed, Open(with_needs(graph, fork), record.slot)) if width else closed
        case Kind.JOINED, _:
            return _of_join(graph, token, record)
        case Kind.STARTED | Kind.REDRIVEN | Kind.RETURNED, _ if token.branch is None:
            return _of_start(graph, token, record)
        case Kind.STEP, Pause() if record.error is not None:
            payload = {"node": record.node, "reason": record.error.message, "data": record.error.data}
            return (Announce(GOVERNANCE, payload, f"{token.id}@{record.slot}"),)
        case _:
            return ()


def _of_start(graph: Graph, token: Token, record: Record) -> tuple[Effect, ...]:
    """Shows an idle run that was started, or a redriven one, whose time begins here; and that of gathered starts.

    A function that begins anew leaves the tasks of its life before: if they all waited, the header says so until here.
    It may say so, too, where whoever began one of them may have died.
    """
    if record.kind is Kind.RETURNED:
        return (ShowStatus(2 * record.slot, Status.RUNNING, record.at_ms),) if token.tasks_waited else ()
    if token.gathered is not None and record.kind is Kind.STARTED:
        return (LeaveGathering(), *_deadline(graph, token, record))
    if record.kind is Kind.STARTED:
        return (ShowStatus(2 * record.slot, Status.PENDING, record.at_ms),)
    shown = ShowStatus(2 * record.slot, Status.RUNNING, record.at_ms, picked_up=True)
    return (shown, *_deadline(graph, token, record))


def _deadline(graph: Graph, token: Token, record: Record) -> tuple[Effect, ...]:
    if graph.timeout_ms is None:
        return ()
    return (SetDeadline((token.started_ms or record.at_ms) + graph.timeout_ms),)


def _of_waiting(graph: Graph, token: Token, record: Record) -> tuple[Effect, ...]:
    """Yields the effects of a wait that began, got a part, or ended. A wait for locks registers nothing."""
    parked, running = token.parked, ShowStatus(2 * record.slot, Status.RUNNING, record.at_ms)
    if parked is None:
        return (running,)
    if parked.of_tasks:
        return _of_tasks(token, record)
    if is_for_limit(parked):
        return _of_permit(token, record)
    if record.kind is Kind.WAITING:
        return _of_wait(token, record, parked)
    if record.kind is Kind.RECEIVED and not _came_late(token, record):
        return _of_part(token, record, parked, record.resumption)
    return (running, *_of_wait_over(graph, token, record, parked))


def _came_late(token: Token, record: Record) -> bool:
    """Tells whether an update, or the end of an operation, followed the end of the wait: nobody may have shown that.

    A    RESUMED ── dies                     B    RECEIVED ── the header: running ── asks the function
    """
    return record.kind is Kind.RECEIVED and token.resumption is not None


def _of_permit(token: Token, record: Record) -> tuple[Effect, ...]:
    """Yields the effects of a wait for a permit. Another delivery may have shown it: its end is shown always."""
    permit = throttles.awaited(token)
    if permit is not None:
        shown = ShowStatus(2 * record.slot, Status.WAITING, record.at_ms, token.parked, record.node)
        return (TakePermit(permit, shown),)
    return (ShowStatus(2 * record.slot, Status.RUNNING, record.at_ms),)


def _of_tasks(token: Token, record: Record) -> tuple[Effect, ...]:
    """Lets begin what the tasks of a durable function have begun, and shows whether they wait."""
    shown = _shown_tasks(token, record)
    if record.kind is not Kind.WAITING:
        return shown
    at_ms = due_ms(token)
    timer: tuple[Effect, ...] = () if at_ms is None else (SetTimer(record.slot, at_ms),)
    let_on = [opening(slot, one) for slot, one in token.tasks.items() if one.let_on_slot == record.slot]
    begun = (Open(record.next, record.slot),) if isinstance(record.next, Fork) else ()
    return (*timer, *shown, *let_on, *begun)


def opening(slot: int, begun: Begun) -> Open:
    """Lets what is open of a record go on, or begin: `begun` is what that record began."""
    group = Group("", "", max(begun.open) + 1, is_apart=True)
    return Open(Fork((group,), TASKS, since_ms=begun.at_ms if begun.let_on_slot >= 0 else 0), slot, begun.open)


def _shown_tasks(token: Token, record: Record) -> tuple[ShowStatus, ...]:
    """Shows that all tasks wait, each time they do; and the record with which that is over."""
    shown = status_of_tasks(token, record)
    is_told = shown.status is Status.WAITING or token.tasks_waited or _came_late(token, record)
    return (shown,) if is_told else ()


def status_of_tasks(token: Token, record: Record) -> ShowStatus:
    """Returns what the header says of a function's tasks."""
    status, parked, name = (Status.WAITING, *wait) if (wait := wait_shown(token)) else (Status.RUNNING, None, "")
    return ShowStatus(2 * record.slot, status, record.at_ms, parked, name)


def closing(dropped: Iterable[Place]) -> list[Effect]:
    """Ends operations that a function's tasks have dropped."""
    by_slot: dict[int, list[int]] = {}
    for slot, index in dropped:
        by_slot.setdefault(slot, []).append(index)
    return [Close(slot, tuple(indexes)) for slot, indexes in by_slot.items()]


def _of_wait(token: Token, record: Record, parked: Parked) -> tuple[Effect, ...]:
    at_ms = due_ms(token)
    timer = () if at_ms is None else (SetTimer(record.slot, at_ms),)
    shown = ShowStatus(2 * record.slot, Status.WAITING, record.at_ms, parked, record.node)
    if parked.locks:
        return (TakeLocks(parked.locks, record.slot, shown),)
    if parked.children:
        return (*timer, shown, StartChildren(parked, record.slot))
    return (Register(parked, record.slot), *timer, shown, TakePending(parked, record.slot))


def _of_part(token: Token, record: Record, parked: Parked, resumption: Resumption | None) -> tuple[Effect, ...]:
    """Yields all effects of the wait again: the worker that began it may have died before it performed them.

    Other parts may have arrived while this one was written. The end of an operation is a part of a wait for code.
    """
    at_ms, slot = due_ms(token), token.waiting_slot
    timer = () if at_ms is None else (SetTimer(timer_slot(token, record.at_ms), at_ms),)
    shown = ShowStatus(2 * record.slot, Status.WAITING, record.at_ms, parked, record.node)
    announced: tuple[Effect, ...] = ()
    if resumption is not None and (event := coming_of(resumption).announces):
        payload = {"node": record.node, **resumption.payload}
        announced = (Announce(event, payload, f"{token.id}@{record.slot}"),)
    if parked.locks:
        return (TakeLocks(parked.locks, slot, shown),)
    if parked.children:
        return (*timer, shown, StartChildren(parked, slot))
    return (Register(parked, slot), *timer, shown, *announced, TakePending(parked, slot))


def _of_wait_over(graph: Graph, token: Token, record: Record, parked: Parked) -> tuple[Effect, ...]:
    """Yields the clean-up of a wait: its registrations, or child runs that still run."""
    if not parked.children:
        return (Forget(parked, token.waiting_slot),)
    call, resumption, slot = call_of(graph, token), token.resumption, token.steps[token.node].called_slot
    if resumption is not None and is_over(call, resumption):
        return ()
    if call.parent_close != "abandon":
        return (EndChildren(parked, slot),)
    return (LeaveChildren(replace(parked, children=startable(parked.children, resumption)), slot),)


def _of_join(graph: Graph, token: Token, record: Record) -> tuple[Effect, ...]:
    """Ends the branches that the join did not need, unless they may continue."""
    fork, tally = token.fork, record.tally
    if fork is None or tally is None or tally.arrived >= fork.width:
        return ()
    is_left = record.error is None and fan_in_of(graph, fork).on_early_complete == "abandon"
    return () if is_left else (Close(record.slot - 1),)


def _of_end(graph: Graph, token: Token, record: Record, end: End) -> tuple[Effect, ...]:
    """The header shows the end after all else: the sweeper finds a run that seems to live, if its ender has died.

    caller    ended ── a branch closed ── dies
    sweeper                                └── the header: running ── wakes the run ── the others closed ── failed
    """
    from_outside = record.kind is Kind.ENDED
    left = _of_wait_over(graph, token, record, token.parked) if token.parked and from_outside else ()
    if from_outside:
        closed = _closed_from_outside(graph, token, record)
    else:
        closed = _of_join(graph, token, record) if record.kind is Kind.JOINED else ()
    if (place := parent_of(token.id)) is not None:
        outward: tuple[Effect, ...] = (Arrive(*place),) if end.status is not Status.CANCELLED else ()
        return (*left, *closed, *outward)
    expires_ms = record.at_ms + max(graph.retention_ms, ID_HELD_MS)  # its id is then free, as a deleted run's
    shown = ShowStatus(2 * record.slot, end.status, record.at_ms, expires_ms=expires_ms)
    outward = ()
    if graph.announces:
        ended = {"workflow": graph.name, "status": end.status.value, "success": end.status is Status.COMPLETED}
        outward = (Announce(graph.announces, ended, f"{token.id}@{record.slot}", is_keyed=True),)
    never_began = graph.gathering is not None and not token.started_ms
    gathers: tuple[Effect, ...] = (LeaveGathering(),) if never_began else ()
    return (*left, *closed, *outward, *gathers, *returned(graph, token), shown)


def _of_broken(graph: Graph, token: Token, record: Record, status: Status = Status.COMPENSATING) -> tuple[Effect, ...]:
    """The run is to be undone, or cleans up. Whoever does that ends every branch first; its last fork's end here."""
    shown = ShowStatus(2 * record.slot, status, record.at_ms)
    if record.kind is not Kind.ENDED:
        return (shown,)
    left = _of_wait_over(graph, token, record, token.parked) if token.parked else ()
    return (shown, *left, *_closed_from_outside(graph, token, record))


def _closed_from_outside(graph: Graph, token: Token, record: Record) -> tuple[Effect, ...]:
    """The fork where the token stood; and the one whose join it had just passed: whoever closes that may have died.

    Also of a run that is terminated before anybody has begun to undo it, and of a function whose time to clean up is
    over.
    """
    fork = token.fork
    closed: tuple[Effect, ...] = ()
    if fork is None:
        return ()
    is_left = token.error is None and fan_in_of(graph, fork).on_early_complete == "abandon"
    stood = record.slot - 1
    if token.cleaning is not None and isinstance(record.next, End):  # its own fork, or the one that was broken off
        return (Close(stood - 1), Close(stood))
    if token.undoing is not None and isinstance(record.next, End) and token.early_slot != stood:
        stood -= 1  # before the record that broke it off
    if token.early_slot == stood and not is_left:
        closed = (Close(stood - 1),)
    return (*closed, Close(stood))
