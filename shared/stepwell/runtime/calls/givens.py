"""Tells what steps were called with: evaluated again from the log, which has their results alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stepwell.definition.graph import Graph, Json
from stepwell.engine.entries import Entry
from stepwell.engine.formats import EVALUATOR
from stepwell.engine.names import Moment, Names, default_input, step_input
from stepwell.engine.records import Record, RunInfo
from stepwell.engine.token import Token
from stepwell.errors import ExpressionError


@dataclass(frozen=True, slots=True)
class Givens:
    """Adds the input to the entries `step.started` of one run, for steps whose definition makes it."""

    graph: Graph
    run: RunInfo
    is_forked: bool = False  # made by a fork of another run, maybe with another input than the kept records had

    def added(self, entries: Sequence[Entry], record: Record, before: Token) -> Sequence[Entry]:
        """Returns the entries of a record with `data.input`. `before`: the token before it."""
        is_kept = self.is_forked and not before.origin
        if is_kept or not any(entry.type == "step.started" for entry in entries):
            return entries
        node = self.graph.nodes.get(record.node)
        step = node.step if node is not None else None
        if step is None or (step.input is None and step.action is None) or record.evaluator != EVALUATOR:
            return entries
        moment = Moment(self.graph, self.run, record.started_ms or record.at_ms, record.by)
        try:
            given = step_input(step, Names(moment, before), default_input(self.run, before))
        except ExpressionError:
            return entries  # the attempt failed for that
        return [_with_input(entry, given) if entry.type == "step.started" else entry for entry in entries]


def _with_input(entry: Entry, given: Json) -> Entry:
    return replace(entry, data={**(entry.data or {}), "input": given})
