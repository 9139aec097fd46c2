"""Expressions that differ only in literals and field names are compiled once, from the trees that they have alone."""

from __future__ import annotations

import random

import pytest

from stepwell.definition.cel import compile as cel_compile
from stepwell.definition.cel.ast import Call, Const, Fold, Given, ListOf, Literal, MapOf, Select, Tree
from stepwell.definition.cel.shapes import shape_of, with_places
from stepwell.definition.expressions import NAMES, CelExpression, compile_expression
from stepwell.errors import ExpressionError

SOURCES = [
    "result.score > 1.5",
    "result.total >= 200 && state.kind == 'order'",
    "-5 < input.a && input.b > -2.5 && - input.c < 0",
    "9223372036854775807 > 1 && -9223372036854775808 < 1",
    "state['a b'].c[0].d == \"it's\" || 'say \"so\"' in state.e",
    "has(state.user.name) && size(state.user.name) > 3",
    "state.lines.all(line, line.price > 0.5 && line.count <= 99)",
    "state.lines.map(x, x.size() + 1).exists(y, y in [1, 2, 3])",
    "{'a': 1, 'b': [1.0, 2u, 0x1F, 1e3, .5, true, null]}.a",
    "state.text.startsWith('a') ? 'yes' : 'no'",
    r"state.text.matches('^\\d+$') && state.raw == r'\d' && state.b == b'x'",
    "'''three'''  == state.a.b.c // a comment with 'quotes' and 5",
    "timestamp('2026-01-01T00:00:00Z') < now && duration('5m') > duration('1s')",
    "state.`a-b` == 5",
    "700000000000 == state.a && state.f__0 == 1 && state.s == '\N{SECTION SIGN}0'",
    "state.in_ == 1 && state.a.b1.c_2 == 10",
]


def alone(source: str) -> Tree:
    return cel_compile._parse(source, NAMES)


def by_shape(source: str) -> Tree:
    """The tree that its shape has, with its own literals and fields put back."""
    shape, given = shape_of(source)
    return filled(with_places(alone(shape)), given) if given else alone(source)


def filled(tree: Tree, given: list[Literal]) -> Tree:
    match tree:
        case Given():
            return Const(tree.of(given))
        case Select(operand, field, test_only):
            return Select(filled(operand, given), field if isinstance(field, str) else str(field.of(given)), test_only)
        case Call(function, target, args):
            of = None if target is None else filled(target, given)
            return Call(function, of, tuple(filled(one, given) for one in args))
        case ListOf(items):
            return ListOf(tuple(filled(one, given) for one in items))
        case MapOf(entries):
            return MapOf(tuple((filled(key, given), filled(value, given)) for key, value in entries))
        case Fold(variable, source, accumulator, start, condition, step, result):
            parts = (filled(one, given) for one in (start, condition, step, result))
            return Fold(variable, filled(source, given), accumulator, *parts)
    return tree


def outcome(parse: object, source: str) -> object:
    """The tree, or that there is none."""
    assert callable(parse)
    try:
        return parse(source)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("source", SOURCES)
def test_a_tree_by_shape_is_the_tree_of_the_source(source: str) -> None:
    assert outcome(by_shape, source) == outcome(alone, source)


def test_random_expressions_have_the_same_trees() -> None:
    chance = random.Random(7)
    atoms = ["state.a", "input.items[0].b", "1", "2.5", "'x'", "-3", "true", "null", "result", "[1, 'a']", "{'k': 0.5}",
             "size(state.list)", "state.name.contains('q')", "steps.a.output.n", "9007199254740993"]  # fmt: skip
    joins = [" + ", " == ", " && ", " < ", " in ", " ? 1 : ", "||", " - ", "-"]
    for _ in range(400):
        source = chance.choice(atoms)
        for _ in range(chance.randrange(4)):
            source = f"({source})" if chance.random() < 0.3 else source
            source += chance.choice(joins) + chance.choice(atoms)
        assert outcome(by_shape, source) == outcome(alone, source), source


def test_rules_that_are_alike_have_one_shape() -> None:
    assert shape_of("result.score > 1.5")[0] == shape_of("result.total > 20.25")[0]
    assert shape_of("result.score > 1.5")[0] != shape_of("result.score > 1")[0]


def test_expressions_of_one_shape_read_and_compute_what_is_their_own() -> None:
    first = compile_expression("state.total > 1.5 && steps.price.output.kind == 'a' || state['b'] - -3 == 2")
    second = compile_expression("state.count > 2.5 && steps.order.output.name == 'c' || state['d'] - -9 == 2")
    assert isinstance(first, CelExpression)
    assert isinstance(second, CelExpression)
    assert first._code is second._code
    assert (sorted(first.state), sorted(first.steps)) == (["b", "total"], ["price"])
    assert (sorted(second.state), sorted(second.steps)) == (["count", "d"], ["order"])
    scope = {"state": {"total": 1, "b": -1, "count": 1, "d": -7}, "steps": {}}
    assert first.evaluate(scope) is True
    assert second.evaluate(scope) is True
    scope["state"]["d"] = -6
    assert second.evaluate(scope) is False
    with pytest.raises(ExpressionError, match="count"):
        second.evaluate({"state": {"total": 1, "b": 1, "d": 1}, "steps": {}})


def test_a_mistake_is_told_in_the_words_of_its_source() -> None:
    compile_expression("state.total > 5 && result.kind == 'order'")
    with pytest.raises(ExpressionError, match=r"`state\.total > 5 && result\.kind = 'order'` is not a CEL") as told:
        compile_expression("state.total > 5 && result.kind = 'order'")
    assert told.value.hint == "compare with =="
    with pytest.raises(ExpressionError, match=r"1\.5") as mixed:
        compile_expression("1 + 1.5 > 2.0")
    assert "does not mix int and double" in (mixed.value.hint or "")
