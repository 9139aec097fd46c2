"""The lives of a durable function: one that begins anew, and one whose code died."""

from __future__ import annotations

import pytest

from stepwell.definition.durable import durable_nodes
from stepwell.definition.graph import Durable, Graph
from stepwell.engine.actions import AskFunction
from stepwell.engine.decide import decide
from stepwell.engine.durable.journal import LOST
from stepwell.engine.fold import fold
from stepwell.engine.inputs import Woken
from stepwell.engine.names import Moment
from stepwell.engine.records import ENDED, Arm, Failure, Goto, Kind, Parked, Resumption, RunInfo
from stepwell.engine.routing import step_limit
from stepwell.engine.token import Token
from stepwell.engine.waits.aside import CODE
from stepwell.engine.waits.code import DEPLOYED_TOPIC
from tests.engine.test_effects import CAME, ONE_TASK, TASKS_WAIT, written

GRAPH = Graph("f", "v", "function", "f", durable_nodes("f", Durable("python:m.f")), {})
MOMENT = Moment(GRAPH, RunInfo("r", "f", "v", None, 0), 0, "w", max_steps=10)


@pytest.mark.parametrize(
    ("slot", "began_slot", "may_go_on"), [(9, -1, True), (10, -1, False), (29, 20, True), (30, 20, False)]
)
def test_the_records_that_a_run_may_have_are_counted_from_there(slot: int, began_slot: int, may_go_on: bool) -> None:
    assert (step_limit(MOMENT, Token(slot=slot, began_slot=began_slot), "f") is None) is may_go_on


def test_a_function_whose_code_died_is_asked_when_an_operation_of_it_ends() -> None:
    """Its tasks do not wait: whoever died was to say so."""
    died = Failure("worker_lost", "worker_lost", "the worker died")
    records = (
        written(0, Kind.WAITING, parked=TASKS_WAIT, next=ONE_TASK),
        written(1, Kind.WAITING, node="f", parked=Parked(CODE, (Arm("event", (DEPLOYED_TOPIC,)),))),
        written(2, Kind.RESUMED, resumption=CAME),
        written(
            3,
            Kind.STEP,
            node="f",
            attempt=1,
            error=died,
            rules=(LOST,),
            next=Goto("f"),
        ),
        written(4, Kind.RECEIVED, node="f", resumption=Resumption(ENDED, part="0.0")),
    )
    assert isinstance(decide(MOMENT, fold(records, Token()), Woken()), AskFunction)
