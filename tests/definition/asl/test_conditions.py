"""Choice rules in JSONPath: what each comparator takes, what is a mistake, and that a pattern takes linear time."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.definition.asl.conditions import compile_condition, condition_errors
from stepwell.definition.asl.paths import Scope
from stepwell.errors import ExpressionError

DATA = {
    "text": "b",
    "other": "c",
    "number": 2,
    "float": 2.0,
    "yes": True,
    "no": False,
    "none": None,
    "empty": "",
    "list": [1],
    "time": "2030-01-31T12:00:00Z",
    "same_time": "2030-01-31T13:00:00.000+01:00",
    "numeral": "2",
}


def holds(rule: dict[str, Any]) -> bool:
    scope = Scope(DATA, lambda: {"State": {"Name": "Pick"}}, {"wanted": "b"})
    return compile_condition(rule).holds(scope)


def compared(name: str, comparator: str, operand: Any) -> bool:
    return holds({"Variable": f"$.{name}", comparator: operand})


@pytest.mark.parametrize(
    ("name", "comparator", "operand", "expected"),
    [
        ("text", "StringEquals", "b", True),
        ("text", "StringEquals", "B", False),
        ("text", "StringLessThan", "c", True),
        ("text", "StringLessThan", "b", False),
        ("text", "StringLessThanEquals", "b", True),
        ("text", "StringGreaterThan", "a", True),
        ("text", "StringGreaterThanEquals", "c", False),
        ("number", "NumericEquals", 2.0, True),
        ("float", "NumericEquals", 2, True),
        ("number", "NumericLessThan", 2.1, True),
        ("number", "NumericLessThanEquals", 2, True),
        ("number", "NumericGreaterThan", 2, False),
        ("number", "NumericGreaterThanEquals", -1, True),
        ("yes", "BooleanEquals", True, True),
        ("no", "BooleanEquals", True, False),
        ("no", "BooleanEquals", False, True),
        ("time", "TimestampEquals", "2030-01-31T12:00:00.000Z", True),
        ("time", "TimestampEquals", "2030-01-31T13:00:00+01:00", True),
        ("time", "TimestampLessThan", "2030-01-31T12:00:00.0000000001Z", True),
        ("time", "TimestampLessThanEquals", "2030-01-31T11:59:59.9Z", False),
        ("time", "TimestampGreaterThan", "2030-01-31T06:59:59-05:00", True),
        ("time", "TimestampGreaterThanEquals", "2030-01-31T07:00:00-05:00", True),
        ("text", "StringEqualsPath", "$wanted", True),
        ("text", "StringLessThanPath", "$.other", True),
        ("number", "NumericEqualsPath", "$.float", True),
        ("number", "NumericGreaterThanEqualsPath", "$.float", True),
        ("yes", "BooleanEqualsPath", "$.no", False),
        ("time", "TimestampEqualsPath", "$.same_time", True),
    ],
)
def test_a_comparator_compares_values_of_its_type(name: str, comparator: str, operand: Any, expected: bool) -> None:
    assert compared(name, comparator, operand) is expected


@pytest.mark.parametrize(
    ("name", "comparator", "operand"),
    [
        ("number", "StringEquals", "2"),
        ("none", "StringLessThan", "z"),
        ("list", "StringMatches", "*"),
        ("yes", "NumericEquals", 1),
        ("no", "NumericLessThan", 1),
        ("numeral", "NumericEquals", 2),
        ("number", "BooleanEquals", True),
        ("text", "TimestampLessThan", "2030-01-31T12:00:00Z"),
        ("number", "TimestampGreaterThan", "1970-01-01T00:00:00Z"),
        ("number", "NumericEqualsPath", "$.numeral"),
        ("number", "NumericGreaterThanPath", "$.yes"),
        ("yes", "BooleanEqualsPath", "$.number"),
        ("none", "StringEqualsPath", "$.none"),
    ],
)
def test_a_value_of_another_type_does_not_match(name: str, comparator: str, operand: Any) -> None:
    assert not compared(name, comparator, operand)


@pytest.mark.parametrize(
    ("comparator", "names"),
    [
        ("IsNull", {"none"}),
        ("IsNumeric", {"number", "float"}),
        ("IsBoolean", {"yes", "no"}),
        ("IsString", {"text", "other", "empty", "time", "same_time", "numeral"}),
        ("IsTimestamp", {"time", "same_time"}),
        ("IsPresent", set(DATA)),
    ],
)
def test_a_test_of_the_type_takes_just_these(comparator: str, names: set[str]) -> None:
    assert {name for name in DATA if compared(name, comparator, True)} == names
    assert {name for name in DATA if compared(name, comparator, False)} == set(DATA) - names


@pytest.mark.parametrize(
    "text",
    ["2030-01-31T12:00:00Z", "2030-01-31T12:00:00.5-23:59", "2016-12-31T23:59:60Z", "0001-01-01T00:00:00+05:00"],
)
def test_rfc_3339_is_a_timestamp(text: str) -> None:
    rule = {"Variable": "$.at", "IsTimestamp": True}
    assert compile_condition(rule).holds(Scope({"at": text}, lambda: {}, {}))


@pytest.mark.parametrize(
    "text",
    [
        "2030-01-31t12:00:00Z",
        "2030-01-31T12:00:00z",
        "2030-01-31 12:00:00Z",
        "2030-01-31T12:00:00",
        "2030-01-31T12:00Z",
        "2030-02-31T12:00:00Z",
        "2030-13-01T12:00:00Z",
        "2030-01-31T24:00:00Z",
        "2030-01-31T12:00:61Z",
        "2030-01-31T12:00:00.Z",
        "2030-01-31T12:00:00+24:00",
        "2030-01-31T12:00:00+01:60",
        "2030-01-31T12:00:00+0100",
        "0000-01-31T12:00:00Z",
        "\uff12030-01-31T12:00:00Z",
        "2030-01-31T12:00:00Z\n",
        "2030-01-31",
        "",
        1896091200,
    ],
)
def test_other_spellings_are_no_timestamps(text: Any) -> None:
    rule = {"Variable": "$.at", "IsTimestamp": True}
    assert not compile_condition(rule).holds(Scope({"at": text}, lambda: {}, {}))


# -- patterns


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        ("log-*.txt", "log-1.txt"),
        ("log-*.txt", "log-.txt"),
        ("*", ""),
        ("**", "anything"),
        ("a*", "a\nb"),
        ("*b", "ab"),
        ("a*b*c", "a-b-b-c"),
        ("a*ba", "ababa"),
        ("exact", "exact"),
        ("\\*", "*"),
        ("a\\*b*", "a*b!"),
        ("\\\\*", "\\x"),
        ("a\\b", "a\\b"),
        ("[a]*.", "[a]b."),
        ("*ä*", "xäy"),
        ("", ""),
    ],
)
def test_a_pattern_matches(pattern: str, value: str) -> None:
    rule = {"Variable": "$.it", "StringMatches": pattern}
    assert compile_condition(rule).holds(Scope({"it": value}, lambda: {}, {}))


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        ("log-*.txt", "log-1.txt.gz"),
        ("log-*.txt", "a log-1.txt"),
        ("ab*ba", "aba"),
        ("a*b*c", "acb"),
        ("*a*a*", "a"),
        ("\\*", "a"),
        ("\\\\*", "x"),
        ("a.c", "abc"),
        ("A*", "abc"),
        ("a*b*b", "ab"),
        ("", "a"),
    ],
)
def test_a_pattern_does_not_match(pattern: str, value: str) -> None:
    rule = {"Variable": "$.it", "StringMatches": pattern}
    assert not compile_condition(rule).holds(Scope({"it": value}, lambda: {}, {}))


def test_a_pattern_of_many_asterisks_takes_linear_time() -> None:
    rule = {"Variable": "$.it", "StringMatches": "a*" * 5_000 + "b"}
    assert not compile_condition(rule).holds(Scope({"it": "a" * 200_000}, lambda: {}, {}))


# -- what is not there


@pytest.mark.parametrize(
    "rule",
    [
        {"Variable": "$.nothing", "StringEquals": "a"},
        {"Variable": "$.nothing", "IsNull": True},
        {"Variable": "$.nothing", "IsString": False},
        {"Variable": "$.nothing", "StringMatches": "*"},
        {"Variable": "$.text", "StringEqualsPath": "$.nothing"},
        {"Variable": "$.number", "StringEqualsPath": "$.nothing"},
        {"Not": {"Variable": "$.nothing", "BooleanEquals": True}},
    ],
)
def test_a_path_that_selects_nothing_fails(rule: dict[str, Any]) -> None:
    with pytest.raises(ExpressionError) as caught:
        holds(rule)
    assert caught.value.code == "parameter_path_failure"


def test_only_is_present_takes_what_is_not_there() -> None:
    assert not compared("nothing", "IsPresent", True)
    assert compared("nothing", "IsPresent", False)
    assert compared("none", "IsPresent", True)
    assert holds(
        {"And": [{"Variable": "$.nothing.deep", "IsPresent": False}, {"Variable": "$.text", "StringEquals": "b"}]}
    )


class _Broken:
    text = "$.a"

    def value(self, scope: Scope) -> Any:
        raise ExpressionError("the path cannot be followed", code="bad_expression")


def test_is_present_does_not_hide_other_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.definition.asl.conditions.compile_path", lambda text: _Broken())
    with pytest.raises(ExpressionError, match="cannot be followed"):
        compared("text", "IsPresent", True)


# -- And, Or, Not

YES = {"Variable": "$.yes", "BooleanEquals": True}
NO = {"Variable": "$.no", "BooleanEquals": True}
FAILS = {"Variable": "$.nothing", "BooleanEquals": True}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"And": [YES, YES]}, True),
        ({"And": [YES, NO]}, False),
        ({"Or": [NO, YES]}, True),
        ({"Or": [NO]}, False),
        ({"Not": NO}, True),
        ({"Not": {"And": [YES, {"Or": [NO, {"Not": YES}]}]}}, True),
        ({"And": [NO, FAILS]}, False),
        ({"Or": [YES, FAILS]}, True),
        ({"Comment": "why", "Not": {**NO, "Comment": "because"}}, True),
    ],
)
def test_rules_are_joined(rule: dict[str, Any], expected: bool) -> None:
    assert holds(rule) is expected


def test_a_condition_keeps_its_text() -> None:
    assert compile_condition(YES).text == '{"Variable": "$.yes", "BooleanEquals": true}'


# -- mistakes


@pytest.mark.parametrize(
    ("rule", "pointer", "says"),
    [
        ({"Variable": "$.a", "StringEqual": "x"}, "/StringEqual", "did you mean `StringEquals`?"),
        ({"Variable": "$.a", "NumericGreater": 1}, "/NumericGreater", "did you mean `NumericGreaterThan`?"),
        ({"Variable": "$.a", "BooleanLessThan": True}, "/BooleanLessThan", "no comparator is called BooleanLessThan"),
        (
            {"Condition": "{% true %}"},
            "/Condition",
            "Condition is for JSONata",
        ),
        ({"Variable": "$.a", "StringMatchesPath": "$.b"}, "/StringMatchesPath", "did you mean `StringMatches`?"),
        ({"variable": "$.a", "IsNull": True}, "/variable", "did you mean `Variable`?"),
        ({"Variable": "$.a", "StringEquals": "x", "IsNull": True}, "", "a rule has one comparator, not 2"),
        ({"Variable": "$.a"}, "", "compares nothing"),
        ({}, "", "compares nothing"),
        ({"StringEquals": "x"}, "", "no Variable"),
        ({"Variable": 1, "IsNull": True}, "/Variable", "a path is a string"),
        ({"Variable": "a b", "IsNull": True}, "/Variable", ""),
        ({"Variable": "$.a", "StringEqualsPath": "a b"}, "/StringEqualsPath", ""),
        ({"Variable": "$.a", "StringEqualsPath": 1}, "/StringEqualsPath", "a path is a string"),
        ({"Variable": "$.a", "StringEquals": 1}, "/StringEquals", "takes a string, not 1"),
        ({"Variable": "$.a", "NumericEquals": True}, "/NumericEquals", "takes a number, not true"),
        ({"Variable": "$.a", "NumericEquals": "$.b"}, "/NumericEquals", "NumericEqualsPath takes a path"),
        ({"Variable": "$.a", "BooleanEquals": "true"}, "/BooleanEquals", "takes true or false"),
        ({"Variable": "$.a", "TimestampEquals": "today"}, "/TimestampEquals", "takes a timestamp"),
        ({"Variable": "$.a", "IsPresent": "true"}, "/IsPresent", "takes true or false"),
        ({"Variable": "$.a", "StringMatches": None}, "/StringMatches", "takes a string, not null"),
        ({"And": []}, "/And", "a list of one rule or more"),
        ({"Or": YES}, "/Or", "a list of one rule or more"),
        ({"Not": [YES]}, "/Not", "a rule is an object"),
        ({"And": [YES, 1]}, "/And/1", "a rule is an object, not 1"),
        ({"Variable": "$.a", "Not": YES}, "/Variable", "has no Variable"),
        ({"Or": [{**YES, "Next": "There"}]}, "/Or/0/Next", "inside another has no Next"),
        ({"Not": {"Or": [YES, {"Variable": "$.a", "IsNul": True}]}}, "/Not/Or/1/IsNul", "did you mean `IsNull`?"),
    ],
)
def test_a_mistake_has_its_pointer_and_a_hint(rule: dict[str, Any], pointer: str, says: str) -> None:
    ((path, error),) = condition_errors(rule, "/Choices/0")
    assert path == f"/Choices/0{pointer}"
    assert error.code == "bad_expression"
    assert says in str(error)
    with pytest.raises(ExpressionError) as caught:
        compile_condition(rule)
    assert str(caught.value) == str(error)


def test_every_mistake_is_found() -> None:
    rule = {"And": [{"StringEquals": 1}, {"Or": [{"Variable": "$.a"}, YES, {"Variable": "$.a", "Nope": 1}]}]}
    assert [path for path, _ in condition_errors(rule)] == [
        "/And/0",
        "/And/0/StringEquals",
        "/And/1/Or/0",
        "/And/1/Or/2/Nope",
    ]


def test_rules_nested_too_deeply_are_a_mistake() -> None:
    rule: dict[str, Any] = YES
    for _ in range(30):
        rule = {"Not": rule}
    assert holds(rule)
    for _ in range(50_000):
        rule = {"Not": rule}
    ((path, error),) = condition_errors(rule)
    assert path.count("/") == 31
    assert "at most 30 levels" in error.message
