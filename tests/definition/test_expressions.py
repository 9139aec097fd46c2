"""CEL conditions and templates: values, names, errors and bounds."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from typing import Any

import pytest

from stepwell.definition.expressions import compile_expression, compile_template, steps_read
from stepwell.definition.graph import Json
from stepwell.errors import ExpressionError
from stepwell.limits import EXPRESSION_CHARACTERS
from tests.effort import loops

NAMES: dict[str, Any] = {
    "input": {"name": "Bo", "id": 7},
    "state": {"kind": "order", "_last_error": {"type": "Boom"}},
    "steps": {"create-account": {"output": {"id": 3}}},
    "result": {"amount": 1500, "price": 2.5, "items": [1, 2, 3], "none": None, "text": "héllo"},
    "now": "2026-01-01T00:00:00Z",
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("result.amount > 1000", True),
        ("result.price > 2", True),
        ("result.amount == 1500.0", True),
        ("result.amount * 1.5", 2250.0),
        ("result.price + 1", 3.5),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("{{ result.amount > 1000 }}", True),
        ("state.kind == 'order' && input.id in [7, 8]", True),
        ("steps['create-account'].output.id", 3),
        ("has(result.missing)", False),
        ("has(result.none) && result.none == null", True),
        ("result.items.map(x, x * 2).filter(x, x > 2)", [4, 6]),
        ("[{}, {'a': 1}].exists(x, x.a == 1)", True),
        ("false && result.missing", False),
        ("result.missing || true", True),
        ("result.text.upperAscii()", "HéLLO"),
        ("result.text.matches('h.*o')", True),
        ("'a,b'.split(',').join('-')", "a-b"),
        ("'%s is %d'.format(['x', 3])", "x is 3"),
        ("math.greatest(1, 5, 2)", 5),
        ("now - duration('90s')", "2025-12-31T23:58:30Z"),
        ("now.getFullYear()", 2026),
        ("duration('1.5s')", "1.5s"),
        ("b'abc'", "YWJj"),
        ("1u + 1u", 2),
        ("string(1.5) + string(2)", "1.52"),
        ("type(1) == int", True),
        ("{'a': [1, {'b': null}]}", {"a": [1, {"b": None}]}),
        ("dyn(true) == 1", False),
    ],
)
def test_an_expression_gives_plain_json(text: str, value: object) -> None:
    made = compile_expression(text).evaluate(NAMES)
    assert made == value
    assert type(made) is type(value)


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("1 +", "bad_expression", ""),
        ("", "bad_expression", ""),
        ("result.a = 2", "bad_expression", "=="),
        ("true and false", "bad_expression", "&&"),
        ("1 + 1.5", "bad_expression", "double"),
        ("list.shops", "bad_expression", "`list` is a type of CEL: write state.list"),
        ("foo(1)", "bad_expression", "does not exist"),
        ("google.protobuf.Timestamp{seconds: 3}", "bad_expression", "map"),
        ("reslt.amount > 1", "unknown_name", "`result`"),
        ("approval.decision == 'approve'", "unknown_name", "state.approval"),
        ("True", "unknown_name", "true"),
        ("x" * (EXPRESSION_CHARACTERS + 1), "expression_too_long", "step"),
    ],
)
def test_a_mistake_is_found_when_it_is_compiled(text: str, code: str, hint: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text)
    assert caught.value.code == code
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("result.missing > 1", "there is no key"),
        ("result.none.x", "not null"),
        ("result.text + 1", "string"),
        ("result.items[10]", "outside"),
        ("1 / 0", "division by zero"),
        ("1e308 * 1e308", "inf"),
        ("9223372036854775807 + 1", "overflow"),
        ("error.type == 'x'", "no value here"),
        ("result.amount ? 1 : 2", "true or false"),
        ("int('x')", "int()"),
        ("'a'.matches('(')", "matches()"),
        ("timestamp('never')", "timestamp()"),
    ],
)
def test_an_error_at_run_time_is_an_expression_error_that_shows_the_source(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text).evaluate(NAMES)
    assert message in caught.value.message
    assert text in caught.value.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{'a': 1, 'b': 2}.c", "the keys are a, b; has(…) tests for a key"),
        ("{}.c", "it is empty; has(…) tests for a key"),
    ],
)
def test_a_key_that_is_missing_comes_with_those_that_are_there(text: str, told: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text).evaluate(NAMES)
    assert told in str(caught.value)


HOSTILE = {
    "nested loops": "state.l.all(x, state.l.all(y, x + y >= 0))",
    "list of lists": "state.l.map(x, state.l)",
    "replace": "state.s.replace('x', state.s)",
    "replace of nothing": "state.s.replace('', state.s)",
    "chain of replacements": "'xxxxxxxxxx'" + ".replace('x','xxxxxxxxxx')" * 9,
    "doubling by binding": "[state.s].map(a,[a+a+a+a+a+a].map(b,[b+b+b+b+b+b].map(c,[c+c+c+c+c+c+c+c].map(d,1))))",
    "shared lists": "[state.l].map(a,[a,a,a,a].map(b,[b,b,b,b].map(c,[c,c,c,c])))",
    "deep equality in a loop": "state.l.all(x, state.m == state.m)",
    "search in a loop": "state.l.all(x, -1 in state.l || true)",
    "pattern in a loop": "state.l.all(x, !state.s.matches('(.*)(.*)(.*)[a-z]{1000}y'))",
    "many patterns": "state.l.all(x, !state.k.matches('a' + string(x) + '[a-z]{1000}'))",
    "format in a loop": "state.l.map(x, '%s'.format([state.s])).size()",
    "long sum": "+".join(["1"] * 4_000),
    "deep brackets": "[" * 4_000 + "]" * 4_000,
    "deep calls": "(" * 200 + "1" + ")" * 200,
    "long conditional": "true?1:" * 1_200 + "1",
    "precision": "'%.1000000000f'.format([1.0])",
    "regular expression bomb": "'a'.matches('((a{100}){100}){100}')",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_expressions_are_refused_before_they_cost_anything(text: str) -> None:
    names = {"state": {"l": list(range(5_000)), "s": "x" * 100_000, "k": "k", "m": {str(i): i for i in range(20_000)}}}

    def refused() -> None:
        with pytest.raises(ExpressionError):
            compile_expression(text).evaluate(names)

    assert loops(refused) < 60  # measured: 8 at most, 0.4 s


def test_a_loop_over_five_thousand_items_is_no_hostile_one() -> None:
    """The library alone takes 1.4 s and 420 MB for this."""
    names = {"state": {"l": [{"id": number} for number in range(5_000)]}}
    assert compile_expression("state.l.filter(x, x.id >= 2500).map(x, x.id).size()").evaluate(names) == 2_500


def test_noise_raises_expression_errors_and_nothing_else() -> None:
    chance = random.Random(20261120)
    letters = "result.input[]{}()'\"\\+-*/%<>=!&|?:,. 0123456789abe\n\x00é\ud800{{}}"
    for _ in range(3_000):
        text = "".join(chance.choice(letters) for _ in range(chance.randint(0, 40)))
        for compile_it in (compile_expression, compile_template):
            try:
                compile_it(text).evaluate(NAMES)
            except ExpressionError:
                continue


@pytest.mark.parametrize(
    ("text", "names", "reads_error"),
    [
        ("result.amount > input.limit", {"result", "input"}, False),
        ("'error' == state.error", {"state"}, False),
        ("result.items.exists(error, error == 2)", {"result"}, False),
        ("error.type == 'x'", {"error"}, True),
        ("state._last_error.type == 'x'", {"state"}, True),
        ("state['_last_error'] != null", {"state"}, True),
        ("result._last_error", {"result"}, False),
        ("[1].map(state, state)[0] == size(state)", {"state"}, False),
    ],
)
def test_the_names_read_are_found_in_the_parsed_expression(text: str, names: set[str], reads_error: bool) -> None:
    expression = compile_expression(text)
    assert expression.names == names
    assert expression.reads_error is reads_error


def test_only_the_names_read_are_looked_at() -> None:
    """A value that is no JSON does no harm where nothing reads it."""
    assert compile_expression("input.id").evaluate({"input": {"id": 1}, "state": object()}) == 1


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("plain", "plain"),
        (5, 5),
        ("{{ result.amount }}", 1500),
        (" {{ result.items }}\n", [1, 2, 3]),
        ("Hi {{ input.name }}!", "Hi Bo!"),
        ("{{ result.none }} {{ result.items }} {{ result.price }}", "null [1,2,3] 2.5"),
        ("{{ {'a': {'b': 1}} }}", {"a": {"b": 1}}),
        ("{{ '}}' }}", "}}"),
        ({"a": ["{{ input.id }}", 1, None], "b": {"c": True}}, {"a": [7, 1, None], "b": {"c": True}}),
    ],
)
def test_a_template_keeps_types_and_fills_text(template: object, value: object) -> None:
    assert compile_template(template).evaluate(NAMES) == value


@pytest.mark.parametrize("template", ["{{ input.id", "{{}}", "a {{ 1 + }} b", {"a": ["{{ nosuch }}"]}])
def test_a_broken_template_does_not_compile(template: object) -> None:
    with pytest.raises(ExpressionError):
        compile_template(template)


def test_a_template_is_bounded_as_a_whole() -> None:
    template = ["{{ state.s }}"] * 11
    with pytest.raises(ExpressionError, match="larger than"):
        compile_template(template).evaluate({"state": {"s": "x" * 100_000}})


def test_a_template_unites_the_names_of_its_expressions() -> None:
    template = compile_template({"a": "{{ input.id }}", "b": ["{{ steps.fetch.output }}", "{{ error.type }}"]})
    assert template.names == {"input", "steps", "error"}
    assert template.reads_error
    assert steps_read(template) == {"fetch"}


def test_threads_share_an_expression() -> None:
    expression = compile_expression("input.l.map(x, x + input.n)")
    wrong: list[object] = []

    def work(number: int) -> None:
        for _ in range(300):
            if expression.evaluate({"input": {"l": [1, 2], "n": number}}) != [1 + number, 2 + number]:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_importing_the_module_does_not_load_the_library() -> None:
    code = "import sys, stepwell.definition.expressions; sys.exit('cel_expr_python' in sys.modules)"
    environment = {"PYTHONPATH": ":".join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", code], check=False, env=environment)  # noqa: S603 - our own words
    assert ended.returncode == 0


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("{{ state.list }}", [1, {"a": 2}]),
        ("{{ state.list.map(x, [x]) }}", [[1], [{"a": 2}]]),
        ("state.map", [{"key": "b", "value": 1}, {"key": "a", "value": 2}]),
        ("[timestamp('2024-01-02T03:04:05Z')]", ["2024-01-02T03:04:05Z"]),
        ("[]", []),
    ],
)
def test_the_items_of_a_collection_are_those_of_its_value(text: str, items: list[Json]) -> None:
    names = {"state": {"list": [1, {"a": 2}], "map": {"b": 1, "a": 2}}}
    for expression in (compile_expression(text), compile_template(text if "{{" in text else f"{{{{ {text} }}}}")):
        assert list(expression.items(names)) == items


def test_of_a_long_list_only_the_items_that_are_taken_are_copied() -> None:
    class Untouched(dict[str, Json]):
        """No JSON: who looks at it fails."""

    given = [Untouched(), {"a": 1}, Untouched()]
    items = compile_expression("input").items({"input": given})
    assert (len(items), items[1]) == (3, {"a": 1})
    assert items[1] is not given[1]
    with pytest.raises(ExpressionError):
        items[0]


def test_what_is_no_collection_has_no_items() -> None:
    with pytest.raises(ExpressionError, match="not a string"):
        compile_expression("input").items({"input": "many"})
