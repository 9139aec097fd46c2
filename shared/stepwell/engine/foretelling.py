"""Foretelling: the way that a fork of a run would take, with the results that the run's log has. Nothing is done.

Steps and waits are answered with what they came to in the same visit in the log. It ends where the log has no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from stepwell.definition.graph import Json
from stepwell.engine.actions import Action, AskFunction, AskPermit, Outcome, PickUp, RunStep, Write
from stepwell.engine.attempts import commit
from stepwell.engine.decide import decide
from stepwell.engine.fold import apply
from stepwell.engine.inputs import Woken
from stepwell.engine.names import Moment, node_of
from stepwell.engine.records import End, Fork, Kind, Pause, Record, RetryAt
from stepwell.engine.token import Token
from stepwell.values import dataclass

MOST = 200  # records that are foretold

_Visit: TypeAlias = tuple[str, int]  # a node, and how often it had been visited


@dataclass(frozen=True, slots=True)
class Foretold:
    """One record on the way. `by`: the log, the caller, or "" for what follows without either."""

    slot: int
    step: str
    by: str
    output: Json = None
    to: str = ""


@dataclass(frozen=True, slots=True)
class Way:
    """What is foretold, and why it ends: end | step | wait | fork | function | compensation | limit; of which step."""

    records: tuple[Foretold, ...]
    stops: str
    step: str
    token: Token


def foretell(moment: Moment, token: Token, log: Sequence[Record]) -> Way:
    """Follows the token as far as the log answers. Raises EngineFault for a definition that does not fit."""
    known, steps = _known(log), list[Foretold]()
    while len(steps) < MOST:
        if token.end is not None:
            return Way(tuple(steps), "end", "", token)
        if token.undoing is not None and token.last is not None:
            return Way(tuple(steps), "compensation", token.last.node, token)
        action = _action(replace(moment, permitted=True), token)
        node = node_of(moment.graph, token)
        by, made = "", None
        if isinstance(action, RunStep):
            by, made = "log", _answered(moment, token, action, known)
        elif isinstance(action, Write):
            made = action.record
            by = "caller" if token.last is not None and token.last.instead is not None else ""
        elif token.last is not None and token.last.kind in {Kind.WAITING, Kind.RECEIVED}:
            by, made = "log", _next_part(moment, token, known)
        if made is None:
            return Way(tuple(steps), _why(action, token), node, token)
        token = apply(token, made)
        to = getattr(made.next, "node", "") if made.next is not None else ""
        steps.append(Foretold(made.slot, made.node, by, made.output, to))
        if isinstance(made.next, Fork):
            return Way(tuple(steps), "fork", made.node, token)
    return Way(tuple(steps), "limit", token.node, token)


def _action(moment: Moment, token: Token) -> Action:
    return decide(moment, token, Woken())


def _why(action: Action, token: Token) -> str:
    if isinstance(action, AskFunction):
        return "function"
    if isinstance(action, RunStep):
        return "step"
    if isinstance(action, PickUp | AskPermit):
        return "limit"
    return "wait"


def _known(log: Sequence[Record]) -> Mapping[_Visit, list[Record]]:
    """The records of each visit that came to a result."""
    token, found = Token(), dict[_Visit, list[Record]]()
    for record in log:
        token = apply(token, record)
        name = record.node or token.node
        found.setdefault((name, token.visits.get(name, 1)), []).append(record)
        if record.kind is Kind.STEP and getattr(record.next, "node", "") == name:  # it was entered anew by this
            found[name, token.visits[name]].remove(record)
            found.setdefault((name, token.visits[name] - 1), []).append(record)
    return found


def _answered(moment: Moment, token: Token, action: RunStep, known: Mapping[_Visit, list[Record]]) -> Record | None:
    """The record of the step's attempt, with the result that it had."""
    for record in known.get((action.node, max(token.visits.get(action.node, 1), 1)), ()):
        is_result = record.kind is Kind.STEP and record.error is None
        if is_result and not isinstance(record.next, Pause | RetryAt):
            return commit(moment, token, action, Outcome(value=record.output, started_ms=moment.now_ms), None)
    return None


def _next_part(moment: Moment, token: Token, known: Mapping[_Visit, list[Record]]) -> Record | None:
    """What came for the wait, in the same order."""
    records = known.get((token.node, token.visits.get(token.node, 1)), ())
    received = [one for one in records if one.kind in {Kind.RECEIVED, Kind.RESUMED}]
    taken = len(token.received)
    if taken >= len(received):
        return None
    return replace(received[taken], slot=token.next_slot, by=moment.by, at_ms=max(moment.now_ms, token.last_ms))


def ends_as(way: Way) -> str:
    """The status with which the way ends; "" if it does not."""
    end = way.token.end
    return end.status.value if isinstance(end, End) else ""
