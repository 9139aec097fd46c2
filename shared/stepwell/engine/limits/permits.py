"""Permits: what a run needs before it begins, where its workflow limits how many are under way or how fast they begin.

A permit is no record. Who has one is kept beside the logs; it is good until its run's log ends.

    pending ── asks ── granted ── picked up ── … ── ends ── returned, the next one in order is granted
                  └── over the limit: waits, in the order of priority and age, or is cancelled
"""

from __future__ import annotations

from typing import TypeAlias

from stepwell.definition.compiled import Expression
from stepwell.definition.graph import Graph, Json
from stepwell.engine.actions import AskPermit, Pace, Share, Write
from stepwell.engine.names import Moment, Names
from stepwell.engine.records import Kind, RunInfo, Status
from stepwell.engine.routing import validation_failure
from stepwell.engine.table import Phase
from stepwell.engine.token import Token
from stepwell.engine.writing import ended_record
from stepwell.errors import ExpressionError
from stepwell.limits import KEY_CHARACTERS, PRIORITY_MS
from stepwell.values import dataclass

Asked: TypeAlias = AskPermit | Write | None
WHO = "concurrency"  # who cancels a run because of its limit
_EPOCH_MS = 10**14  # so that no place in the order is negative


@dataclass(frozen=True, slots=True)
class ReturnPermit:
    """An effect: give back what the run had of its workflow's limits, or its place among those that wait."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a pending run waits for: its turn under a rate limit, at a time, or the end of another run."""

    limit: str
    most: int = 0
    before: int = 0  # how many runs come first
    under_way: tuple[str, ...] = ()  # the first of them
    at_ms: int = 0


def is_limited(graph: Graph) -> bool:
    """Tells whether runs need a permit."""
    return graph.concurrency is not None or graph.rate_limit is not None


def begins(run: RunInfo, token: Token) -> bool:
    """Tells whether the run has not begun yet, so that it may have no permit."""
    if token.branch is not None or token.ended:
        return False
    return _is_redriven(token) or _is_unbegun(run, token)


def steps_back(graph: Graph, run: RunInfo, token: Token) -> bool:
    """Tells whether a pause of the run leaves its permit, or its turn, to others: it has certainly not begun.

    Of a redriven run that is not known: its first step may be under way.
    """
    return is_limited(graph) and token.branch is None and _is_unbegun(run, token)


def may_stand_in_line(graph: Graph, token: Token) -> bool:
    """Tells whether the run was redriven and may wait for its permit, or be at its first step with it."""
    return graph.concurrency is not None and token.branch is None and not token.ended and _is_redriven(token)


def _is_redriven(token: Token) -> bool:
    return token.last is not None and token.last.kind is Kind.REDRIVEN


def _is_unbegun(run: RunInfo, token: Token) -> bool:
    return token.phase is Phase.INITIALIZING and not run.started_ms


def returned(graph: Graph, token: Token) -> tuple[ReturnPermit, ...]:
    """Returns the effect of a run's end."""
    return (ReturnPermit(),) if is_limited(graph) and token.branch is None else ()


def ask(moment: Moment, token: Token) -> Asked:
    """Returns the request of a run that is about to begin; None if it needs no permit, or has it."""
    if moment.permitted or not is_limited(moment.graph) or not begins(moment.run, token):
        return None
    try:
        share, pace = share_of(moment.graph, moment.run), pace_of(moment.graph, moment.run)
    except ExpressionError as error:
        return Write(ended_record(moment, token, Status.FAILED, validation_failure(error, "", 1)))
    return AskPermit(share, pace, may_refuse=token.phase is Phase.INITIALIZING)


def share_of(graph: Graph, run: RunInfo) -> Share | None:
    """Returns what the run needs of its workflow's concurrency, always the same. Raises ExpressionError."""
    limit = graph.concurrency
    if limit is None:
        return None
    return Share(_named(graph, run, limit.key, "concurrency"), limit.limit, limit.on_limit)


def pace_of(graph: Graph, run: RunInfo) -> Pace | None:
    """Returns what the run needs of its workflow's rate limit. Raises ExpressionError."""
    limit = graph.rate_limit
    if limit is None:
        return None
    return Pace(_named(graph, run, limit.key, "rate_limit"), limit.per_ms / limit.limit, limit.burst)


def _named(graph: Graph, run: RunInfo, key: Expression | None, limit: str) -> str:
    """Returns the limit's name: of the workflow, and of the key's value."""
    if key is None:
        return graph.name
    return f"{graph.name}/{key_of(key, Names(Moment(graph, run, run.created_ms, ''), Token()), limit)}"


def key_of(key: Expression, names: Names, limit: str) -> str:
    """Returns the value of a limit's key as text. Raises ExpressionError, naming the key, if there is none."""
    try:
        value = key.evaluate(names)
    except ExpressionError as error:
        raise ExpressionError(f"`{limit}.key` cannot be computed: {error.message}", hint=error.hint) from None
    return text_of_key(value, limit)


def text_of_key(value: Json, limit: str) -> str:
    """Returns the value of a limit's key as text. Raises ExpressionError for what is no key."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ExpressionError(f"the key of `{limit}` is {value!r:.80}", hint="a key is text or a whole number")
    if len(str(value)) > KEY_CHARACTERS:
        raise ExpressionError(
            f"the key of `{limit}` has {len(str(value))} characters", hint=f"at most {KEY_CHARACTERS}"
        )
    return str(value)


def place_in_order(run: RunInfo, priority: int) -> str:
    """Returns a run's place among those that wait, as text that sorts: by its age, an hour more for each priority."""
    return order_of(max(run.created_ms, run.start_at_ms), priority, run.run_id)


def order_of(since_ms: int, priority: int, who: str) -> str:
    """Returns a place in a line as text that sorts, and who is there."""
    return f"{since_ms - priority * PRIORITY_MS + _EPOCH_MS:016d}#{who}"
