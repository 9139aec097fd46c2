"""The entries of a run's history, and their types."""

from __future__ import annotations

import re
from dataclasses import replace

from stepwell.definition.graph import Json
from stepwell.engine.names import iso
from stepwell.engine.table import Phase
from stepwell.values import dataclass

PHASE = "phase.changed"  # left out of histories unless it is asked for

ENTRY_TYPES: dict[str, str] = {
    "run.created": "the run was created; `data.input` is what it was given",
    "run.pending": "the run waits for a worker: from its creation on, or since it was started",
    "start.gathered": "a start became part of the run (`debounce`, `batch`): `data.input`; the `data.number`-th one",
    "run.started": "a worker picked the run up",
    "run.paused": "the run was paused, by `by`: `data.reason`; subscribers are told, and no history has it",
    "run.unpaused": "a paused run goes on; subscribers are told, and no history has it",
    "run.redriven": "the run goes on from where the run `data.run_id` failed; the entries before it are of that run",
    "run.forked": "the run goes on from a slot of the run `data.run_id`; the entries before it are of that run",
    "branch.redriven": "the branch goes on from where it failed in the run `data.run_id`",
    "step.started": "an attempt of the step began: `data.input` is what its definition's `input` gave it",
    "step.completed": "the step, or the wait, ended with a result: `data.output`; `data.next` is where the run went; "
    "`data.taken_from`: it did not run, its result is that of the run that failed",
    "step.failed": "an attempt failed: `data.error`",
    "step.retry_scheduled": "the step is tried again at `data.at`",
    "step.skipped": "passed over: `data.reason` is `failed` (`on_failure: skip`), or `upstream`: all before it were",
    "step.paused": "the step asked for a wait instead of returning a result",
    "step.blocked": "governance blocked the step; it goes on once it is approved",
    "node.passed": "a node without code of its own was passed: `data.next` is where the run went",
    PHASE: "the token went from phase `from` to phase `to`, for the reason `trigger`",
    "sleep.started": "the run sleeps until `data.until`",
    "sleep.completed": "the sleep is over",
    "approval.requested": "the run waits for a person; `data.data` is what that person is shown",
    "approval.received": "the approval was given, by `by`; `data.named` is the name in the request, if it is another",
    "approval.rejected": "the approval was refused, by `by`",
    "event.awaited": "the run waits for one of the events of `data.topics`",
    "event.received": "the event that was waited for came: `data.payload`",
    "part.received": "a part of what is waited for came, a document or a vote: `data.part`; the wait goes on",
    "approval.escalated": "nobody answered in time: those of `data.to` may answer too",
    "approval.delegated": "an approver handed the approval on: `data.to`",
    "heartbeat.received": "whoever works on the callback lives",
    "update.received": "a durable function took the update `data.name`: `data.input`, `data.output` or `data.error`",
    "update.answered": "the `async` handler of the update `data.id` has ended: `data.output` or `data.error`",
    "lock.requested": "the run, or the step, asked for the locks `data.locks`, in the order in which they are taken",
    "lock.granted": "it holds these locks: nobody else does",
    "lock.released": "the run ended, or the step was left, and let go of the locks `data.locks`",
    "lock.refused": "it never gets `data.lock`: too many want it, or `data.owner`, which waits for this run, has it",
    "limit.requested": "the step `data.step`, or a run that waited, asked for a permit of `data.limit` and `data.key`",
    "limit.granted": "it has the permit, for one attempt; a run until it waits again, or ends",
    "limit.refused": "there is no such limit",
    "limit.left": "its turn came while the run was paused: it leaves it to others, and asks anew when it goes on",
    "tasks.waiting": "the tasks of a durable function wait; `data.begun` begin, `data.cancelled` end; its step is "
    "`until` if nothing is under way that they began: they wait for an update, or for a time",
    "operation.ended": "an operation of a function's tasks ended: `data.operation` is its branch",
    "timer.fired": "the time of the wait was up: `data.outcome` is `timer` where it was waited for, else `timeout`",
    "children.started": "child runs were started: `data.children`, each with name, workflow and run_id",
    "children.completed": "the child runs have ended: `data` is the result of the one, or of each by name",
    "child.failed": "a child run failed: `data.run_id`, `data.status`, `data.error`",
    "child.refused": "a child run could not be started: `data.message`",
    "fork.opened": "the token forked: `data.width` branches, `data.groups` by the node where each begins",
    "fork.reopened": "a redriven run's fork goes on: `data.kept` of `data.width` branches had completed, and are kept",
    "join.fired": "the branches came together: `data.output` is what they made, `data.arrived` how many had ended",
    "join.failed": "the branches came together, and too many had failed: `data.error`",
    "branch.completed": "the branch came to its join, or ended before it: `data.output`",
    "branch.failed": "the branch ended with an error: `data.error`",
    "branch.cancelled": "the branch was ended, because nobody waits for it any more",
    "action.completed": "one of the wait's `timeout_actions` ended",
    "action.failed": "an attempt of one of the wait's `timeout_actions` failed",
    "compensation.started": "the run is to be undone: `data.status` is what it would have ended with, `data.error` why",
    "step.compensated": "what the step had done was undone: `data.token` and `data.slot` tell which of its commits",
    "compensation.failed": "an attempt to undo a step failed: `data.error`",
    "compensation.retry_scheduled": "the compensation is tried again at `data.at`",
    "step.stuck": "the step's code cannot be imported, found or compiled: `data.error`; its run waits for other code",
    "function.stuck": "the durable function cannot go on with the code that is deployed: `data.error`; it looks again",
    "function.interrupted": "the run is cancelled, by `by`; its function may clean up until `data.until`",
    "function.continued": "the durable function, or `data.function`, began anew with `data.input`, its state kept",
    "run.completed": "the run ended with a result",
    "run.compensated": "the run ended with everything undone",
    "run.failed": "the run ended with an error: `data.error`",
    "run.timed_out": "the run ended because its time, or that of a wait, was up",
    "run.cancelled": "the run was cancelled, by `by`: `data.reason`; `data.error` if its clean-up failed",
}

