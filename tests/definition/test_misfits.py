"""Values that a schema of type hints does not take: told for each, and no value breaks what tells."""

from __future__ import annotations

import pytest

from stepwell.definition.graph import Json
from stepwell.definition.misfits import misfits

HUGE = 10**400  # no float has it
ROUND = {"$ref": "#/$defs/R", "$defs": {"R": {"type": "object", "properties": {"r": {"$ref": "#/$defs/R"}}}}}


@pytest.mark.parametrize("kind", ["integer", "number"])
@pytest.mark.parametrize("given", [HUGE, "9" * 400])
def test_a_number_of_any_length_is_a_number(kind: str, given: Json) -> None:
    assert not [*misfits({"type": kind}, given)]


@pytest.mark.parametrize(("kind", "taken"), [("string", "a text"), ("boolean", "a boolean"), ("array", "a list")])
def test_it_is_told_where_something_else_is_taken(kind: str, taken: str) -> None:
    assert [*misfits({"type": kind}, HUGE)] == [("", "a number", taken)]


def test_a_class_that_refers_to_itself_is_followed_as_far_as_the_value_goes() -> None:
    given: Json = 1
    for _ in range(5):
        given = {"r": given}
    assert [*misfits(ROUND, given)] == [("r.r.r.r.r", "a number", "an object")]


def test_a_type_that_is_not_known_takes_anything() -> None:
    schema = {"type": "object", "properties": {"a": {}, "b": {"anyOf": [{"$ref": "#/$defs/E"}, {"type": "null"}]}}}
    assert not [*misfits(schema | {"$defs": {"E": {}}}, {"a": [1], "b": {"c": 2}, "d": None})]
