"""Gathering: starts that become one run, with the last input (`debounce`) or with all of them (`batch`).

    start ── GATHERED ── GATHERED ── … ── none for a period, the longest delay, or full ── STARTED ── the run begins

Each start is a record of the run, so it is in one run or in none: one slot, one winner. After STARTED, or the end of
the run, none can come.
"""

from __future__ import annotations

from stepwell.definition.graph import Gathering, Graph, Json
from stepwell.definition.text import counted
from stepwell.engine.actions import Action, Drop, Refuse, Rest, Write
from stepwell.engine.names import Moment, iso
from stepwell.engine.records import Kind, RunInfo, Status
from stepwell.engine.starts import BATCH, DEBOUNCE, ITEMS, is_open
from stepwell.engine.token import Token
from stepwell.engine.writing import ended_record, record
from stepwell.errors import EngineFault

IS_OVER, IS_DUE = "gathering_over", "gathering_due"  # why a run takes no start: it has begun or ended, or is about to
_NEVER = "the start that it was made for was never made"


def alone(graph: Graph, given: Json) -> Json:
    """Returns the input of a run that gathers no starts, such as a child run: it is the only one of its batch."""
    return {ITEMS: [given]} if graph.gathering is not None and graph.gathering.mode == BATCH else given


def is_full(graph: Graph, token: Token) -> bool:
    """Tells whether a batch has as many starts as it may have."""
    count = token.gathered.count if token.gathered is not None else 0
    return 0 < _rules(graph).max_size <= count


def due_ms(graph: Graph, run: RunInfo, token: Token) -> int:
    """Returns when the run begins, if no other start comes. One without any start ends then."""
    rules, starts = _rules(graph), token.gathered
    if starts is None:
        return run.created_ms + (rules.period_ms or rules.max_delay_ms)
    if is_full(graph, token):
        return starts.last_ms
    latest_ms = starts.since_ms + rules.max_delay_ms
    return min(starts.last_ms + rules.period_ms, latest_ms) if rules.mode == DEBOUNCE else latest_ms


def next_action(moment: Moment, token: Token) -> Action:
    """Returns what a worker does with a run that still gathers starts."""
    if not _is_due(moment, token):
        return Rest(due_ms(moment.graph, moment.run, token))
    if token.gathered is None:
        return Write(ended_record(moment, token, Status.CANCELLED, None, reason=_NEVER, who=_rules(moment.graph).mode))
    return Write(record(moment, token, Kind.STARTED, ""))


def taken(moment: Moment, token: Token, given: Json) -> Action:
    """Takes a start, as long as the run has not begun and is not due."""
    if not is_open(moment.run, token):
        return Refuse("the run has begun", IS_OVER)
    if _is_due(moment, token):
        return Refuse("the run is about to begin", IS_DUE)
    return Write(record(moment, token, Kind.GATHERED, "", rules=(_rules(moment.graph).mode,), output=given))


def over(moment: Moment, token: Token) -> Action:
    """Lets the run begin, if it is due; nothing where it has begun."""
    return next_action(moment, token) if is_open(moment.run, token) else Drop()


def progress(graph: Graph, run: RunInfo, token: Token) -> str:
    """Says what the run waits for, for people."""
    count = token.gathered.count if token.gathered is not None else 0
    starts = counted(count, "start")
    rules, begins = _rules(graph), f"begins at {iso(due_ms(graph, run, token))}"
    if is_full(graph, token):
        return f"{rules.mode}: {starts}, which is the most, {begins}"
    most = f" of at most {rules.max_size}" if rules.max_size else ""
    return f"{rules.mode}: {starts}{most} so far, {begins}, {unless(graph)}"


def unless(graph: Graph) -> str:
    """Says, for people, what has the run begin at another time."""
    return "or when it is full" if _rules(graph).mode == BATCH else "if no other start comes"


def _is_due(moment: Moment, token: Token) -> bool:
    """A full batch is due whatever the clock of this machine says."""
    return is_full(moment.graph, token) or moment.now_ms >= due_ms(moment.graph, moment.run, token)


def _rules(graph: Graph) -> Gathering:
    if graph.gathering is None:
        raise EngineFault(f"version {graph.version} gathers no starts", code="broken_log")
    return graph.gathering
