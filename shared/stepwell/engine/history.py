"""History: a token's records as entries for people, as a pure function of each record and the token around it."""

from __future__ import annotations

from dataclasses import replace

from stepwell.definition.graph import Json
from stepwell.engine.durable.journal import continued_as
from stepwell.engine.entries import Entry, Teller
from stepwell.engine.fold import signals
from stepwell.engine.names import iso, shown_output
from stepwell.engine.records import (
    CALLERS,
    ENDED,
    ROOT,
    TASKS,
    UPDATE,
    CleanUp,
    Compensate,
    End,
    Fork,
    Goto,
    Kind,
    Pause,
    Record,
    RetryAt,
    RunInfo,
    Status,
    Tally,
)
from stepwell.engine.stored.codec import failure_to_json
from stepwell.engine.table import Phase, Signal, walk
from stepwell.engine.token import Token, Undoing
from stepwell.engine.waits.kind import coming_of, kind_named
from stepwell.engine.waits.limit import step_named

_OF_FUNCTIONS = frozenset({TASKS, "all", "first"})  # joins of operations, whose branches begin at the function
_END_TRIGGERS = {Status.CANCELLED: "call", Status.TIMED_OUT: "timeout"}


def opening(token: Token, run: RunInfo) -> tuple[Entry, ...]:
    """Returns the entries before the first record, from the header."""
    tell = Teller(token.id, -1, run.created_ms)
    tell.add("run.created", trigger="call", data={"input": run.input, "workflow": run.workflow, "version": run.version})
    if not run.idle:
        tell.add("run.pending", trigger="call", data={"start_at": iso(run.start_at_ms)} if run.start_at_ms else None)
    return tuple(tell.entries)


def under_way(token: Token, run: RunInfo) -> tuple[Entry, ...]:
    """Returns the first entries of a record that is still to come: a worker has the run and runs its first step."""
    if token.ended or token.phase is not Phase.INITIALIZING or not run.started_ms:
        return ()
    tell = Teller(token.id, token.next_slot, run.started_ms)
    _pick_up(tell, token, run)
    return tuple(tell.entries)


def narrate(record: Record, before: Token, after: Token, run: RunInfo) -> tuple[Entry, ...]:
    """Returns a record's entries, with the same ids each time. `before` and `after` are the token around it."""
    who = record.who or (record.resumption.by if record.resumption else "")
    tell = Teller(after.id, record.slot, record.at_ms, who or record.by, run.run_id)
    emitted = signals(record, before.phase)
    if _was_picked_up(record, before, run, emitted):
        _pick_up(tell, before, run)
        before = replace(before, phase=Phase.EXECUTING_STEP)
        emitted = tuple(signal for signal in emitted if signal is not Signal.PICKED_UP)
    trigger = _trigger(record)
    _TELL[record.kind](tell, record, before, after)
    for update, answer in (record.answers or {}).items():
        tell.add("update.answered", step=record.node, data={"id": update, **answer})
    phase = before.phase
    for following in walk(phase, emitted):
        if following is not phase:
            tell.change(phase, following, trigger, record.node)
        phase = following
    if isinstance(record.next, Fork):
        _forked(tell, record, record.next)
    if isinstance(record.next, Compensate) and after.undoing is not None:
        _broken(tell, record, trigger, after.undoing)
    held = before.locks
    if held is not None and held.held and after.locks is None:
        tell.add("lock.released", step=held.node, data={"locks": list(held.names)})
    if after.end is not None:
        ended = record if after.id == ROOT else replace(record, node=_branch_at(record, before))
        (_tell_end if after.id == ROOT else _tell_branch_end)(tell, ended, after, trigger)
    return tuple(tell.entries)


def _was_picked_up(record: Record, before: Token, run: RunInfo, told: tuple[Signal, ...]) -> bool:
    """A run that ended from outside in its first step has no record that says so; its header does."""
    if before.phase is not Phase.INITIALIZING or record.kind in {Kind.STARTED, Kind.REDRIVEN, Kind.GATHERED}:
        return False
    return Signal.PICKED_UP in told or run.started_ms > 0


