"""A durable function that begins anew: what it did before counts no more."""

from __future__ import annotations

import pytest

from stepwell.definition.functions import durable_nodes
from stepwell.definition.graph import Durable, Graph
from stepwell.engine.names import Moment
from stepwell.engine.records import RunInfo
from stepwell.engine.routing import step_limit
from stepwell.engine.token import Token

GRAPH = Graph("f", "v", "function", "f", durable_nodes("f", Durable("python:m.f")), {})
MOMENT = Moment(GRAPH, RunInfo("r", "f", "v", None, 0), 0, "w", max_steps=10)


@pytest.mark.parametrize(
    ("slot", "began_slot", "may_go_on"), [(9, -1, True), (10, -1, False), (29, 20, True), (30, 20, False)]
)
def test_the_records_that_a_run_may_have_are_counted_from_there(slot: int, began_slot: int, may_go_on: bool) -> None:
    assert (step_limit(MOMENT, Token(slot=slot, began_slot=began_slot), "f") is None) is may_go_on
