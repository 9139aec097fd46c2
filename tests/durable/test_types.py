"""What goes into a durable function and its operations, and what comes out of them: types, and what has none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.durable.conftest import Flows

HEAD = """
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Optional
from uuid import UUID
from pydantic import BaseModel
from stepwell import StepFailed, workflow

class Colour(Enum):
    RED = "red"

class Item(BaseModel):
    name: str
    price: Decimal
    colour: Colour = Colour.RED

@dataclass
class Order:
    id: UUID
    at: datetime
    items: list[Item]
    note: Optional[str] = None
    raw: bytes = b""

ORDER = Order(UUID(int=7), datetime(2030, 1, 2, tzinfo=UTC), [Item(name="a", price=Decimal("1.10"))], raw=b"abc")

"""


def test_models_dataclasses_and_plain_types_come_out_as_they_went_in(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
def same(order: Order, colours: list[list[Colour]], maybe: Optional[Item] = None) -> Order:
    assert isinstance(order, Order) and colours == [[Colour.RED]] and maybe is None
    return order

def when(day: date, span: timedelta) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC) + span

@workflow
async def flow(ctx, order: Order) -> Order:
    assert order == ORDER, order
    got = await ctx.step(same, order, [[Colour.RED]])
    assert got == ORDER and isinstance(got.items[0].price, Decimal), got
    assert await ctx.step(when, date(2030, 1, 1), timedelta(days=1)) == ORDER.at
    both = await ctx.all(ctx.step(same, order, [[Colour.RED]]), ctx.step(when, date(2030, 1, 1), timedelta(1)))
    assert both == [ORDER, ORDER.at]
    event = await ctx.event("order", type=Order)
    assert event == ORDER
    return got
""",
        sessions=0,
    )
    order = {"id": "00000000-0000-0000-0000-000000000007", "at": "2030-01-02T00:00:00Z",
             "items": [{"name": "a", "price": "1.10"}], "raw": "abc"}  # fmt: skip
    run = kit.start("flow", {"order": order})
    kit.event("order", order)
    assert run.status == "completed", (run.error, run.view["waiting_data"])
    assert run.result["items"] == [{"name": "a", "price": "1.10", "colour": "red"}]


