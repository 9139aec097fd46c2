"""A start without a required argument of a durable function is refused, and nothing is written."""

from __future__ import annotations

import importlib

import pytest

from stepwell.client.errors import InputProblem
from stepwell.definition.graph import Json
from stepwell.errors import Conflict, InvalidInput
from stepwell.testing.kit import Stepwell
from tests.durable.conftest import Flows

FLOWS = """
import functools
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from pydantic import BaseModel
from stepwell import ChildFailed, workflow

@dataclass
class Order:
    order: str = "A-1"

def given_more(function):
    @functools.wraps(function)
    async def inner(ctx, x: int):
        return await function(ctx, x, 2)
    del inner.__wrapped__
    return inner

@workflow
async def two(ctx, order: Order, x: int, y: int = 1):
    return [order.order, x, y]

@workflow
async def sole(ctx, x: int):
    return x

@workflow
async def whole(ctx, order: Order):
    return order.order

@dataclass
class Line:
    sku_id: str
    count: int
    note: str = ""

@workflow
async def model(ctx, line: Line):
    return line.count

class Basket(BaseModel):
    lines: list[Line]
    paid: bool = False
    due: datetime | None = None
    to: Literal["home", "shop"] = "home"

@workflow
async def basket(ctx, basket: Basket):
    return len(basket.lines)

@workflow
async def none(ctx):
    return 0

@workflow
async def rest(ctx, x: int, **more):
    return [x, more]

@workflow
@given_more
async def decorated(ctx, x: int, y: int):
    return x + y

@workflow(batch={"max_delay": "1m", "max_size": 5})
async def many(ctx, items: list):
    return items

@workflow
async def parent(ctx):
    try:
        return await ctx.child("sole", {"z": 1})
    except ChildFailed as failed:
        return str(failed)
"""


@pytest.fixture
def kit(flows: Flows) -> Stepwell:
    return flows(FLOWS)


@pytest.mark.parametrize(
    ("workflow", "given", "missing"),
    [
        ("two", {}, "order, x are missing"),
        ("two", {"order": {}}, "x is missing"),
        ("two", None, "order, x are missing"),
        ("two", 7, "order, x are missing"),
        ("sole", {"y": 1}, "x is missing"),
        ("sole", None, "x is missing"),
        ("whole", None, "order is missing"),
        ("rest", {"y": 1}, "x is missing"),
    ],
)
def test_a_start_without_an_argument_is_refused(kit: Stepwell, workflow: str, given: Json, missing: str) -> None:
    with pytest.raises(InvalidInput, match=missing) as refused:
        kit.start(workflow, given)
    assert (refused.value.code, kit.runs(workflow)) == ("step_input", [])


@pytest.mark.parametrize(
    ("workflow", "given", "result"),
    [
        ("two", {"order": {}, "x": 2}, ["A-1", 2, 1]),
        ("sole", 3, 3),
        ("sole", {"x": 3, "y": 4}, 3),
        ("whole", {}, "A-1"),
        ("none", None, 0),
        ("none", {"x": 1}, 0),
        ("rest", {"x": 1, "y": 2}, [1, {"y": 2}]),
        ("decorated", {"x": 1}, 3),
    ],
)
def test_a_start_with_its_arguments_runs(kit: Stepwell, workflow: str, given: Json, result: Json) -> None:
    assert kit.start(workflow, given).result == result


def test_a_start_of_a_batch_is_one_of_its_items(kit: Stepwell) -> None:
    run = kit.start("many", {"n": 1})
    kit.advance("1m")
    assert run.result == [{"n": 1}]


def test_a_child_run_without_an_argument_is_refused(kit: Stepwell) -> None:
    run = kit.start("parent")
    assert "x is missing" in str(run.result)
    assert kit.runs("sole") == []


def test_the_api_refuses_a_start_without_an_argument(kit: Stepwell) -> None:
    with pytest.raises(InputProblem, match="x is missing") as refused:
        kit.client().start("sole", {"y": 1})
    assert refused.value.code == "step_input"


def test_the_client_sends_nothing_that_does_not_fit_the_function(kit: Stepwell) -> None:
    """Neither a missing argument nor one of another type; the function's own types tell."""
    assert kit.start("none").result == 0  # imports the module
    flow, client = importlib.import_module("flow"), kit.client()
    for args in [(), (flow.Order(),), (7, 8), (flow.Order(), "many")]:
        with pytest.raises(InvalidInput, match="the input does not fit two") as refused:
            client.start(flow.two, *args)
        assert refused.value.code == "step_input"
    assert kit.runs("two") == []
    assert client.start(flow.two, flow.Order(), 2).id == kit.runs("two")[0].id


def test_a_repeated_start_gets_its_run_whatever_the_code_needs_by_now(kit: Stepwell, flows: Flows) -> None:
    run = kit.start("none", {}, run_id="run-1")
    flows.write(FLOWS.replace("def none(ctx)", "def none(ctx, x)"))
    kit.reload()
    assert kit.start("none", {}, run_id="run-1").id == run.id
    with pytest.raises(InvalidInput, match="x is missing"):
        kit.start("none", {})
    with pytest.raises(Conflict):
        kit.start("none", {"x": 1}, run_id="run-1")


