"""JSON Schemas: all problems with their places, and no way out of the schema."""

from __future__ import annotations

import copy

import pytest

from stepwell.definition.schemas import compile_schema
from stepwell.errors import DefinitionError

SCHEMA = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"$ref": "#/$defs/id"},
        "items": {"type": "array", "items": {"type": "integer", "minimum": 3, "default": 7}},
    },
    "additionalProperties": False,
    "$defs": {"id": {"type": "string"}},
}


def test_every_violation_is_reported_with_its_path() -> None:
    problems = dict(compile_schema(SCHEMA).problems({"id": 1, "items": [3, "x", 1], "extra": 1}))
    assert {"/id", "/items/1", "/items/2", ""} <= problems.keys()


def test_a_valid_value_has_no_problems_and_stays_as_it_is() -> None:
    value = {"id": "a", "items": []}
    assert compile_schema(SCHEMA).problems(value) == ()
    assert value == {"id": "a", "items": []}


def test_a_missing_property_is_named() -> None:
    assert compile_schema(SCHEMA).problems({}) == (("", "lacks id"),)


def test_compiling_leaves_the_schema_alone() -> None:
    """It is part of the document whose hash is the version."""
    schema = {"$id": "https://example.com/x.json", "$ref": "#/$defs/y", "$defs": {"y": {"type": "string"}}}
    before = copy.deepcopy(schema)
    compile_schema(schema)
    assert schema == before


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strng"},
        {"properties": 5},
        {"required": "a"},
        {"pattern": "("},
        {"minimum": "a"},
        {"$ref": "#/nowhere"},
        {"$ref": "https://example.com/schema.json"},
        {"properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"prefixItems": [{"type": "string"}]},
        [],
        5,
    ],
)
def test_a_broken_schema_or_one_that_points_outside_is_refused(schema: object) -> None:
    with pytest.raises(DefinitionError) as caught:
        compile_schema(schema)
    assert caught.value.code == "bad_schema"


def test_a_property_may_have_the_name_of_a_schema_word() -> None:
    schema = compile_schema({"properties": {"prefixItems": {"type": "string"}}})
    assert schema.problems({"prefixItems": "x"}) == ()


def test_validation_never_raises() -> None:
    value: list[object] = []
    for _ in range(5_000):
        value = [value]
    endless = {"$ref": "#/$defs/l", "$defs": {"l": {"type": "array", "items": {"$ref": "#/$defs/l"}}}}
    assert compile_schema(endless).problems(value)
