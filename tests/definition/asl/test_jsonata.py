"""Expressions in JSONata: what they select, what Step Functions adds, that they repeat, and that each of them ends."""

from __future__ import annotations

import math
import sys
import threading
import uuid
from typing import Any

import pytest

from stepwell.definition.asl import jsonata_functions
from stepwell.definition.asl.jsonata import answer_errors, compile_answer, compile_jsonata, is_jsonata
from stepwell.definition.compiler import compile_definition
from stepwell.errors import ExpressionError
from stepwell.limits import JSON_DEPTH

STATES = {
    "input": {"name": "Ann", "items": [3, 1, 2], "one": [{"x": 1}], "none": None, "empty": "", "json": '{"a": [1]}'},
    "result": {"ok": True},
    "context": {"State": {"EnteredTime": "2030-01-31T12:00:00.123Z"}},
}


def value(body: str, variables: dict[str, Any] | None = None, seed: str = "run 1") -> Any:
    return compile_jsonata(f"{{%{body}%}}").value(STATES, variables or {}, seed)


def failure(body: str, variables: dict[str, Any] | None = None) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        value(body, variables)
    assert caught.value.code == "query_evaluation_error"
    return caught.value


# -- what an expression is


@pytest.mark.parametrize("text", ["{%1%}", "{% $states.input %}", "{%\n1\n%}", "{%%}"])
def test_a_text_from_one_mark_to_the_other_is_an_expression(text: str) -> None:
    assert is_jsonata(text)


@pytest.mark.parametrize("text", ["", "{%", "{%}", " {% 1 %}", "{% 1 %} ", "$states.input", "{{ 1 }}", "a {% 1 %}"])
def test_other_texts_are_no_expressions(text: str) -> None:
    assert not is_jsonata(text)
    with pytest.raises(ExpressionError) as caught:
        compile_jsonata(text)
    assert caught.value.code == "bad_expression"


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("1 +", "column 6"),
        ("(1 + [2", "column 8"),
        ("$states.input.a b", "column 19"),
        (' "abc', "column 4"),
        ("$f(,)", "column 6"),
        ("\n  1 2", "line 2, column 5"),
        ("/* open", "column 3"),
        ("'a' & $eval('1')", "column 9"),
        ("'\\uD800'", "column 3"),
    ],
)
def test_a_mistake_has_its_place(body: str, place: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_jsonata(f"{{%{body}%}}")
    assert caught.value.code == "bad_expression"
    assert caught.value.message.endswith(f"at {place}")
    assert caught.value.hint


@pytest.mark.parametrize("text", ["{%%}", "{%  %}"])
def test_an_empty_expression_is_a_mistake(text: str) -> None:
    with pytest.raises(ExpressionError, match="write an expression"):
        compile_jsonata(text)


@pytest.mark.parametrize(
    "body", ["(" * 3000 + "1" + ")" * 3000, "-" * 50_000 + "1", "a" + "[1]" * 20_000, "1?" * 9_000]
)
def test_an_expression_nested_too_deeply_is_a_mistake(body: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_jsonata(f"{{%{body}%}}")
    assert caught.value.code == "bad_expression"
    assert len(str(caught.value)) < 500


def test_without_the_extra_an_expression_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonatapy", None)
    with pytest.raises(ExpressionError) as caught:
        compile_jsonata("{% 1 %}")
    assert (caught.value.code, caught.value.hint) == ("missing_extra", "pip install 'stepwell[asl]'")


def test_without_the_extra_a_machine_is_told_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonatapy", None)
    state = '{Type: Pass, Output: "{% 1 %}", Assign: {a: "{% 2 %}"}, End: true}'
    made = compile_definition(f"QueryLanguage: JSONata\nStartAt: A\nStates:\n  A: {state}\n", "a.asl.yaml")
    assert [(one.code, one.line) for one in made.problems] == [("missing_extra", 4)]


@pytest.mark.parametrize(
    ("body", "reads"),
    [
        ("$states.errorOutput.Cause", True),
        ("$states . errorOutput", True),
        ("$states.`errorOutput`", True),
        ("$states.input.errorOutput", False),
        ("$states.input", False),
    ],
)
def test_an_expression_knows_whether_it_reads_the_error(body: str, reads: bool) -> None:
    assert compile_jsonata(f"{{%{body}%}}").reads_error is reads


# -- what it selects


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (" $states.input.name ", "Ann"),
        ("$states.input.items[$ > 1]", [3, 2]),
        ("$states.input.items[0]", 3),
        ("$sum($states.input.items) + $extra", 16),
        ("$states.input.one[]", [{"x": 1}]),
        ("($now(); $states.input.one[])", [{"x": 1}]),
        ("$states.input.none", None),
        ("$states.input.empty", ""),
        ("null", None),
        ('{"a": null, "b": "", "c": [null, ""]}', {"a": None, "b": "", "c": [None, ""]}),
        ("$states.result.ok", True),
        ("$big", 1e30),
        ("$map($states.input.items, function($x){$x * 2})", [6, 2, 4]),
        ("{'n': $states.input.nothing}", {}),
    ],
)
def test_an_expression_selects_from_the_states_and_the_variables(body: str, expected: Any) -> None:
    assert value(body, {"extra": 10, "big": 10**30}) == expected