def test_a_strict_model_and_one_that_is_read_by_aliases_come_out_as_they_went_in(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
from pydantic import AliasChoices, ConfigDict, Field

class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    at: datetime
    price: Decimal
    colours: set[Colour]
    pair: tuple[int, UUID]
    raw: bytes = b"a"
    number: int = Field(1, validation_alias=AliasChoices("no", "nr"))

STRICT = Strict(at=ORDER.at, price=Decimal("1.10"), colours={Colour.RED}, pair=(1, UUID(int=7)), no=7)

def same(one: Strict) -> Strict:
    assert one == STRICT, one
    return one

def count(number: int) -> int:
    return number

@workflow
async def flow(ctx, one: Strict) -> Strict:
    assert one == STRICT, one
    got = await ctx.step(same, one)
    assert got == STRICT and await ctx.event("one", type=Strict) == STRICT
    assert await ctx.map(same, [one, one]) == [STRICT, STRICT]
    return got

@workflow
async def wrong(ctx, one: Strict) -> None:
    ...
""",
        sessions=0,
    )
    one = {"at": "2030-01-02T00:00:00Z", "price": "1.10", "colours": ["red"], "nr": 7,
           "pair": [1, "00000000-0000-0000-0000-000000000007"]}  # fmt: skip
    run = kit.start("flow", one)
    kit.event("one", one)
    assert run.status == "completed", (run.error, run.view["waiting_data"])
    assert run.result == {**{name: one[name] for name in one if name != "nr"}, "raw": "a", "number": 7}
    refused = kit.start("wrong", {**one, "price": True, "pair": ["1", "x"]})
    assert refused.error is not None
    assert refused.error["type"] == "step_input"
    assert all(f"one.{place}: " in refused.error["message"] for place in ("price", "pair.0", "pair.1"))


@pytest.mark.parametrize(
    "value",
    ["object()", "{1: open}", "float('nan')", "open", "b'\\xff'", "'\\ud800'", "LOOP", "[map(str, [1])]", "{None: 1}"],
)
def test_what_cannot_be_stored_is_told_wherever_it_comes_from(flows: Flows, value: str) -> None:
    kit = flows(
        HEAD
        + f"""
LOOP = []
LOOP.append(LOOP)

def take(value): ...
def give(): return {value}

@workflow
async def flow(ctx, place: str):
    if place == "argument":
        await ctx.step(take, {value})
    if place == "result":
        await ctx.step(give)
    if place == "returned":
        return {value}
    if place == "child":
        await ctx.child("flow", {value})
    if place == "state":
        ctx.state["held"] = {value}
        await ctx.sleep(1)
"""
    )
    places = {"argument": "not_storable", "result": "bad_output", "returned": "not_storable",
              "child": "not_storable", "state": "not_storable"}  # fmt: skip
    for place, code in places.items():
        run = kit.start("flow", {"place": place})
        assert run.error is not None, (place, run, run.view["waiting_data"])
        assert (run.status, run.error["type"]) == ("failed", code), (place, run.error)
        assert ("the step returned" in str(run.error["message"])) is (place == "result"), (place, run.error)


def test_a_run_that_stored_an_iterator_in_an_earlier_release_goes_on(
    flows: Flows, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
def total(rows: list) -> int: return sum(rows[0])

@workflow
async def flow(ctx):
    found = await ctx.step(total, [map(int, ["3", "4"])])
    await ctx.sleep("1h")
    return {"found": found, "rest": await ctx.step(total, [iter([5])])}
"""
    with monkeypatch.context() as patched:
        patched.setattr("stepwell.runtime.durable.operations.in_force", lambda patch: False)
        kit = flows(HEAD + text, sessions=0)
        run = kit.start("flow")
        assert run.status == "waiting", run.view
    kit.advance("1h")
    assert run.error is not None, run.view
    assert (run.error["type"], "iterator" in run.error["message"]) == ("not_storable", True)
    assert "list_iterator" in run.error["message"]  # what it made anew, and not what its log has


def test_input_that_does_not_fit_the_function_fails_the_run_and_says_what_is_wrong(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx, order: Order, count: int = 1):
    return count
"""
    )
    bad: list[Any] = [{"order": {"id": "x"}}, {"order": 5}, {"order": None}]  # {} is refused: see test_starting.py
    for given in bad:
        run = kit.start("flow", given)
        assert run.error is not None, (given, run, run.view["waiting_data"])
        assert (run.status, run.error["type"], run.error["category"]) == ("failed", "step_input", "validation")
        assert "order" in run.error["message"]


def test_a_sole_model_or_dict_gets_the_whole_input(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def model(ctx, item: Item):
    return item.name

@workflow
async def whole(ctx, given: dict):
    return given

@workflow
async def plain(ctx, given):
    return given
"""
    )
    assert kit.start("model", {"name": "a", "price": "1"}).result == "a"
    assert kit.start("whole", {"name": "a"}).result == {"name": "a"}
    assert kit.start("plain", [1, 2]).result == [1, 2]


def test_an_event_of_another_shape_raises_what_is_wrong_with_it(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx):
    return await ctx.event("item", type=Item)
"""
    )
    run = kit.start("flow")
    kit.event("item", {"name": "a", "price": "cheap"})
    assert run.error is not None
    assert (run.status, run.error["type"]) == ("failed", "wrong_type")
    assert "price" in run.error["message"]


def test_the_state_is_what_the_run_shows_and_each_change_of_it_is_stored(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx):
    ctx.state["order"] = ORDER
    ctx.state["list"] = [1]
    await ctx.sleep("1h")
    ctx.state["list"].append(2)
    del ctx.state["order"]
    await ctx.sleep("1h")
    return dict(ctx.state)
""",
        sessions=0,
    )
    run = kit.start("flow")
    assert (run.state["order"]["raw"], run.state["list"]) == ("abc", [1])
    kit.advance("1h")
    assert (run.state["order"], run.state["list"]) == (None, [1, 2])
    kit.advance("1h")
    assert run.result == {"list": [1, 2]}