def _pick_up(tell: Teller, before: Token, run: RunInfo) -> None:
    begun_ms = before.branch.started_ms if before.branch else run.created_ms
    at_ms = max(run.started_ms, before.last.at_ms if before.last else begun_ms)
    if before.id == ROOT:
        tell.add("run.started", at_ms=at_ms)
    tell.change(Phase.INITIALIZING, Phase.EXECUTING_STEP, "internal", "", at_ms)


def _trigger(record: Record) -> str:
    if record.resumption is not None:
        return coming_of(record.resumption).trigger
    if record.kind in {Kind.STARTED, Kind.REDRIVEN, Kind.GATHERED}:
        return "call"
    if record.kind is Kind.ENDED and isinstance(record.next, End | Compensate | CleanUp):
        if record.by.startswith("parent:"):
            return "internal"
        called = record.by.startswith(CALLERS)
        return "call" if called else _END_TRIGGERS.get(record.next.status, "internal")
    return "internal"


def _started(tell: Teller, record: Record, before: Token, after: Token) -> None:
    if after.gathered is not None:
        tell.add("run.pending", data={"starts": after.gathered.count})
    else:
        tell.add("run.pending", trigger="call")


def _gathered(tell: Teller, record: Record, before: Token, after: Token) -> None:
    count = after.gathered.count if after.gathered is not None else 0
    tell.add("start.gathered", trigger="call", data={"input": record.output, "number": count})


def _redriven(tell: Teller, record: Record, before: Token, after: Token) -> None:
    if record.by.startswith("fork:"):
        changed = {"state": sorted(record.writes or {}), "result": record.instead and record.instead["output"]}
        tell.add("run.forked", step=before.node, trigger="call", data={"run_id": record.origin, **changed})
        return
    data = {"run_id": record.origin, "error": failure_to_json(record.error)}
    kind = "run.redriven" if after.id == ROOT else "branch.redriven"
    tell.add(kind, step=record.node, trigger="call", data=data)


def _reopened(tell: Teller, record: Record, before: Token, after: Token) -> None:
    """The fork is told, as for every record that forks."""


def _began(tell: Teller, record: Record, before: Token, after: Token) -> None:
    tell.add("step.started", step=record.node, attempt=record.attempt, data={"at_most_once": True})


def _step(tell: Teller, record: Record, before: Token, after: Token) -> None:
    if not record.taken and (before.last is None or before.last.kind is not Kind.BEGAN):
        behind_ms = before.last_ms
        at_ms = max(record.started_ms, behind_ms) if record.started_ms else None
        tell.add("step.started", at_ms=at_ms, step=record.node, attempt=record.attempt)
    _node_ended(tell, record, after)


def _moved(tell: Teller, record: Record, before: Token, after: Token) -> None:
    if not record.node:
        return  # the steps of a DAG begin: the fork is told
    if isinstance(record.next, Fork) and record.next.is_awaited:
        return  # what a function awaits together: the fork is told
    if record.error is None and record.node not in after.steps:
        tell.add("node.passed", step=record.node, data=_went(record))
    else:
        _node_ended(tell, record, after)


def _node_ended(tell: Teller, record: Record, after: Token) -> None:
    node, attempt = record.node, record.attempt
    if record.error is not None:
        tell.add("step.failed", step=node, attempt=attempt,
                 data={"error": failure_to_json(record.error), **_went(record)})  # fmt: skip
    match record.next:
        case Pause() if record.error is not None:
            tell.add("step.blocked", step=node, attempt=attempt, data={"reason": record.error.message})
        case Pause(kind=kind, failing=failing):
            failed = {"error": failure_to_json(failing)} if failing else {}  # unless its callback has come
            tell.add("step.paused", step=node, attempt=attempt, data={"for": kind, **failed})
        case RetryAt(at_ms):
            tell.add("step.retry_scheduled", step=node, attempt=attempt + 1, data={"at": iso(at_ms)})
        case _ if record.skipped:
            reason = "failed" if record.error else "upstream"
            tell.add("step.skipped", step=node, attempt=attempt, data={"reason": reason})
        case _ if record.error is None:
            taken = {"taken_from": record.taken} if record.taken else {}
            data = {"output": record.output, **taken, **_went(record)}
            tell.add("step.completed", step=node, attempt=attempt, data=data)


