"""Models whose stored form is not the one that they are read in come out of the log as they went in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Generic, NotRequired, Optional, TypeVar

import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    Json,
    RootModel,
    ValidationError,
    computed_field,
)
from pydantic.dataclasses import dataclass as model_dataclass
from typing_extensions import TypedDict

from stepwell.runtime.steps.binding import converter_of, json_of
from stepwell.runtime.steps.stored_forms import changes_stored
from tests.durable.conftest import Flows

T = TypeVar("T")


class Total(BaseModel):
    model_config = ConfigDict(extra="forbid")
    net: int
    parts: list[Total] = []

    @computed_field  # type: ignore[prop-decorator]  # of pydantic
    @property
    def gross(self) -> int:
        return self.net * 2


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    net: int

    @computed_field(alias="grossAmount")  # type: ignore[prop-decorator]  # of pydantic
    @property
    def gross(self) -> int:
        return self.net * 2


class Named(BaseModel):
    amount: int = Field(0, serialization_alias="totalAmount")


class Renamed(BaseModel):
    amount: int = Field(0, validation_alias="in", serialization_alias="out")


class Chosen(BaseModel):
    amount: int = Field(0, validation_alias=AliasChoices(AliasPath("deep", 0), "no"))


class Text(BaseModel):
    tags: Json[list[int]]
    anything: Json  # type: ignore[type-arg]  # as people write it
    inner: list[Annotated[dict[str, int], Json]] = []


class Box(BaseModel, Generic[T]):
    held: T


class Names(RootModel[list[Named]]):
    pass


class Parts(TypedDict):
    first: Named
    more: NotRequired[list[Named]]


@dataclass
class Plain:
    named: Named
    tags: Json[list[int]]
    other: Optional[Named] = None  # noqa: UP045 - as people write it


@model_dataclass
class Modelled:
    amount: int = Field(0, serialization_alias="totalAmount")


TEXT = Text(tags="[1, 2]", anything='{"a": 1}', inner=['{"b": 2}'])  # type: ignore[arg-type,list-item]  # read


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Total, Total(net=1, parts=[Total(net=2)])),
        (Open, Open(net=1, note="x")),  # type: ignore[call-arg]  # extra="allow"
        (Named, Named(amount=7)),
        (Renamed, Renamed(**{"in": 7})),
        (Chosen, Chosen(no=7)),  # type: ignore[call-arg]  # by its alias
        (Text, TEXT),
        (Box[Total], Box[Total](held=Total(net=1))),
        (Names, Names([Named(amount=7)])),
        (Parts, {"first": Named(amount=1), "more": [Named(amount=2)]}),
        (Plain, Plain(Named(amount=1), [1], Named(amount=2))),
        (Modelled, Modelled(7)),
        (dict[str, list[Named]], {"a": [Named(amount=7)]}),
        (tuple[Named, int], (Named(amount=7), 1)),
        (tuple[Named, ...], (Named(amount=7), Named(amount=8))),
        (Named | int | None, Named(amount=7)),
        (list[Named | str], [Named(amount=7), "x"]),
        (Annotated[Named, "a note"], Named(amount=7)),
    ],
)
def test_a_model_is_read_as_it_was_stored(hint: Any, value: Any) -> None:
    stored = json.loads(json.dumps(json_of(value, "the value")))
    assert converter_of(hint)(stored) == value


def test_what_callers_give_is_read_as_before() -> None:
    assert converter_of(Named)({"amount": 3}) == Named(amount=3)
    assert converter_of(Renamed)({"in": 3}) == Renamed(**{"in": 3})
    assert converter_of(Text)({"tags": "[1]", "anything": "2"}).anything == 2
    for wrong in ({"net": 1, "nett": 2}, {"gross": 2}):
        with pytest.raises(ValidationError):
            converter_of(Total)(wrong)
    with pytest.raises(ValidationError):
        converter_of(tuple[Named, int])([{"amount": 1}, 2, 3])


def test_of_two_models_an_object_is_left_to_pydantic() -> None:
    """Which of them was stored cannot be told, and to guess it might make another one of it."""
    with pytest.raises(ValidationError):
        converter_of(Total | Text)({"tags": [1], "anything": 2})


def test_other_types_are_read_without_a_second_look() -> None:
    assert not any(map(changes_stored, (int, list[str], dict[str, Any], Any, None, T, "Named", Box[int])))


def test_a_function_passes_such_models_to_steps_and_gets_them_back(flows: Flows) -> None:
    kit = flows(
        """
from pydantic import BaseModel, ConfigDict, Field, Json, computed_field
from stepwell import workflow

class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")
    net: int = Field(1, serialization_alias="netAmount")
    tags: Json[list[str]]

    @computed_field
    @property
    def gross(self) -> int:
        return self.net * 2

def same(order: Order) -> Order:
    assert order.net == 7, order
    return order

@workflow
async def flow(ctx, order: Order) -> Order:
    got = await ctx.step(same, order)
    assert got == order == (await ctx.map(same, [order]))[0] == await ctx.event("order", type=Order), got
    return got
""",
        sessions=0,
    )
    run = kit.start("flow", {"net": 7, "tags": '["a"]'})
    kit.event("order", {"netAmount": 7, "tags": ["a"], "gross": 14})
    assert run.result == {"netAmount": 7, "tags": ["a"], "gross": 14}, run.error
