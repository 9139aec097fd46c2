"""Expressions that differ only in literals and field names are parsed once, to the trees that they would have alone."""

from __future__ import annotations

import random

import pytest

from stepwell.definition import expressions
from stepwell.definition.cel_ast import Tree
from stepwell.definition.cel_shapes import parse_by_shape, shape_of
from stepwell.definition.compiler import compile_document
from stepwell.definition.expressions import NAMES, compile_expression
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
    return expressions._tree_of.__wrapped__(source, NAMES)


def outcome(parse: object, source: str) -> object:
    """The tree, or that there is none."""
    assert callable(parse)
    try:
        return parse(source)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("source", SOURCES)
def test_a_tree_by_shape_is_the_tree_of_the_source(source: str) -> None:
    assert outcome(lambda text: parse_by_shape(text, alone), source) == outcome(alone, source)


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
        assert outcome(lambda text: parse_by_shape(text, alone), source) == outcome(alone, source), source


def test_rules_that_are_alike_have_one_shape() -> None:
    assert shape_of("result.score > 1.5")[0] == shape_of("result.total > 20.25")[0]
    assert shape_of("result.score > 1.5")[0] != shape_of("result.score > 1")[0]


def test_a_large_definition_of_rules_that_are_alike_takes_few_parses_of_the_library() -> None:
    """40 nodes with 39 rules each, all different; the library parses a rule once, not 1,560 times."""
    nodes = {
        f"n{node}": {
            "run": "python:m.step",
            "transitions": [
                {"to": f"n{node + 1}", "when": f"result.v{rule} > {node}.{rule} && state.kind == 'k{rule}'",
                 "priority": rule}
                for rule in range(1, 40)
            ],
        }
        for node in range(40)
    }  # fmt: skip
    expressions._tree_of.cache_clear()
    compile_document({"workflow": "large", "nodes": {**nodes, "n40": {}}})
    assert expressions._tree_of.cache_info().misses == 1


def test_a_mistake_is_told_in_the_words_of_its_source() -> None:
    compile_expression("state.total > 5 && result.kind == 'order'")
    with pytest.raises(ExpressionError, match=r"`state\.total > 5 && result\.kind = 'order'` is not a CEL") as told:
        compile_expression("state.total > 5 && result.kind = 'order'")
    assert told.value.hint == "compare with =="
    with pytest.raises(ExpressionError, match=r"1\.5") as mixed:
        compile_expression("1 + 1.5 > 2.0")
    assert "does not mix int and double" in (mixed.value.hint or "")
