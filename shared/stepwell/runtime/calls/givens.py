"""Adds the inputs of steps to a history. They are evaluated again, since the log stores only results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stepwell.definition.graph import Graph, Json
from stepwell.engine.entries import Entry
from stepwell.engine.names import Moment, Names, default_input, step_input
from stepwell.engine.records import Record, RunInfo
from stepwell.engine.stored.formats import EVALUATOR
from stepwell.engine.token import Token
from stepwell.errors import ExpressionError
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class Givens:
    """Adds `data.input` to the entries `step.started` of one run, for steps whose definition has an `input`."""

    graph: Graph
    run: RunInfo

    def added(self, entries: Sequence[Entry], record: Record, before: Token) -> Sequence[Entry]:
        """Returns a record's entries with `data.input`. `before`: the token before the record."""
        is_kept = record.at_ms < self.run.created_ms  # by a redrive or a fork: it had another definition or input
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
            return entries  # that is why the attempt failed
        return [_with_input(entry, given) if entry.type == "step.started" else entry for entry in entries]


def _with_input(entry: Entry, given: Json) -> Entry:
    return replace(entry, data={**(entry.data or {}), "input": given})