def _forked(tell: Teller, record: Record, fork: Fork) -> None:
    if fork.is_reopened:
        kept = {"width": fork.width, "kept": len(fork.kept), "join": fork.join or None}
        tell.add("fork.reopened", step=record.node, data=kept)
        return
    groups = [{"node": group.node, "count": group.count} for group in fork.groups]
    data = {"width": fork.width, "groups": groups, "join": fork.join or None}
    tell.add("fork.opened", step=record.node, data=data)


def _joined(tell: Teller, record: Record, before: Token, after: Token) -> None:
    tally = record.tally or Tally()
    data: dict[str, Json] = {"arrived": tally.arrived, "failed": tally.failed, **_went(record)}
    if record.error is not None:
        tell.add("join.failed", step=record.node, data={**data, "error": failure_to_json(record.error)})
    else:
        tell.add("join.fired", step=record.node, data={**data, "output": record.output})


def _returned(tell: Teller, record: Record, before: Token, after: Token) -> None:
    if isinstance(record.next, Goto):
        function = continued_as(record)
        data = {"input": record.output, "function": function} if function else {"input": record.output}
        tell.add("function.continued", step=record.node, data=data)


def _went(record: Record) -> dict[str, Json]:
    """Adds the entries of the token's move and its rules."""
    following = record.next.node if isinstance(record.next, Goto) else None
    return {"next": following, "rules": list(record.rules)}


def _waiting(tell: Teller, record: Record, before: Token, after: Token) -> None:
    parked = record.parked
    if parked is None:
        return
    began = kind_named(parked.kind).began(record, parked, tell.run_id, before.id)
    tell.add(began.entry, step=step_named(parked, record.node), attempt=began.attempt, data=began.data)


def _resumed(tell: Teller, record: Record, before: Token, after: Token) -> None:
    resumption, parked = record.resumption, before.parked
    if resumption is None or parked is None:
        return
    node, trigger = step_named(parked, record.node), _trigger(record)
    if resumption.kind == ENDED:
        _operation_ended(tell, record, before)
        return
    if resumption.kind in {"timer", "timeout"}:
        tell.add("timer.fired", step=node, trigger=trigger, data={"outcome": resumption.kind, "for": parked.kind})
        over = kind_named(parked.kind).over
        if resumption.kind == "timer" and over:
            tell.add(over, step=node, trigger=trigger)
        return
    data = {"name": resumption.name or None, "event_id": resumption.event_id or None, "payload": resumption.payload}
    tell.add(
        coming_of(resumption).entry, step=node, trigger=trigger, data=data if trigger == "event" else resumption.payload
    )


def _operation_ended(tell: Teller, record: Record, before: Token) -> None:
    part = record.resumption.part if record.resumption else ""
    brought = {"output": record.output} if record.error is None else {"error": failure_to_json(record.error)}
    tell.add("operation.ended", step=record.node, data={"operation": f"{before.id}/{part}", **brought})


def _received(tell: Teller, record: Record, before: Token, after: Token) -> None:
    resumption = record.resumption
    if resumption is None:
        return
    if resumption.kind == ENDED or (before.parked is not None and before.parked.of_tasks and resumption.kind != UPDATE):
        _resumed(tell, record, before, after)
        return
    data = {
        "kind": resumption.kind,
        "part": resumption.part or None,
        "name": resumption.name or None,
        "payload": resumption.payload,
    }
    kind = "part.received" if coming_of(resumption).ends else coming_of(resumption).entry
    if resumption.kind == UPDATE:
        update = {key: resumption.payload[key] for key in ("input", "output", "error") if key in resumption.payload}
        tell.add(
            kind,
            step=record.node,
            trigger=_trigger(record),
            data={"name": resumption.name, "id": resumption.event_id, **update},
        )
        return
    tell.add(
        kind, step=record.node, trigger=_trigger(record), data=resumption.payload if kind != "part.received" else data
    )