_ID = re.compile(r"([0-9][0-9/.]*)@(-?[0-9]{1,9})\.([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a history. `from_phase` and `to_phase` are set for a change of phase only."""

    id: str  # <token>@<slot>.<number>
    at_ms: int
    type: str
    token: str
    step: str = ""
    attempt: int = 0
    from_phase: str = ""
    to_phase: str = ""
    trigger: str = ""  # internal | timeout | call | event
    by: str = ""  # a person or system where one is known, else the message under which it was written
    data: Json = None


def entry_json(entry: Entry) -> dict[str, Json]:
    """Returns the entry as the API shows it: absent fields are null."""
    return {
        "id": entry.id,
        "at": iso(entry.at_ms),
        "type": entry.type,
        "token": entry.token,
        "step": entry.step or None,
        "attempt": entry.attempt or None,
        "from": entry.from_phase or None,
        "to": entry.to_phase or None,
        "trigger": entry.trigger or None,
        "by": entry.by or None,
        "data": entry.data,
    }


def place_of(entry_id: str) -> tuple[int, int] | None:
    """Returns (slot, number) of an entry's id, which orders the entries of a token; None for an invalid id."""
    found = _ID.fullmatch(entry_id)
    return (int(found[2]), int(found[3])) if found else None


def token_of(entry_id: str) -> str:
    """Returns the token of an entry's id; "" for an invalid id."""
    found = _ID.fullmatch(entry_id)
    return found[1] if found else ""


class Teller:
    """Numbers the entries of one record."""

    def __init__(self, token: str, slot: int, at_ms: int, by: str = "", run_id: str = "") -> None:
        self._token, self._slot, self._at_ms, self._by = token, slot, at_ms, by
        self.run_id = run_id
        self.entries: list[Entry] = []

    def add(
        self,
        kind: str,
        *,
        at_ms: int | None = None,
        step: str = "",
        attempt: int = 0,
        trigger: str = "internal",
        by: str = "",
        data: Json = None,
    ) -> None:
        entry_id = f"{self._token}@{self._slot}.{len(self.entries)}"
        when_ms = self._at_ms if at_ms is None else min(at_ms, self._at_ms)
        entry = Entry(entry_id, when_ms, kind, self._token, step, attempt, "", "", trigger, by or self._by, data)
        self.entries.append(entry)

    def change(self, before: Phase, after: Phase, trigger: str, step: str, at_ms: int | None = None) -> None:
        self.add(PHASE, at_ms=at_ms, step=step, trigger=trigger)
        self.entries[-1] = replace(self.entries[-1], from_phase=before.value, to_phase=after.value)
