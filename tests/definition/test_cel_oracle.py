"""Our evaluator against the library's own, on random expressions: the same value, or an error from both.

Left out on purpose: arithmetic that mixes ints and doubles, which we allow, and nulls in results, each of which costs
the library a reference to None.
"""

from __future__ import annotations

import random
from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]  # it has no types

from stepwell.definition.cel.compile import library as environment
from stepwell.definition.cel.values import Budget, equal
from stepwell.definition.expressions import compile_expression
from stepwell.errors import ExpressionError

DATA = {
    "result": {"a": 5, "b": 2.5, "s": "héllo", "t": True, "l": [1, 2, 3, 7], "m": {"x": 1, "y": "z"}, "e": []},
    "input": {"x": -7, "y": 0, "z": "10", "w": ["a", "bb", "a"]},
}
ATOMS = {
    "int": ["1", "2", "-3", "0", "result.a", "input.x", "input.y", "result.l[1]", "result.missing", "int(input.z)"],
    "double": ["2.0", "0.5", "result.b", "double(result.a)"],
    "text": ["'a'", "''", "result.s", "result.m.y", "input.z", "'é'", "result.l"],
    "list": ["result.l", "result.e", "input.w", "[1, 2]", "[]"],
    "bool": ["true", "false", "result.t", "has(result.q)", "has(result.m.x)", "result.missing", "'x' in result.m"],
}
FORMS = {
    "int": [
        "({int} + {int})",
        "({int} - {int})",
        "({int} * {int})",
        "({int} / {int})",
        "({int} % {int})",
        "-({int})",
        "({bool} ? {int} : {int})",
        "size({list})",
        "size({text})",
        "int({double})",
        "{text}.indexOf({text})",
    ],
    "double": ["({double} + {double})", "({double} * {double})", "({bool} ? {double} : {double})"],
    "text": [
        "({text} + {text})",
        "string({int})",
        "{text}.upperAscii()",
        "{text}.replace({text}, {text})",
        "{text}.substring({int})",
        "{list}.join({text})",
        "({bool} ? {text} : {text})",
    ],
    "list": [
        "{list}.map(x, x)",
        "{list}.map(x, {int})",
        "{list}.filter(x, x == 2)",
        "{list}.filter(x, {bool})",
        "({list} + {list})",
        "{text}.split({text})",
        "[dyn({int}), {text}]",
    ],
    "bool": [
        "({bool} && {bool})",
        "({bool} || {bool})",
        "!({bool})",
        "(dyn({int}) < {double})",
        "({int} <= {int})",
        "(dyn({int}) == {double})",
        "(dyn({text}) != {list})",
        "({text} < {text})",
        "{list}.all(x, {bool})",
        "{list}.exists(x, x > 2)",
        "{list}.exists_one(x, x == 2)",
        "{text}.contains({text})",
        "{text}.matches({text})",
        "({int} in {list})",
        "{text}.startsWith({text})",
        "{text}.endsWith({text})",
    ],
}


def expression(chance: random.Random, kind: str, depth: int) -> str:
    if depth == 0:
        return chance.choice(ATOMS[kind])
    form = chance.choice(FORMS[kind])
    for other in ATOMS:
        while f"{{{other}}}" in form:
            form = form.replace(f"{{{other}}}", expression(chance, other, depth - 1), 1)
    return form


def by_library(compiled: Any) -> tuple[str, object]:
    try:
        value = compiled.eval(data=DATA)
    except RuntimeError:
        return "error", None
    return ("error", None) if value.type() == cel.Type.ERROR else ("value", value.plain_value())


def by_us(text: str) -> tuple[str, object]:
    try:
        return "value", compile_expression(text).evaluate(DATA)
    except ExpressionError:
        return "error", None


def test_both_evaluators_agree() -> None:
    chance = random.Random(20261120)
    library = environment(tuple(DATA))
    compared = 0
    while compared < 2_000:
        text = expression(chance, chance.choice(list(ATOMS)), chance.randint(1, 3))
        try:
            compiled = library.compile(text)
        except RuntimeError:
            continue  # the types do not fit: neither evaluates it
        compared += 1
        (theirs, expected), (ours, made) = by_library(compiled), by_us(text)
        assert ours == theirs, text
        assert equal(made, expected, Budget()), text
        assert type(made) is type(expected), text
