"""Models whose stored form is not the one that they are read in come out of the log as they went in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, NotRequired, Optional, TypeVar

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


class Other(BaseModel):
    amount: int = Field(0, serialization_alias="otherAmount")


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    age: int = Field(0, serialization_alias="years")


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    age: int = Field(0, serialization_alias="years")


class Tree(BaseModel):
    pet: Cat | Dog
    under: list[Tree | Named] = []


class Meowing(BaseModel):
    sound: int = Field(0, alias="meow", serialization_alias="sounds")


class Texts(BaseModel):
    one: Json[Meowing | Cat]


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


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        (Named | Other, [Named(amount=7), Other(amount=7)]),  # both are read by the name `amount`
        (Total | Text, [Total(net=1), TEXT]),
        (Total | Open, [Total(net=1), Open(net=1, note="x")]),  # type: ignore[call-arg]  # extra="allow"
        (Named | None | Annotated[Other, "a note"], [Named(amount=7), None, Other(amount=7)]),
        (Annotated[Cat | Dog, Field(discriminator="kind")], [Cat(age=1), Dog(age=2)]),
        (list[Named | Other], [[Named(amount=7), Other(amount=8)]]),
        (Named | dict[str, int], [Named(amount=7), {"a": 1}]),
        (Plain | Parts, [Plain(Named(amount=1), [1]), {"first": Named(amount=1)}]),
        (Tree, [Tree(pet=Dog(age=2), under=[Tree(pet=Cat(age=1)), Named(amount=3)])]),
        (Texts, [Texts(one='{"meow": 3}')]),  # type: ignore[arg-type]  # read
    ],
)
def test_of_several_models_an_object_is_the_one_that_is_stored_so(hint: Any, values: list[Any]) -> None:
    for value in values:
        assert converter_of(hint)(json.loads(json.dumps(json_of(value, "the value")))) == value


def test_one_of_several_models_may_have_got_fields_since_and_what_fits_none_is_left_to_pydantic() -> None:
    text = Text(tags="[1]", anything="2")  # type: ignore[arg-type]  # read
    assert converter_of(Total | Text)({"tags": [1], "anything": 2}) == text
    assert converter_of(Named | Other)({"amount": 3}) == Named(amount=3)  # as callers write it
    with pytest.raises(ValidationError):
        converter_of(Total | Text)({"tags": [1], "nothing": 2})


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

class Paid(BaseModel):
    cents: int = Field(0, serialization_alias="paidCents")

class Refused(BaseModel):
    cents: int = Field(0, serialization_alias="refusedCents")

def same(order: Order) -> Order:
    assert order.net == 7, order
    return order

def pay(before: Paid | Refused) -> Paid | Refused:
    assert before == Refused(cents=3), before
    return before

@workflow
async def flow(ctx, order: Order) -> Order:
    got = await ctx.step(same, order)
    assert got == order == (await ctx.map(same, [order]))[0] == await ctx.event("order", type=Order), got
    assert await ctx.step(pay, Refused(cents=3)) == Refused(cents=3)
    return got
""",
        sessions=0,
    )
    run = kit.start("flow", {"net": 7, "tags": '["a"]'})
    kit.event("order", {"netAmount": 7, "tags": ["a"], "gross": 14})
    assert run.result == {"netAmount": 7, "tags": ["a"], "gross": 14}, run.error