@pytest.mark.parametrize("body", ["$states.input.nothing", "$nobody", "name", "$", "$$", "$states.input.items[$ > 9]"])
def test_what_selects_nothing_fails(body: str) -> None:
    assert "selects nothing" in failure(body).message


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("$sum", "function"),
        ("[1, function(){1}]", "function"),
        ('{"a": {"b": $now}}', "function"),
        ("/a+/", "function"),
        ("1/0", "inf"),
        ("[null, {'a': 0/0}]", "nan"),
        ("-1/0", "-inf"),
    ],
)
def test_a_result_that_is_no_json_fails(body: str, says: str) -> None:
    assert says in failure(body).message


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("'a' + 1", "must evaluate to a number"),
        ("$error('out of stock')", "out of stock"),
        ("$number('x')", "Cannot convert"),
        ("$nobody(1)", "non-function"),
        ("$match('a', /(?=a)/)", "look-around"),
    ],
)
def test_an_expression_that_fails_says_why(body: str, says: str) -> None:
    assert says in failure(body).message


@pytest.mark.parametrize("given", ["\ud800", math.nan, {1: 2}, 10**400])
def test_data_that_is_no_json_fails_and_does_not_break(given: Any) -> None:
    assert failure("$given", {"given": given}).message


def test_a_variable_is_not_hidden_by_a_function_of_its_name() -> None:
    assert value("$hash", {"hash": "mine"}) == "mine"
    assert value("($range := 3; $range)") == 3


def test_one_expression_serves_many_threads() -> None:
    made, found = compile_jsonata("{% $uuid() & $sum($states.input.items) %}"), []
    work = [threading.Thread(target=lambda: found.append(made.value(STATES, {}, "s"))) for _ in range(4)]
    for one in work:
        one.start()
    for one in work:
        one.join()
    assert found == [made.value(STATES, {}, "s")] * 4


# -- what Step Functions adds


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("$partition([1..9], 4)", [[1, 2, 3, 4], [5, 6, 7, 8], [9]]),
        ("$partition([1, 2], 4)", [[1, 2]]),
        ("$partition([], 4)", []),
        ("$partition([1..4], 1.6)", [[1, 2], [3, 4]]),
        ("$range(0, 10, 2)", [0, 2, 4, 6, 8, 10]),
        ("$range(10, 0, -3)", [10, 7, 4, 1]),
        ("$range(3, 1, 1)", []),
        ("$range(1, 1, 5)", [1]),
        ("$hash('a', 'MD5')", "0cc175b9c0f1b6a831c399e269772661"),
        ("$hash('a', 'SHA-1')", "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
        ("$substring($hash('a', 'SHA-256'), 0, 8)", "ca978112"),
        ("$length($hash('a', 'SHA-384'))", 96),
        ("$length($hash('a', 'SHA-512'))", 128),
        ("$parse($states.input.json).a", [1]),
        ("$parse('null')", None),
        ("$parse('123456789012345678901')", 1.2345678901234568e20),
        ("$exists($parse($states.input.nothing))", False),
        ("$exists($hash($states.input.nothing, 'MD5'))", False),
    ],
)
def test_the_functions_of_step_functions_are_there(body: str, expected: Any) -> None:
    assert value(body) == expected


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("$partition([1], 0)", "1 or more"),
        ("$partition([1], 'x')", "must be a number"),
        ("$partition([1])", "must be a number"),
        ("$range(0, 1, 0)", "must not be 0"),
        ("$range(0, 1)", "must be a number"),
        ("$range(0, true, 1)", "must be a number"),
        ("$hash('a', 'CRC')", "SHA-384"),
        ("$hash(1, 'MD5')", "takes a string"),
        ("$parse('{')", "no JSON"),
        ("$parse('NaN')", "NaN"),
        ("$parse('1e999')", "1e999"),
        ("$parse(1)", "reads a string"),
    ],
)
def test_their_arguments_are_checked(body: str, says: str) -> None:
    assert says in failure(body).message


