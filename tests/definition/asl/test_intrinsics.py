"""Intrinsic functions of Amazon States Language: what they compute, what they refuse, and what they cost."""

from __future__ import annotations

import itertools
import uuid

import pytest

from stepwell.definition.asl.intrinsic_functions import FUNCTIONS
from stepwell.definition.asl.intrinsics import compile_value
from stepwell.definition.asl.paths import Scope
from stepwell.definition.graph import Json
from stepwell.errors import ExpressionError
from stepwell.limits import EXPRESSION_CHARACTERS
from tests.effort import loops

DATA = {
    "name": "Mara",
    "template": "Hi, {}: \\{{}\\}.",
    "items": [1, 2, 3, 4, 5, 6, 7, 8, 9],
    "twice": [1, 2, 3, 3, 3, 4, {"a": [1]}, {"a": [1.0]}],
    "one": {"a": {"a1": 1, "a2": 2}, "b": 2},
    "two": {"a": {"a3": 1}, "c": 3},
    "json": '{"x": [1, null]}',
    "marks": ".+,=",
}


def _value(text: str, seed: str = "") -> Json:
    scope = Scope(DATA, lambda: {"Execution": {"Name": "run-1"}}, {"rate": 1.5}, seed)
    return compile_value(text).value(scope)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$.name", "Mara"),
        ("$$.Execution.Name", "run-1"),
        ("$rate", 1.5),
        ("States.Format('Hello, my name is {}.', $.name)", "Hello, my name is Mara."),
        ("States.Format($.template, $.name, 1)", "Hi, Mara: {1}."),
        ("States.Format('{} {} {} {}', 1, -2.5, true, null)", "1 -2.5 true null"),
        ("States.Format('{}', $.two)", "{a={a3=1}, c=3}"),
        (r"States.Format('\{\} \' \\ {')", r"{} ' \ {"),
        ("States.Format('')", ""),
        ("States.Format( 'a {}' ,$.name )", "a Mara"),
        ("States.Format('{}', '{}')", "{}"),
        ("States.StringToJson($.json)", {"x": [1, None]}),
        ("States.JsonToString($.one)", '{"a":{"a1":1,"a2":2},"b":2}'),
        ("States.JsonToString('é\"')", '"é\\""'),
        ("States.Array()", []),
        (
            "States.Array('a', 1, -1, 1.5, 1e2, true, false, null, $rate)",
            ["a", 1, -1, 1.5, 100.0, True, False, None, 1.5],
        ),
        (r"States.Array('it\'s \\ \{\}')", ["it's \\ {}"]),
        ("States.ArrayPartition($.items, 4)", [[1, 2, 3, 4], [5, 6, 7, 8], [9]]),
        ("States.ArrayPartition($.items, 2.5)", [[1, 2, 3], [4, 5, 6], [7, 8, 9]]),
        ("States.ArrayPartition(States.Array(), 2)", []),
        ("States.ArrayContains($.items, 5)", True),
        ("States.ArrayContains($.items, 5.0)", True),
        ("States.ArrayContains($.items, '5')", False),
        ("States.ArrayContains($.items, true)", False),
        ("States.ArrayRange(1, 9, 2)", [1, 3, 5, 7, 9]),
        ("States.ArrayRange(1, 8, 2)", [1, 3, 5, 7]),
        ("States.ArrayRange(9, 1, -4)", [9, 5, 1]),
        ("States.ArrayRange(9, 1, 1)", []),
        ("States.ArrayRange(0.6, 4.4, 1.5)", [1, 3]),
        ("States.ArrayLength(States.ArrayRange(1, 1000, 1))", 1000),
        ("States.ArrayGetItem($.items, 5)", 6),
        ("States.ArrayLength($.items)", 9),
        ("States.ArrayUnique($.twice)", [1, 2, 3, 4, {"a": [1]}]),
        ("States.ArrayUnique(States.Array(1, '1', true, 'true', null))", [1, "1", True, "true", None]),
        ("States.Base64Encode('Data to encode')", "RGF0YSB0byBlbmNvZGU="),
        ("States.Base64Decode('RGVjb2RlZCBkYXRh')", "Decoded data"),
        ("States.Hash('input data', 'SHA-1')", "aaff4a450a104cd177d28d18d74485e8cae074b7"),
        ("States.Hash('', 'MD5')", "d41d8cd98f00b204e9800998ecf8427e"),
        ("States.JsonMerge($.one, $.two, false)", {"a": {"a3": 1}, "b": 2, "c": 3}),
        ("States.MathRandom(3, 4)", 3),
        ("States.MathAdd(111, -1)", 110),
        ("States.MathAdd(1.5, -1.5)", 1),
        ("States.StringSplit('1,2,3', ',')", ["1", "2", "3"]),
        ("States.StringSplit('This.is+a,test=string', $.marks)", ["This", "is", "a", "test", "string"]),
        ("States.StringSplit('//a//b', '/')", ["a", "b"]),
        ("States.StringSplit('a-b]c^d', ']^-')", ["a", "b", "c", "d"]),
        ("States.StringSplit('abc', '')", ["abc"]),
        (
            "States.ArrayGetItem(States.StringSplit(States.ArrayGetItem(States.StringSplit('a/c.d', '/'), 1), '.'), 0)",
            "c",
        ),
    ],
)
def test_a_call_computes(text: str, value: Json) -> None:
    found = _value(text)
    assert found == value
    assert repr(found) == repr(value)


