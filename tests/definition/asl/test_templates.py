"""Payload templates of Amazon States Language: what is replaced, and what is refused where."""

from __future__ import annotations

import pytest

from stepwell.definition.asl.paths import Scope
from stepwell.definition.asl.templates import compile_payload, payload_errors
from stepwell.definition.graph import Json
from stepwell.errors import ExpressionError
from stepwell.limits import JSON_DEPTH
from tests.effort import loops

SCOPE = Scope({"flagged": 7, "vals": [0, 10, 20]}, lambda: {"Task": {"Token": "t"}}, {"who": "Mara"})


@pytest.mark.parametrize(
    ("template", "value"),
    [
        (
            {"flagged": True, "parts": {"first.$": "$.vals[0]", "last3.$": "$.vals[-3:]"}},
            {"flagged": True, "parts": {"first": 0, "last3": [0, 10, 20]}},
        ),
        ({"token.$": "$$.Task.Token", "who.$": "$who"}, {"token": "t", "who": "Mara"}),
        ({"text.$": "States.Format('{}!', $who)"}, {"text": "Mara!"}),
        ([{"a.$": "$.flagged"}, 1, [{"b.$": "$.vals"}]], [{"a": 7}, 1, [{"b": [0, 10, 20]}]]),
        ({"plain": "$.flagged"}, {"plain": "$.flagged"}),
        ({"a.$.b": "x", "$": 1}, {"a.$.b": "x", "$": 1}),
        ({"b.$": "$.flagged", "a": 1}, {"b": 7, "a": 1}),
        ("$.flagged", "$.flagged"),
        (None, None),
        ({}, {}),
    ],
)
def test_a_key_that_ends_in_a_dollar_is_replaced(template: Json, value: Json) -> None:
    query = compile_payload(template)
    made = query.value(SCOPE)
    assert made == value
    assert not isinstance(made, dict) or list(made) == list(value)


def test_the_same_call_at_two_keys_draws_two_values() -> None:
    template = [{"id.$": "States.UUID()"}, {"id.$": "States.UUID()"}]
    first, second = compile_payload(template).value(SCOPE)
    assert first != second
    assert compile_payload(template).value(SCOPE) == [first, second]


def test_every_mistake_is_found_with_its_pointer() -> None:
    template = {
        "good.$": "$.a",
        "a.$": "a",
        "list": [{"b/.$": "$.["}, {"c.$": 1}],
        "d": 1,
        "d.$": "$.d",
        ".$": "$.e",
        "f": {"g.$": "States.Nothing()"},
    }
    found = dict(payload_errors(template, "/Parameters"))
    assert list(found) == [
        "/Parameters/a.$",
        "/Parameters/list/0/b~1.$",
        "/Parameters/list/1/c.$",
        "/Parameters/d.$",
        "/Parameters/.$",
        "/Parameters/f/g.$",
    ]
    assert {error.code for error in found.values()} == {"bad_expression"}
    assert all(error.hint for error in found.values())


def test_a_good_template_has_no_mistakes() -> None:
    assert list(payload_errors({"a.$": "$.a", "b": ["$.["]})) == []


def test_a_mistake_is_told_with_its_pointer() -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_payload({"a": {"b.$": "b"}})
    assert caught.value.message.endswith("in /a/b.$")


def test_a_path_without_a_value_fails_the_template() -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_payload({"a": [{"b.$": "$.nothing"}]}).value(SCOPE)
    assert caught.value.code == "parameter_path_failure"


def test_a_template_that_is_too_deep_is_refused() -> None:
    template: Json = {"a.$": "$"}
    for _ in range(JSON_DEPTH * 100):
        template = {"a": template}
    [(path, error)] = payload_errors(template)
    assert path == "/a" * JSON_DEPTH
    assert "nested" in error.message


def test_a_large_value_at_many_keys_is_refused_soon() -> None:
    query = compile_payload({f"k{at}.$": "$" for at in range(5_000)})
    large = Scope(["x" * 1_000] * 500, dict, {})

    def evaluate() -> None:
        with pytest.raises(ExpressionError, match="larger"):
            query.value(large)

    assert loops(evaluate) < 40