# -- it repeats


@pytest.mark.parametrize(
    "body", ["$random()", "$uuid()", "$shuffle([1..50])", "$random(7)", "[$random(), $uuid(), '', null]"]
)
def test_chance_repeats_for_the_same_seed(body: str) -> None:
    assert value(body) == value(body)


@pytest.mark.parametrize("body", ["$random()", "$uuid()", "$shuffle([1..50])"])
def test_another_seed_gives_another_chance(body: str) -> None:
    assert value(body) != value(body, seed="run 2")


def test_each_call_in_an_expression_draws_anew() -> None:
    assert len(set(value("[1..20].$random()"))) == 20
    assert len(set(value("$map([1..20], $uuid)"))) == 20


def test_random_numbers_are_from_zero_to_below_one() -> None:
    drawn = value("[1..2000].$random()")
    assert all(0 <= one < 1 for one in drawn)
    assert 0.45 < sum(drawn) / 2000 < 0.55


def test_a_seed_of_its_own_gives_the_same_number_everywhere() -> None:
    assert value("$random(5)") == value("($random(); $random(5))", seed="other") != value("$random(6)")


def test_a_uuid_has_version_4() -> None:
    found = uuid.UUID(value("$uuid()"))
    assert (found.version, found.variant) == (4, uuid.RFC_4122)


def test_chance_is_the_same_in_every_release() -> None:
    """A run's earlier decisions are decided again by later code, so these values never change."""
    assert value("[$random(), $random(7), $uuid(), $shuffle([1..5])]") == [
        0.609566249135766,
        0.3296865241554827,
        "12928747-4aed-485d-a444-e9ad0f5092cd",
        2,
        1,
        3,
        4,
        5,
    ]


def test_shuffled_lists_keep_their_items() -> None:
    assert sorted(value("$shuffle([1..50])")) == list(range(1, 51))
    assert value("$shuffle('one')") == ["one"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("$now()", "2030-01-31T12:00:00.123Z"),
        ("$millis()", 1896091200123),
        ("$now('[Y0001]-[M01]-[D01]')", "2030-01-31"),
        ("$now('[H01]:[m01]', '+0530')", "17:30"),
        ("$toMillis($now()) = $millis()", True),
        ("$map([1, 2], $millis)", [1896091200123, 1896091200123]),
    ],
)
def test_the_time_is_when_the_state_was_entered(body: str, expected: Any) -> None:
    assert value(body) == expected


@pytest.mark.parametrize("states", [{}, {"context": {}}, {"context": {"State": {"EnteredTime": "soon"}}}, None])
def test_without_that_time_only_what_asks_for_it_fails(states: Any) -> None:
    assert compile_jsonata("{% 1 %}").value(states, {}) == 1
    with pytest.raises(ExpressionError, match="EnteredTime"):
        compile_jsonata("{% $now() %}").value(states, {})


@pytest.mark.parametrize("text", ["'/' & $now()", "($r := /'/; $now())", "($n := $now; $n())", "(/* ' */ $now())"])
def test_no_spelling_reads_the_clock(text: str) -> None:
    assert str(value(text)).endswith("2030-01-31T12:00:00.123Z")


def test_no_spelling_reaches_eval() -> None:
    assert value("'$eval'") == "$eval"
    assert "$parse" in failure("($r := /'/; $x := $eval; $x('1'); '')").message


# -- it ends


@pytest.mark.parametrize(
    "body",
    [
        "($f := function($n){1 + $f($n + 1)}; $f(0))",
        "($f := function($n){$map([$n], $f)}; $f(1))",
        "($f := function($n){$replace('a', /a/, $f)}; $f(1))",
        "[1..10000000]",
        "[1..10000000000]",
        "$count([1..100000000])",
        "$append([1..90000], [1..90000])",
        "$range(0, 1e12, 1)",
        "$pad('', 1e9)",
        "$pad('a', -1e9, 'xyz')",
        "($p := $pad; $p('', 1e9))",
        "$map(['a'], function($v){$pad($v, 1e12)})",
        "$formatInteger(9e15, 'I')",
        "$formatInteger(9e18, 'i')",
        "$parse('[' & $join([1..90000].'[') & '1')",
        "$match('a', /(a{1,1000}){1,1000}/)",
        "($g := function($s, $n){$n = 0 ? $s : $g([[$s]], $n - 1)}; $g(1, 5000))",
    ],
)
def test_what_would_never_end_or_fill_the_memory_fails(body: str) -> None:
    assert failure(body).message


