"""Paths of Amazon States Language: what they select, where results go, and what they cost."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.definition.asl.paths import Scope, compile_path, compile_reference, put
from stepwell.definition.graph import Json
from stepwell.errors import ExpressionError
from stepwell.limits import EXPRESSION_CHARACTERS
from tests.effort import loops

BOOKS: list[dict[str, Any]] = [
    {"kind": "atlas", "title": "Rivers", "price": 8.95},
    {"kind": "novel", "title": "Honour", "price": 12.99},
    {"kind": "novel", "title": "Whale", "isbn": "0-553", "price": 8.99, "tags": ["sea", "old"]},
    {"kind": "novel", "title": "Rings", "isbn": "0-395", "price": 22.99, "tags": []},
]
SHOP: dict[str, Any] = {"shop": {"books": BOOKS, "bicycle": {"colour": "red", "price": 19.95}}, "limit": 10}


def _scope(data: Json, **variables: Json) -> Scope:
    return Scope(data, lambda: {"Execution": {"Id": "run-1"}}, variables)


def _value(text: str, data: Json = SHOP, **variables: Json) -> Json:
    return compile_path(text).value(_scope(data, **variables))


def _refused(text: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        compile_path(text)
    assert caught.value.code == "bad_expression"
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("text", "data", "value"),
    [
        ("$", {"a": 1}, {"a": 1}),
        ("$", None, None),
        ("$.a.b[0]['c d']", {"a": {"b": [{"c d": 1}]}}, 1),
        ('$["a"]', {"a": None}, None),
        ("$[ 'a' ]", {"a": 1}, 1),
        ("$['it\\'s']", {"it's": 1}, 1),
        ("$['']", {"": 1}, 1),
        ("$.my-key", {"my-key": 1}, 1),
        ("$.&Ж中.😀", {"&Ж中": {"😀": 1}}, 1),
        ("$.a\\.b", {"a.b": 1}, 1),
        ("$.foo\\@bar.baz\\[\\[.\\?pretty", {"foo@bar": {"baz[[": {"?pretty": 1}}}, 1),
        ("$[0][2].x", [[0, 1, {"x": 5}]], 5),
        ("$.a[-1]", {"a": [1, 2]}, 2),
        ("$['a','c']", {"a": 1, "b": 2, "c": 3}, {"a": 1, "c": 3}),
        ("$.a.length()", {"a": [1, 2]}, 2),
        ("$.a.sum()", {"a": [1, 2.5]}, 3.5),
    ],
)
def test_a_path_to_one_value_gives_it(text: str, data: Json, value: Json) -> None:
    assert _value(text, data) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$.shop.books[*].title", ["Rivers", "Honour", "Whale", "Rings"]),
        ("$..title", ["Rivers", "Honour", "Whale", "Rings"]),
        ("$.shop..price", [8.95, 12.99, 8.99, 22.99, 19.95]),
        ("$.shop.*", [BOOKS, SHOP["shop"]["bicycle"]]),
        ("$..books[2].title", ["Whale"]),
        ("$..books[-2].title", ["Whale"]),
        ("$..books[0,1].title", ["Rivers", "Honour"]),
        ("$..books[:2].title", ["Rivers", "Honour"]),
        ("$..books[1:2].title", ["Honour"]),
        ("$.shop.books[-2:].title", ["Whale", "Rings"]),
        ("$.shop.books[2:].title", ["Whale", "Rings"]),
        ("$.shop.books[9:]", []),
        ("$.shop.books[0,9].title", ["Rivers"]),
        ("$.shop.books[*].isbn", ["0-553", "0-395"]),
        ("$.shop.books[*].nothing", []),
        ("$.shop.books[:2]['kind','price']", [{"kind": "atlas", "price": 8.95}, {"kind": "novel", "price": 12.99}]),
        ("$.shop['books','bicycle'].price", [19.95]),
        ("$..[?(@.colour)].price", [19.95]),
        ("$..nothing", []),
    ],
)
def test_a_path_that_can_select_many_gives_a_list(text: str, value: Json) -> None:
    assert _value(text) == value


def test_a_descent_gives_what_an_object_holds_before_what_is_within_that() -> None:
    assert _value("$..*", {"a": {"b": 1}, "c": [2]}) == [{"b": 1}, [2], 1, 2]


@pytest.mark.parametrize(
    ("test", "titles"),
    [
        ("@.isbn", ["Whale", "Rings"]),
        ("!@.isbn", ["Rivers", "Honour"]),
        ("@.price < 10", ["Rivers", "Whale"]),
        ("@.price<=8.95", ["Rivers"]),
        ("@['price'] > $.limit && @.isbn", ["Rings"]),
        ("@.price > $['limit'] || @.kind == 'atlas'", ["Rivers", "Honour", "Rings"]),
        ("@.kind=='novel'&&!(@.isbn)", ["Honour"]),
        ('@.kind == "atlas"', ["Rivers"]),
        ("@.kind != 'novel'", ["Rivers"]),
        ("'atlas' == @.kind", ["Rivers"]),
        ("@.kind == 'atlas' || @.isbn && @.price > 20", ["Rivers", "Rings"]),
        ("(@.kind == 'atlas' || @.isbn) && @.price < 20", ["Rivers", "Whale"]),
        ("@.isbn == null", []),
        ("@.isbn != '0-553'", ["Rivers", "Honour", "Rings"]),
        ("@.price < 'x'", []),
        ("@.title in ['Whale', 'Rivers']", ["Rivers", "Whale"]),
        ("@.kind nin ['novel']", ["Rivers"]),
        ("@.tags contains 'sea'", ["Whale"]),
        ("@.title contains 'on'", ["Honour"]),
        ("@.tags size 2", ["Whale"]),
        ("@.tags empty true", ["Rings"]),
        ("@.tags", ["Whale", "Rings"]),
        ("@.tags[*]", ["Whale"]),
        ("@.tags == []", ["Rings"]),
    ],
)
def test_a_filter_keeps_what_passes(test: str, titles: list[str]) -> None:
    assert _value(f"$.shop.books[?({test})].title") == titles


def test_a_filter_tells_true_from_one_and_null_from_nothing() -> None:
    items = [{"x": 1}, {"x": True}, {"x": 1.0}, {"x": None}, {}]
    assert _value("$[?(@.x == 1)]", items) == [{"x": 1}, {"x": 1.0}]
    assert _value("$[?(@.x == true)]", items) == [{"x": True}]
    assert _value("$[?(@.x == null)]", items) == [{"x": None}]
    assert _value("$[?(@.x)]", items) == items[:4]


def test_a_filter_looks_at_the_items_themselves() -> None:
    assert _value("$[?(@ > 1)]", [1, 2, 3]) == [2, 3]


def test_a_context_path_makes_the_context_when_it_is_asked_for() -> None:
    asked: list[int] = []
    scope = Scope({}, lambda: asked.append(1) or {"Execution": {"Id": "run-1"}}, {})
    assert compile_path("$").value(scope) == {}
    assert not asked
    assert compile_path("$$.Execution.Id").value(scope) == "run-1"


def test_a_variable_is_read_with_its_steps() -> None:
    assert _value("$order.items[0]", {}, order={"items": ["a"]}) == "a"
    assert _value("$größe", {}, größe=4) == 4


def test_an_unknown_variable_is_named_with_the_closest() -> None:
    with pytest.raises(ExpressionError) as caught:
        _value("$ordr.id", {}, order=1)
    assert caught.value.code == "unknown_variable"
    assert "$ordr" in caught.value.message
    assert caught.value.hint == "did you mean `order`?"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("$.nothing", "no key 'nothing'"),
        ("$.limit.x", "'x' is looked for in a number"),
        ("$.shop.books.title", "in a list"),
        ("$.shop.books[4]", "4 items, and no index 4"),
        ("$.shop.books[-5]", "no index -5"),
        ("$.shop[0]", "index 0 is looked for in an object"),
        ("$.nothing[*]", "no key 'nothing'"),
        ("$.limit[0:1]", "a number where"),
        ("$.limit[?(@.x)]", "a number where"),
        ("$$.Task.Token", "no key 'Task'"),
        ("$.limit.length()", "no length"),
        ("$.shop.books.max()", "no numbers"),
    ],
)
def test_a_path_that_selects_nothing_fails(text: str, why: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        _value(text)
    assert caught.value.code == "parameter_path_failure"
    assert text in caught.value.message
    assert why in caught.value.message


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("", 1),
        ("a.b", 1),
        ("$.", 3),
        ("$.a..", 6),
        ("$.a b", 4),
        (" $", 1),
        ("$.a[", 5),
        ("$.a[]", 5),
        ("$.a[x]", 5),
        ("$.a['x]", 5),
        ("$.a['x', 1]", 10),
        ("$.a[0", 6),
        ("$.a[0:4:2]", 8),
        ("$.a[99999999999]", 14),
        ("$.a[?@.x]", 6),
        ("$.a[?(@.x]", 10),
        ("$.a[?(1)]", 8),
        ("$.a[?(@.x = 1)]", 11),
        ("$.a[?(@.x == )]", 14),
        ("$.a[?(@.x =~ /(a+)+b/)]", 11),
        ("$.a.keys()", 9),
        ("$..a.length()", 12),
        ("$.a.length(1)", 12),
        ("$$a", 3),
    ],
)
def test_a_path_that_is_none_is_refused_with_its_place(text: str, at: int) -> None:
    assert f"at character {at} of" in _refused(text).message


def test_hostile_paths_are_refused() -> None:
    assert "characters" in _refused("$" + ".a" * EXPRESSION_CHARACTERS).message
    assert "nested" in _refused("$[?(" + "(" * 50 + "@.a" + ")" * 52 + "]").message
    assert "nested" in _refused("$[?(" + "!" * 50 + "@.a)]").message
    assert "nested" in _refused("$" + "[?(@" * 50).message
    assert "nested" in _refused("$[?(@ in " + "[" * 2_000).message


@pytest.mark.parametrize(
    "text",
    ["$..*", "$..*..*", "$..*..*..*", "$..[?(@..[?(@..x)])]", f"$..[?({' || '.join(['@.x == 1'] * 700)})]"],
)
def test_a_path_over_a_large_document_ends_soon(text: str) -> None:
    data: Json = {"x": "leaf" * 100}
    for _ in range(40):
        data = {"a": data, "b": [data] if len(str(data)) < 20_000 else []}
    wide = {"items": [data] * 300, "numbers": [{"y": at} for at in range(100_000)]}

    def evaluate() -> None:
        with pytest.raises(ExpressionError) as caught:
            _value(text, wide)
        assert caught.value.code == "bad_expression"

    assert loops(evaluate) < 40


def test_data_that_is_too_deep_fails_as_an_expression_does() -> None:
    data: Json = 1
    for _ in range(100_000):
        data = [data]
    with pytest.raises(ExpressionError):
        _value("$..x", data)
    with pytest.raises(ExpressionError):
        _value("$[?(@ == $)]", data)
    while isinstance(data, list):  # or Python would free it with as many calls
        data = data.pop()


def test_whatever_fails_is_an_expression_error() -> None:
    def context() -> Json:
        raise OSError("no context")

    with pytest.raises(ExpressionError, match="OSError"):
        compile_path("$$").value(Scope({}, context, {}))


@pytest.mark.parametrize(
    ("text", "place"),
    [("$", ()), ("$.a", ("a",)), ("$.a.b[0]", ("a", "b", 0)), ("$['a b'].c", ("a b", "c"))],
)
def test_a_reference_is_its_keys(text: str, place: tuple[str | int, ...]) -> None:
    assert compile_reference(text) == place


@pytest.mark.parametrize(
    "text",
    [
        *("$$", "$$.a", "$name", "$name.a", "a", "", "$.a b"),
        *("$.a[*]", "$..a", "$.a[0:1]", "$.a[0,1]", "$.a[?(@.x)]", "$['a','b']"),
        *("$.a[-1]", "$.a.length()", "$" + ".a" * 65),
    ],
)
def test_what_is_no_single_place_is_no_reference(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_reference(text)
    assert caught.value.code == "bad_expression"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("data", "text", "made"),
    [
        ({"a": 1}, "$", 9),
        ([1], "$", 9),
        ({"a": 1}, "$.b", {"a": 1, "b": 9}),
        ({"a": 1}, "$.a", {"a": 9}),
        ({}, "$.a.b.c", {"a": {"b": {"c": 9}}}),
        ({"a": {"x": 1}}, "$.a.b", {"a": {"x": 1, "b": 9}}),
        ({"a": [1, {"b": 2}]}, "$.a[1].b", {"a": [1, {"b": 9}]}),
        ([1, 2], "$[0]", [9, 2]),
    ],
)
def test_a_result_is_put_at_its_place(data: Json, text: str, made: Json) -> None:
    before = repr(data)
    assert put(data, compile_reference(text), 9) == made
    assert repr(data) == before


def test_what_a_result_leaves_alone_is_shared() -> None:
    data: dict[str, Any] = {"a": {"x": 1}, "b": {"y": [1]}}
    made = put(data, ("b", "z"), 1)
    assert made["a"] is data["a"]
    assert made["b"]["y"] is data["b"]["y"]


NO_PLACES: list[tuple[Json, str]] = [
    (1, "$.a"),
    (None, "$.a"),
    ([], "$.a"),
    ({}, "$[0]"),
    ({}, "$.a[0]"),
    ({"a": None}, "$.a.b"),
    ({"a": "x"}, "$.a.b"),
    ({"a": [1]}, "$.a.b"),
    ({"a": [1]}, "$.a[1]"),
    ({"a": [1]}, "$.a[0].b"),
]


@pytest.mark.parametrize(("data", "text"), NO_PLACES)
def test_a_result_that_has_no_place_fails(data: Json, text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        put(data, compile_reference(text), 9)
    assert caught.value.code == "result_path_failure"
    assert text in caught.value.message
