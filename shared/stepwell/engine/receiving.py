"""Receiving: how a waiting token answers the inputs for waits."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from stepwell.engine import approvals
from stepwell.engine.actions import Action, Drop, Refuse, Write
from stepwell.engine.durable import task_records
from stepwell.engine.forks.join import joined_record
from stepwell.engine.holding import is_held
from stepwell.engine.inputs import (
    Approved,
    ChildrenEnded,
    Delegated,
    EventOffered,
    HeartBeat,
    Input,
    JoinCompleted,
    LocksAnswered,
    OperationEnded,
    PermitAnswered,
    Rejected,
    UpdateAsked,
    UpdateMade,
)
from stepwell.engine.limits import throttles
from stepwell.engine.limits.locks import asks
from stepwell.engine.names import Moment
from stepwell.engine.parts import as_part
from stepwell.engine.records import Resumption, Topic
from stepwell.engine.token import Locks, Token
from stepwell.engine.waits.callback import BEAT, last_beat_ms
from stepwell.engine.waits.kind import kind_named
from stepwell.limits import SEEN_EVENTS
from stepwell.values import dataclass

ForWait: TypeAlias = (
    EventOffered | Approved | Rejected | Delegated | HeartBeat | ChildrenEnded | LocksAnswered
    | PermitAnswered     | UpdateAsked | UpdateMade | JoinCompleted | OperationEnded
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Came:
    """The end of a wait, or a part of it, to be written down."""

    resumption: Resumption
    since_ms: int = 0  # no record that follows is older
    consumes: tuple[Topic, str] | None = None  # the event that the record takes for good


def receive(moment: Moment, token: Token, given: ForWait) -> Came | Action:
    """Returns what came for the waiting token with the input, or its action if that is no end or part of its wait."""
    match given:
        case EventOffered():
            return _event(moment, token, given)
        case Approved() | Rejected() | Delegated():
            return _answer(moment, token, given)
        case HeartBeat():
            return _heartbeat(moment, token, given)
        case ChildrenEnded():
            return _children(moment, token, given)
        case LocksAnswered() | PermitAnswered():
            return _granted(moment, token, given)
        case UpdateAsked() | UpdateMade():
            return _update(moment, token, given)
        case JoinCompleted():
            return _join(moment, token, given)
        case OperationEnded(slot, arrival):
            return task_records.ended(moment, token, slot, arrival)


def _event(moment: Moment, token: Token, given: EventOffered) -> Came | Action:
    """An event is consumed in the transaction that records it, or stays for others and is remembered."""
    if token.waiting_slot != given.slot or token.parked is None:
        return Drop(is_over=True)
    if not kind_named(token.parked.arms[given.arm].kind).takes(moment, token, given.at_ms):
        return Drop()
    resumption: Resumption | None = Resumption("event", given.arm, given.topic.name, given.payload, given.event_id)
    if not given.is_consumed:
        resumption = _unseen(token, given, resumption)
    resumption = resumption and as_part(token, resumption)
    if resumption is None:
        return Drop()
    return Came(resumption, consumes=(given.topic, given.event_id) if given.is_consumed else None)


def _unseen(token: Token, given: EventOffered, resumption: Resumption | None) -> Resumption | None:
    """Returns None for an event that this arm of the wait, or an earlier wait of the token, has had."""
    seen = "\n".join(_seen_as(given.topic, given.at_ms, given.event_id))
    arms = {one.arm for one in token.received if one.seen == seen}
    is_known = given.arm in arms if arms else has_seen(token, given.topic, given.at_ms, given.event_id)
    return None if is_known or resumption is None else replace(resumption, seen=seen)


def has_seen(token: Token, topic: Topic, at_ms: int, event_id: str) -> bool:
    """Tells whether the token has had this event, which was not consumed. It remembers only the latest of many."""
    name, place = _seen_as(topic, at_ms, event_id)
    had = token.seen.get(name, ())
    return place in had or (len(had) >= SEEN_EVENTS and place < had[0])


def _seen_as(topic: Topic, at_ms: int, event_id: str) -> tuple[str, str]:
    """Returns the topic and the event as a token remembers them."""
    return str(topic), f"{at_ms:015d}:{event_id}"


def _answer(moment: Moment, token: Token, given: Approved | Rejected | Delegated) -> Came | Action:
    """Handles an approval, a rejection or a delegation."""
    if isinstance(given, Delegated):
        resumption = approvals.delegation(token, given.by, given.to, given.name)
    else:
        resumption = approvals.vote(token, given.resumption, given.slot, given.name)
    return Came(resumption) if isinstance(resumption, Resumption) else resumption


def _heartbeat(moment: Moment, token: Token, given: HeartBeat) -> Came | Action:
    """Handles a heartbeat of the system that works on a callback. One that counts for less than another is late."""
    if token.waiting_slot != given.slot or token.parked is None:
        return Refuse("the wait for this callback is over", "not_waiting")
    if given.until_ms <= last_beat_ms(token.parked, given.arm, token.received):
        return Drop()
    return Came(Resumption(BEAT, given.arm, payload={"at_ms": given.until_ms}))


def _children(moment: Moment, token: Token, given: ChildrenEnded) -> Came | Action:
    """Handles the children's results or failure. Their machines' clocks may be ahead of this one's."""
    if token.waiting_slot != given.slot:
        return Drop()
    return Came(given.resumption, since_ms=given.since_ms)


def _granted(moment: Moment, token: Token, given: LocksAnswered | PermitAnswered) -> Came | Action:
    """Handles granted or refused locks, or a permit of a named limit."""
    if isinstance(given, LocksAnswered):
        return Came(given.resumption) if token.waiting_slot == given.slot else _no_locks(token, given)
    if not throttles.waits(token) or not throttles.wants(token, given.permit.slot):
        return _no_permit(token, given)
    return Came(Resumption(throttles.LEFT) if is_held(moment.run, token) else given.resumption)


def too_late(token: Token, given: Input) -> Drop:
    """Drops an input that is late, or a duplicate; what it grants is given back."""
    match given:
        case LocksAnswered():
            return _no_locks(token, given)
        case PermitAnswered():
            return _no_permit(token, given)
        case _:
            return Drop(is_over=True)


def _no_locks(token: Token, given: LocksAnswered) -> Drop:
    """Releases locks that arrive too late, unless the token already has them."""
    return Drop(lets_go=None if asks(token, given.slot) else Locks(given.names, given.slot))


def _no_permit(token: Token, given: PermitAnswered) -> Drop:
    """Gives back a permit that arrives too late, unless the token already has it."""
    return Drop(lets_go=None if throttles.wants(token, given.permit.slot) else given.permit)


def _join(moment: Moment, token: Token, given: JoinCompleted) -> Action:
    """Continues the parent with the outputs of its branches."""
    return Write(joined_record(moment, token, given.branches)) if token.slot == given.slot else Drop()


def _update(moment: Moment, token: Token, given: UpdateAsked | UpdateMade) -> Came | Action:
    """Handles an update at a wait of the durable function itself. Its handler ran for one slot only."""
    parked = token.parked
    is_own = parked is not None and parked.of_function and token.resumption is None
    if not is_own or token.cleaning is not None:
        return Drop()
    if isinstance(given, UpdateAsked):
        return Came(given.resumption)
    consumed: tuple[Topic, str] = given.topic, given.record.resumption.event_id if given.record.resumption else ""
    return Write(given.record, consumes=consumed) if given.record.slot == token.next_slot else Drop()