@pytest.mark.parametrize(("name", "digits"), [("SHA-256", 64), ("SHA-384", 96), ("SHA-512", 128)])
def test_a_hash_is_hexadecimal(name: str, digits: int) -> None:
    assert len(_value(f"States.Hash($.name, '{name}')")) == digits


def test_all_eighteen_functions_are_there() -> None:
    assert len(FUNCTIONS) == 18


def test_a_random_value_is_that_of_its_seed_and_place() -> None:
    assert _value("States.UUID()", "a") == _value("States.UUID()", "a")
    assert _value("States.UUID()", "a") != _value("States.UUID()", "b")
    first, second = _value("States.Array(States.UUID(), States.UUID())")
    assert first != second
    assert uuid.UUID(first).version == 4


def test_a_random_number_is_within_its_range() -> None:
    found = {_value("States.MathRandom(1, 4)", str(seed)) for seed in range(100)}
    assert found == {1, 2, 3}


def test_a_seed_of_ones_own_decides_a_random_number() -> None:
    drawn = [_value(f"States.MathRandom(1, 1000000, {own})", seed) for own, seed in itertools.product([4, 5], "ab")]
    assert drawn[0] == drawn[1] != drawn[2] == drawn[3]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("States.Format($.items, 1)", "a list"),
        ("States.Format($.name, 1)", "0 {} for 1 values"),
        ("States.StringToJson('{')", "no JSON"),
        ("States.StringToJson('NaN')", "NaN"),
        ("States.StringToJson('1e999')", "inf"),
        (r"""States.StringToJson('"\\ud800"')""", "half a surrogate pair"),
        ("States.StringToJson($.one)", "an object"),
        ("States.ArrayPartition('x', 1)", "`x`"),
        ("States.ArrayPartition($.items, 0)", "is 0"),
        ("States.ArrayPartition($.items, -1)", "is -1"),
        ("States.ArrayPartition($.items, true)", "is true"),
        ("States.ArrayContains('abc', 'a')", "`abc`"),
        ("States.ArrayRange(1, 9, 0)", "step"),
        ("States.ArrayRange(1, 1001, 1)", "1001 items"),
        ("States.ArrayRange(0, 99999999999999999999, 1)", "1000 are allowed"),
        ("States.ArrayRange('1', 9, 1)", "`1`"),
        ("States.ArrayGetItem($.items, 9)", "no index 9"),
        ("States.ArrayGetItem($.items, -1)", "no index -1"),
        ("States.ArrayGetItem($.items, '0')", "`0`"),
        ("States.ArrayLength(null)", "null"),
        ("States.ArrayUnique($.one)", "an object"),
        ("States.Base64Encode(1)", "`1`"),
        ("States.Base64Decode('%')", "no Base64"),
        ("States.Base64Decode('/w==')", "no Base64"),
        ("States.Hash($.one, 'MD5')", "an object"),
        ("States.Hash('a', 'SHA-3')", "`SHA-3`"),
        ("States.Hash('a', null)", "null"),
        ("States.JsonMerge($.one, 1, false)", "`1`"),
        ("States.JsonMerge($.one, $.two, true)", "true"),
        ("States.MathRandom(7, 7)", "7"),
        ("States.MathRandom('1', 2)", "`1`"),
        ("States.MathRandom(1, 9, 'x')", "`x`"),
        ("States.MathAdd('1', 1)", "`1`"),
        ("States.StringSplit(1, ',')", "`1`"),
        ("States.StringSplit('a', 1)", "`1`"),
    ],
)
def test_a_wrong_value_fails_the_function(text: str, what: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        _value(text)
    assert caught.value.code == "intrinsic_failure"
    assert caught.value.message.startswith(text.partition("(")[0])
    assert what in caught.value.message


def test_an_argument_that_selects_nothing_fails_as_a_path() -> None:
    with pytest.raises(ExpressionError) as caught:
        _value("States.Format('{}', $.nothing)")
    assert caught.value.code == "parameter_path_failure"


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("", "neither", "write a path"),
        ("name", "neither", "write a path"),
        ("States.UUID", "neither", "a call"),
        ("States.Fromat('a')", "character 1", "did you mean `States.Format`?"),
        ("Array(1)", "no intrinsic function", "States.Array"),
        ("States.Array(States.Nothing(1))", "character 14", ""),
        ("States.Array(1", "`,`", "commas"),
        ("States.Array(1,)", "character 16", "arguments are"),
        ("States.Array(,1)", "character 14", "arguments are"),
        ("States.Array(1 2)", "character 16", "commas"),
        ('States.Array("a")', "character 14", "single quotes"),
        ("States.Array('a)", "does not end", "close it"),
        (r"States.Array('a\n')", "character 16", r"\'"),
        ("States.Array(01x)", "argument", "arguments are"),
        ("States.Array($.a[)", "character 18", ""),
        ("States.Array(1) ", "not expected", ""),
        ("States.UUID(1)", "1 argument,", "it takes 0"),
        ("States.MathRandom(1)", "1 argument,", "it takes 2 or 3"),
        ("States.ArrayRange(1, 2)", "2 arguments", "it takes 3"),
        ("States.Format()", "0 arguments", "it takes 1 or more"),
        ("States.Format('{} {}', 1)", "2 {} for 1 values", "for each"),
    ],
)
def test_a_call_that_is_none_is_refused(text: str, what: str, hint: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_value(text)
    assert caught.value.code == "bad_expression"
    assert what in caught.value.message
    assert hint in (caught.value.hint or "")


def test_calls_nest_ten_deep() -> None:
    def nested(depth: int) -> str:
        return "States.Array(" * depth + ")" * depth

    assert _value(nested(10)) == [[[[[[[[[[]]]]]]]]]]
    for depth in (11, 700):
        with pytest.raises(ExpressionError, match="nested deeper than 10"):
            compile_value(nested(depth))


@pytest.mark.parametrize("text", ["a" * 10_001, "é" * 10_001])
def test_long_data_is_neither_coded_nor_hashed(text: str) -> None:
    scope = Scope(text, dict, {})
    for call in ("States.Base64Encode($)", "States.Base64Decode($)", "States.Hash($, 'MD5')"):
        with pytest.raises(ExpressionError) as caught:
            compile_value(call).value(scope)
        assert caught.value.code == "intrinsic_failure"
        assert "10001 characters" in caught.value.message
    with pytest.raises(ExpressionError, match=str(EXPRESSION_CHARACTERS)):
        compile_value(f"States.Hash('{text}', 'MD5')")


@pytest.mark.parametrize(
    "text",
    [
        "States.Array($, $)",
        "States.Format('{}{}', $, $)",
        "States.Array(" + ", ".join(["States.JsonToString($)"] * 300) + ")",
        "States.Array(" + ", ".join(["States.ArrayLength(States.ArrayUnique($))"] * 200) + ")",
    ],
)
def test_a_result_that_grows_is_refused_soon(text: str) -> None:
    query = compile_value(text)
    large = Scope(["x" * 900] * 1_000, dict, {})

    def evaluate() -> None:
        with pytest.raises(ExpressionError) as caught:
            query.value(large)
        assert caught.value.code == "intrinsic_failure"

    assert loops(evaluate) < 60


def test_numbers_that_are_chosen_to_collide_are_unique_soon() -> None:
    collide = [at * (2**61 - 1) for at in range(30_000)]
    query = compile_value("States.ArrayLength(States.ArrayUnique($))")
    assert loops(lambda: query.value(Scope(collide, dict, {}))) < 60
