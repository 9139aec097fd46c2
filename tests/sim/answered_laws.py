"""Laws of answered steps: an accepted answer is its step's end, once; whatever else ends it is its own, and due."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from stepwell.engine.records import ALONE, Goto, Kind, Parked, Pause, Record, RetryAt
from tests.sim.answered_programs import ANSWERED, BUSY, Answered
from tests.sim.answering import Answer
from tests.sim.fork_laws import live_tokens
from tests.sim.world import World

_OWN = frozenset({BUSY, "outcome_unknown", "worker_lost"})  # the failures of the step itself
_TIMED_OUT = frozenset({"callback_timeout", "heartbeat_timeout"})


@dataclass
class Visit:
    """What the log has of one token's answered step. `end`: of its wait; `made`: what came of that."""

    token: str
    callback: str
    steps: list[Record] = field(default_factory=list)
    parked: Record | None = None
    end: Record | None = None
    made: Record | None = None

    @property
    def has_moved_on(self) -> bool:
        return bool(self.steps) and not isinstance(self.steps[-1].next, Pause | RetryAt)

    @property
    def n(self) -> int | None:
        """The answer that ended it."""
        came = self.end.resumption if self.end else None
        if came is None or came.kind != "event":
            return None
        error = came.payload.get("error")
        return int((error["data"] if error else came.payload["body"])["n"])


def laws_of_answered(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """Of one run."""
    if not isinstance(world.program, Answered):
        return
    visits = [visit for token, log in logs.items() for visit in _visits(world.run_id, token, log)]
    by_callback = {visit.callback: visit for visit in visits}
    answers = world.seen.answering.answers
    gone = set(_gone(world, logs))
    for answer in answers:
        if answer.answer is None:
            yield from _lost(answer, by_callback.get(answer.callback), gone)
    for visit in visits:
        where = f"{ANSWERED} in {visit.token}, {visit.callback}"
        yield from (f"law 4: answers: {where} {why}" for why in _ended(visit, answers))
        yield from (f"timers: {where} {why}" for why in _times(world, visit))
    for token in live_tokens(world.program.graph, world.logs.look()):
        if token.parked is not None and token.resumption is None and token.parked.heartbeat_ms is not None:
            yield f"law 5: {token.id} waits for an answer, and no time-out of its heartbeat comes"


def _gone(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """The tokens that were ended from outside, or left behind by their fork."""
    look = world.logs.look()
    live = {token.id for token in live_tokens(world.program.graph, look)}
    for token, log in logs.items():
        if log[-1].kind is Kind.ENDED or (token not in live and look.tokens[token].end is None):
            yield token


def _visits(run_id: str, token: str, log: list[Record]) -> Iterator[Visit]:
    visit: Visit | None = None
    entered = following = 0
    for record in log:
        entered = following
        following = record.slot + 1 if isinstance(record.next, Goto) else following
        if record.node != ANSWERED:
            continue
        if record.kind is Kind.STEP:
            if visit is None:
                visit = Visit(token, f"{run_id}|{token}|s{entered}")
            visit.steps.append(record)
            if visit.has_moved_on:
                yield visit
                visit = None
        elif record.kind is Kind.WAITING and visit is not None and _asks(record.parked):
            visit.parked = record
        elif record.kind is Kind.RESUMED and visit is not None and visit.parked is not None:
            visit.end = record
        elif record.kind is Kind.MOVED and visit is not None and visit.end is not None:
            visit.made = record
            yield visit
            visit = None
    if visit is not None:
        yield visit


def _asks(parked: Parked | None) -> bool:
    return parked is not None and parked.asked_by_step is not None and parked.asked_by_step.then == ALONE


def _callback(parked: Parked | None) -> str:
    return parked.arms[0].topics[0].key.removeprefix("!") if parked is not None else ""


def _lost(answer: Answer, visit: Visit | None, gone: set[str]) -> Iterator[str]:
    """An accepted answer ends its step, unless the run or the branch is ended before."""
    where = f"law 4: answers: the accepted answer {answer.n} to {answer.callback}"
    if visit is not None and visit.has_moved_on:
        yield f"{where} is lost: its step ended without a look for it"
    elif visit is not None and visit.end is not None:
        if visit.n != answer.n:
            yield f"{where} is lost: {visit.end.resumption and visit.end.resumption.kind} {visit.n} ended its step"
    elif answer.callback.split("|")[1] not in gone:
        yield f"{where} is in no record"


def _ended(visit: Visit, answers: list[Answer]) -> Iterator[str]:
    if visit.parked is not None and _callback(visit.parked.parked) != visit.callback:
        yield f"waits for {_callback(visit.parked.parked)}"
    made, parked = visit.made, visit.parked.parked if visit.parked else None
    if made is None or parked is None or parked.asked_by_step is None:
        return
    if visit.n is None:
        failing, told = parked.asked_by_step.failing, made.error.type if made.error else None
        if failing is not None and (made.error != failing or told not in _OWN):
            yield f"failed with {failing.type}, and its record tells of {told}"
        if failing is None and told not in _TIMED_OUT:
            yield f"had no answer in time, and its record tells of {told}"
        return
    of_it = [one for one in answers if one.n == visit.n]
    if any(one.callback != visit.callback for one in of_it):
        yield f"takes the answer {visit.n} to {of_it[0].callback}"
    if any(one.answer is not None and not one.again for one in of_it):
        yield f"takes the answer {visit.n}, which was refused"
    is_error = any(one.is_error for one in of_it)
    if of_it and (is_error is not (made.error is not None) or (not is_error and made.output != {"n": visit.n})):
        yield f"takes the answer {visit.n}, and its record has {made.output} {made.error}"


def _times(world: World, visit: Visit) -> Iterator[str]:
    """The limit counts from when the attempt began; a time that has passed is over at once."""
    parked, step = visit.parked, visit.steps[-1]
    wait = world.program.graph.nodes[ANSWERED].step
    if parked is None or parked.parked is None or wait is None or wait.callback is None:
        return
    asked = parked.parked.asked_by_step
    begun = {at_ms for calls in world.seen.answering.calls.values() for at_ms in calls}
    if asked is None or asked.failing is not None:
        return
    if not any(abs((step.started_ms or 0) - at_ms) <= world.chances.skew_ms for at_ms in begun):
        yield f"began at {step.started_ms}, when nobody ran it"
    limit_ms, until_ms = wait.callback.timeout_ms, parked.parked.until_ms
    if limit_ms is None or until_ms is None:
        if limit_ms is not until_ms:
            yield f"waits until {until_ms}, with the limit {limit_ms}"
        return
    due_ms = max((step.started_ms or 0) + limit_ms, parked.at_ms)
    late_ms = parked.at_ms - step.at_ms  # between the two records: the limit is that of the first
    if abs(until_ms - due_ms) > late_ms + 2 * world.chances.skew_ms:
        yield f"waits until {until_ms}, and its time is up at {due_ms}"