@pytest.mark.parametrize(
    ("workflow", "given", "warnings"),
    [
        ("two", {"order": {}, "x": 1, "y": 2}, []),
        ("two", {"order": {}, "x": 1, "ordr": 2}, [
            "two has no parameter `ordr`, so it was left out: did you mean `order`? It takes order, x, y."]),
        ("sole", {"x": 3, "z_1": 4, "more": 5}, [
            "sole has no parameter `z_1`, so it was left out. It takes x.",
            "sole has no parameter `more`, so it was left out. It takes x."]),
        ("none", {"x": 1}, ["none has no parameter `x`, so it was left out. It takes no input."]),
        ("whole", {"order": "A-2", "ordr": 1}, []),
        ("rest", {"x": 1, "z": 2}, []),
        ("decorated", {"x": 1, "z": 2}, []),
        ("many", {"n": 1}, []),
        ("sole", 3, []),
    ],
)  # fmt: skip
def test_a_name_that_no_parameter_takes_is_told(
    kit: Stepwell, caplog: pytest.LogCaptureFixture, workflow: str, given: Json, warnings: list[str]
) -> None:
    """It is left out, so that a misspelt optional argument would take its default."""
    kit.start(workflow, given)
    assert [one.getMessage() for one in caplog.records if one.name == "stepwell.testing"] == warnings
    kit.client().start(workflow, given)
    assert [one.getMessage() for one in caplog.records if one.name == "stepwell.client"] == warnings


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({}, "`sku_id`, `count`"),
        ({"sku_id": "A"}, "`count`"),
        ({"line": {"sku_id": "A"}}, "`count`"),  # as a call by the function gives it
        ({"skuId": "A", "count": 2}, ""),  # an alias, as far as can be told
        ({"sku_id": "A", "count": 2}, ""),
        ({"line": {"sku_id": "A", "count": 2, "note": "b"}}, ""),
    ],
)
def test_a_field_that_a_model_needs_and_the_input_has_not_is_told_at_the_start(
    kit: Stepwell, caplog: pytest.LogCaptureFixture, given: Json, missing: str
) -> None:
    """The run may fail for it. The start is not refused: a model's own code may fill it in."""
    kit.start("model", given)
    told = f"the input has no {missing}, which Line needs: the run may fail at its start."
    assert [one.getMessage() for one in caplog.records if one.name == "stepwell.testing"] == [told] * bool(missing)


LINE = {"sku_id": "A", "count": 1}


@pytest.mark.parametrize(
    ("workflow", "given", "misfits"),
    [
        ("model", {"sku_id": "A", "count": "many"}, ["count is a text, where model takes a whole number"]),
        ("model", {"line": {"sku_id": 1, "count": 1.5}}, ["sku_id is a number, where model takes a text",
                                                          "count is a number, where model takes a whole number"]),
        ("model", "A", ["the input is a text, where model takes an object"]),
        ("basket", {"lines": LINE}, ["lines is an object, where basket takes a list"]),
        ("basket", {"lines": [LINE, LINE | {"count": None}]},
         ["lines[1].count is null, where basket takes a whole number"]),
        ("basket", {"lines": [], "paid": "perhaps", "due": [], "to": "sea"}, [
            "paid is a text, where basket takes a boolean",
            "due is a list, where basket takes a date and time or null",
            "to is a text, where basket takes one of 'home', 'shop'"]),
        ("sole", {"x": {}}, ["x is an object, where sole takes a whole number"]),
        ("sole", [1], ["x is a list, where sole takes a whole number"]),
    ],
)  # fmt: skip
def test_a_value_that_the_types_of_a_function_refuse_is_told_at_the_start(
    kit: Stepwell, caplog: pytest.LogCaptureFixture, workflow: str, given: Json, misfits: list[str]
) -> None:
    """The run fails for it. The start is not refused: the code of a model may convert more than can be told."""
    assert kit.start(workflow, given).status == "failed"
    told = [one.getMessage() for one in caplog.records if one.name == "stepwell.testing"]
    assert told == [f"{one}: the run may fail at its start." for one in misfits]


@pytest.mark.parametrize(
    ("workflow", "given"),
    [
        ("model", {"sku_id": "A", "count": "7"}),
        ("model", {"sku_id": "A", "count": 2.0}),
        ("basket", {"lines": [LINE], "paid": "yes", "due": 1_700_000_000, "to": "shop", "more": [1]}),
        ("basket", {"basket": {"lines": [], "paid": 1, "due": "2026-01-31T10:00:00Z"}}),
        ("sole", "7"),
    ],
)
def test_nothing_is_told_of_a_value_that_the_types_convert(
    kit: Stepwell, caplog: pytest.LogCaptureFixture, workflow: str, given: Json
) -> None:
    assert kit.start(workflow, given).status == "completed"
    assert [one for one in caplog.records if one.name == "stepwell.testing"] == []