def test_a_result_is_nested_as_deeply_as_any_json_may_be_and_no_deeper() -> None:
    nested = f"($g := function($s, $n){{$n = 0 ? $s : $g({{'a': $s}}, $n - 1)}}; $g(LAST, {JSON_DEPTH}))"
    assert str(value(nested.replace("LAST", "1"))).count("{") == JSON_DEPTH
    assert f"nested deeper than {JSON_DEPTH} levels" in failure(nested.replace("LAST", "{'b': 1}")).message


def test_a_loop_without_end_stops_at_the_limit_of_time() -> None:
    assert "longer than a second" in str(failure("($f := function($n){$f($n + 1)}; $f(0))"))


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(a*)*b", "(a|a?)+b", "(.*)*x"])
@pytest.mark.parametrize("body", ["$contains($s, /P/)", "$replace($s, /P/, '') = $s", "$count($match($s, /P/))"])
def test_regular_expressions_take_linear_time(body: str, pattern: str) -> None:
    assert value(body.replace("P", pattern), {"s": "a" * 5_000 + "!"}) in (False, True, 0)


def test_equal_items_are_found_in_linear_time() -> None:
    assert value("$count($distinct($l))", {"l": list(range(50_000)) * 2}) == 50_000
    assert value("$distinct([1, true, {'a': 1, 'b': 2}, {'b': 2, 'a': 1}, '1', null, null, [1], [1]])") == [
        1,
        True,
        {"a": 1, "b": 2},
        "1",
        None,
        [1],
    ]


def test_bounded_functions_do_what_the_librarys_do() -> None:
    assert value("[$pad('a', 3), $pad('a', -3, '#'), $formatInteger(4, 'I'), $formatInteger(12, 'w')]") == [
        "a  ",
        "##a",
        "IV",
        "twelve",
    ]
    assert value("$distinct(3)") == 3


def test_a_defect_of_the_library_is_an_error_of_the_expression(capfd: pytest.CaptureFixture[str]) -> None:
    assert "library broke" in failure("$fromMillis(0, '[Y,1000000000]')").message
    capfd.readouterr()  # the library writes its trace


def test_no_function_is_defined_before_one_that_it_needs() -> None:
    for name, source in jsonata_functions.PRELUDE.items():
        assert f"${name} := function(" in source


# -- answers


def test_an_answer_evaluates_its_expressions_and_keeps_the_rest() -> None:
    given = {"who": "{% $states.input.name %}", "list": [1, "{% $v %}", "$states.input"], "deep": {"a/b": ["{% 1 %}"]}}
    answer = compile_answer(given)
    assert answer.value(STATES, {"v": None}) == {"who": "Ann", "list": [1, None, "$states.input"], "deep": {"a/b": [1]}}
    assert given["list"] == [1, "{% $v %}", "$states.input"]


@pytest.mark.parametrize("given", [None, True, 1.5, "text", [], {}, {"a": [1, {"b": None}]}])
def test_an_answer_without_expressions_is_itself(given: Any) -> None:
    assert compile_answer(given).value(STATES, {}) == given


def test_an_answer_may_be_one_expression() -> None:
    answer = compile_answer("{% $states.errorOutput.Error %}")
    assert answer.text == "{% $states.errorOutput.Error %}"
    assert answer.reads_error
    assert answer.value({**STATES, "errorOutput": {"Error": "E"}}, {}) == "E"


def test_equal_expressions_in_an_answer_draw_their_own_chances() -> None:
    found = compile_answer({"a": "{% $uuid() %}", "b": "{% $uuid() %}"}).value(STATES, {}, "s")
    assert found["a"] != found["b"]


def test_an_answer_says_where_it_failed() -> None:
    with pytest.raises(ExpressionError, match=r"^/a~1b/1: ") as caught:
        compile_answer({"a/b": [1, "{% $nobody %}"]}).value(STATES, {})
    assert caught.value.code == "query_evaluation_error"


def test_every_bad_text_has_its_pointer() -> None:
    given = {"ok": "{% 1 %}", "a/b": ["{% 1 + %}", {"c": "{% $eval('1') %}"}], "d": "{% ( %"}
    assert [path for path, _ in answer_errors(given, "/Output")] == ["/Output/a~1b/0", "/Output/a~1b/1/c"]
    with pytest.raises(ExpressionError, match=r"^/a~1b/0: ") as caught:
        compile_answer(given)
    assert caught.value.code == "bad_expression"


def test_an_answer_nested_too_deeply_is_a_mistake() -> None:
    given: Any = "{% 1 %}"
    for _ in range(900):
        given = [given]
    with pytest.raises(ExpressionError, match="levels"):
        compile_answer(given)
