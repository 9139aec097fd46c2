"""What callers of a durable function learn from its code, which nobody imports for it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from stepwell.definition.durable import FunctionFacts
from stepwell.runtime.folder.facts import function_facts

HEAD = """
from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

from pydantic import BaseModel, Field
from somewhere import Foreign
from stepwell import workflow

"""


def facts(folder: Path, text: str, name: str = "work") -> FunctionFacts:
    (folder / "shop.py").write_text(HEAD + dedent(text))
    return function_facts(folder)[f"python:shop.{name}"]


def schema_of(folder: Path, parameters: str, before: str = "") -> Any:
    comma = ", " if parameters else ""
    return facts(folder, f"{dedent(before)}\n@workflow\nasync def work(ctx{comma}{parameters}): ...\n")["input_schema"]


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        ("str", {"type": "string"}),
        ("int", {"type": "integer"}),
        ("float", {"type": "number"}),
        ("bool", {"type": "boolean"}),
        ("datetime", {"type": "string", "format": "date-time"}),
        ("'int'", {"type": "integer"}),
        ("list[int]", {"type": "array", "items": {"type": "integer"}}),
        ("tuple[str, ...]", {"type": "array", "items": {"type": "string"}}),
        ("set[str]", {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        ("dict[str, int]", {"type": "object", "additionalProperties": {"type": "integer"}}),
        ("dict", {"type": "object", "additionalProperties": True}),
        ("int | None", {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ("Optional[int]", {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ("Literal['a', 2]", {"enum": ["a", 2]}),
        ("Annotated[int, Field(ge=1, description='how many')]",
         {"type": "integer", "minimum": 1, "description": "how many"}),
        ("Foreign | int", {}),
        ("Foreign", {}),
        ("Any", {}),
        ("no_such_thing[", {}),
    ],
)  # fmt: skip
def test_a_parameter_has_the_schema_of_its_hint(tmp_path: Path, hint: str, schema: dict[str, Any]) -> None:
    """The hint is read as it is written."""
    hint = repr(hint) if hint.endswith("[") else hint
    found = schema_of(tmp_path, f"one: {hint}, other: str")

    assert found["properties"]["one"] == schema


def test_parameters_without_a_default_are_required(tmp_path: Path) -> None:
    """Those with one say which it is, if it is a literal."""
    found = schema_of(tmp_path, "sku: str, *, count: int = 2, note=None, when: datetime = datetime.max")

    assert found["required"] == ["sku"]
    assert found["properties"]["count"] == {"type": "integer", "default": 2}
    assert found["properties"]["note"] == {}
    assert "default" not in found["properties"]["when"]


def test_a_sole_model_is_the_whole_input(tmp_path: Path) -> None:
    """So it is when the function is called; among others it stands under its name."""
    dataclass = """
        @dataclass
        class Order:
            sku: str
            count: int = 1
            tags: list[str] = field(default_factory=list)
    """
    order = {
        "type": "object",
        "properties": {
            "sku": {"type": "string"},
            "count": {"type": "integer", "default": 1},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["sku"],
    }

    assert schema_of(tmp_path, "order: Order", dataclass) == {"$ref": "#/$defs/Order", "$defs": {"Order": order}}
    both = schema_of(tmp_path, "order: Order, rush: bool", dataclass)
    assert both["properties"]["order"] == {"$ref": "#/$defs/Order"}


@pytest.mark.parametrize(
    ("fields", "properties", "required"),
    [
        ("class Order(BaseModel):\n    sku: str = Field(alias='SKU', min_length=3)\n    left: int = Field(0, le=9)",
         {"SKU": {"type": "string", "minLength": 3}, "left": {"type": "integer", "maximum": 9, "default": 0}}, ["SKU"]),
        ("class Order(TypedDict):\n    sku: str\n    note: NotRequired[str]",
         {"sku": {"type": "string"}, "note": {"type": "string"}}, ["sku"]),
        ("class Base(BaseModel):\n    sku: str\nclass Order(Base):\n    parts: list[Order] = []",
         {"sku": {"type": "string"}, "parts": {"type": "array", "items": {"$ref": "#/$defs/Order"}, "default": []}},
         ["sku"]),
        ("class Size(enum.Enum):\n    SMALL = 's'\n    BIG = 'b'\n@dataclass\nclass Order:\n    size: Size\n"
         "    hash: str = field(init=False)",
         {"size": {"$ref": "#/$defs/Size"}}, ["size"]),
    ],
)  # fmt: skip
def test_a_class_of_the_folder_has_its_fields(
    tmp_path: Path, fields: str, properties: dict[str, Any], required: list[str]
) -> None:
    """Of pydantic models, TypedDicts and dataclasses; those of the classes above it too."""
    found = schema_of(tmp_path, "order: Order", fields)["$defs"]

    assert found["Order"] == {"type": "object", "properties": properties, "required": required}
    assert "Size" not in found or found["Size"] == {"enum": ["s", "b"]}


def test_a_class_of_another_module_is_found(tmp_path: Path) -> None:
    """By its import, under another name too, and by an alias of a type."""
    (tmp_path / "models.py").write_text("from typing import TypedDict\nclass Order(TypedDict):\n    sku: str\n")

    found = schema_of(tmp_path, "orders: Orders", "from models import Order as Bought\nOrders = list[Bought]\n")

    assert found["properties"]["orders"] == {"type": "array", "items": {"$ref": "#/$defs/Order"}}


def test_a_sole_type_of_a_library_is_not_known(tmp_path: Path) -> None:
    """It may be a model, which gets the whole input, or a plain type, which gets it by name."""
    assert schema_of(tmp_path, "order: Foreign") is None


def test_a_function_without_parameters_takes_nothing(tmp_path: Path) -> None:
    """Its schema is an object without properties."""
    assert schema_of(tmp_path, "") == {"type": "object", "properties": {}}


def test_queries_and_updates_are_named(tmp_path: Path) -> None:
    """Those that the function's code names by a literal, as decorators and as calls."""
    found = facts(
        tmp_path,
        """
        @workflow
        async def work(ctx):
            @ctx.query("total")
            def total(): ...
            ctx.query("items", lambda: [])
            @ctx.update("add")
            def add(sku): ...
            ctx.step("query")
        """,
    )

    assert (found["queries"], found["updates"]) == (["total", "items"], ["add"])


def test_code_that_goes_round_is_read_to_its_end(tmp_path: Path) -> None:
    """Classes that are above each other, and aliases of aliases, are of no known type."""
    before = "class A(B): ...\nclass B(A): ...\nX = 'Y'\nY = 'X'\nL = list['L']\n"

    assert schema_of(tmp_path, "a: A, x: X", before)["properties"] == {"a": {}, "x": {}}
    assert schema_of(tmp_path, "a: L, x: X", before)["properties"]["x"] == {}