def _acted(tell: Teller, record: Record, before: Token, after: Token) -> None:
    data: dict[str, Json] = {"action": before.acted}
    if record.error is None:
        tell.add("action.completed", step=record.node, attempt=record.attempt, data={**data, "output": record.output})
        return
    if isinstance(record.next, RetryAt):
        data["retry_at"] = iso(record.next.at_ms)
    tell.add("action.failed", step=record.node, attempt=record.attempt,
             data={**data, "error": failure_to_json(record.error)})  # fmt: skip


def _undone(tell: Teller, record: Record, before: Token, after: Token) -> None:
    if not record.undid:
        return  # nothing was left to undo: the end tells it
    token, _, slot = record.undid.partition("@")
    data: dict[str, Json] = {"token": token, "slot": int(slot)}
    if record.error is None:
        tell.add("step.compensated", step=record.node, attempt=record.attempt, data={**data, "output": record.output})
        return
    tell.add("compensation.failed", step=record.node, attempt=record.attempt,
             data={**data, "error": failure_to_json(record.error)})  # fmt: skip
    if isinstance(record.next, RetryAt):
        tell.add("compensation.retry_scheduled", step=record.node, attempt=record.attempt + 1,
                 data={**data, "at": iso(record.next.at_ms)})  # fmt: skip


def _broken(tell: Teller, record: Record, trigger: str, undoing: Undoing) -> None:
    data = {"status": undoing.status.value, "error": failure_to_json(undoing.error), "reason": record.reason or None}
    tell.add("compensation.started", step=record.node, trigger=trigger, data=data)


def _ended(tell: Teller, record: Record, before: Token, after: Token) -> None:
    """The end of the run is told last, as for every record that ends a run."""
    if isinstance(record.next, CleanUp):
        data = {"until": iso(record.next.until_ms), "reason": record.reason or None}
        tell.add("function.interrupted", step=record.node, trigger=_trigger(record), data=data)


def _tell_end(tell: Teller, record: Record, after: Token, trigger: str) -> None:
    if after.end is None:
        return
    data: dict[str, Json] = {}
    if after.end.status is Status.COMPLETED:
        data["result"] = after.result
    if after.end.error is not None:
        data["error"] = failure_to_json(after.end.error)
    cleaned = after.cleaning if after.cleaning is not None and after.cleaning.status is after.end.status else None
    if reason := record.reason or (cleaned.reason if cleaned else ""):
        data["reason"] = reason
    by = cleaned.who if cleaned else ""  # who cancelled it, not the worker of its last step
    tell.add(f"run.{after.end.status.value}", step=record.node, trigger=trigger, by=by, data=data or None)


def _branch_at(record: Record, before: Token) -> str:
    """Where a branch ended: a function's at its operation; one that had not begun at its first node."""
    if record.kind is Kind.RETURNED and before.last is not None:
        return before.last.node
    branch = before.branch
    is_of_graph = branch is not None and branch.join not in _OF_FUNCTIONS
    return record.node or before.node or (branch.start if branch is not None and is_of_graph else "")


def _tell_branch_end(tell: Teller, record: Record, after: Token, trigger: str) -> None:
    if after.end is None:
        return
    match after.end.status:
        case Status.COMPLETED:
            output = record.output if record.kind is Kind.RETURNED else shown_output(after)
            data = {"output": output, "at_join": after.end.at_join}
            tell.add("branch.completed", step=record.node, trigger=trigger, data=data)
        case Status.CANCELLED:
            tell.add("branch.cancelled", step=record.node, trigger=trigger)
        case _:
            error = {"error": failure_to_json(after.end.error)}
            tell.add("branch.failed", step=record.node, trigger=trigger, data=error)


_TELL = {
    Kind.STARTED: _started,
    Kind.GATHERED: _gathered,
    Kind.REDRIVEN: _redriven,
    Kind.REOPENED: _reopened,
    Kind.BEGAN: _began,
    Kind.STEP: _step,
    Kind.MOVED: _moved,
    Kind.JOINED: _joined,
    Kind.WAITING: _waiting,
    Kind.RECEIVED: _received,
    Kind.RESUMED: _resumed,
    Kind.ACTED: _acted,
    Kind.ENDED: _ended,
    Kind.UNDONE: _undone,
    Kind.RETURNED: _returned,
}
