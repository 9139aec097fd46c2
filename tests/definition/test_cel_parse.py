"""Our parser of CEL beside the library's: the same trees, and nothing refused that the library takes."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from stepwell.definition.cel.ast import NotCel
from stepwell.definition.cel.compile import library
from stepwell.definition.cel.parse import parse
from tests.definition.cel_library import tree_of
from tests.definition.test_cel_oracle import ATOMS, DATA, expression
from tests.definition.test_cel_shapes import SOURCES

NAMES = (*DATA, "state", "now")
WRITTEN = [
    *SOURCES,
    "--1", "---1", "- -1", "-(1)", "!!true", "!!!true", "!-1", "-input.x", "--input.x", "1-1", "1 - -1", "-1-1",
    "-1[0]",
    "0x1F", "-0x1F", "1u", "0x1FU", "1e3", "1.5E-3", ".5", "1.", "1.5.a", "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808", "18446744073709551615u", "18446744073709551616u", "1e400",
    r"b'ab\xff\303'", r"'\u00e9\x41\101\n\t\"\a\b\f\r\v\?\`'", r"'\U0001F600'", r"'\ud800'", r"'\400'",
    r"b'\u00e9'", r"'\8'",
    r"r'a\n'", r"br'a\x'", r"rb'a'", "B'é'", "''''''", "'' ''", "'''a\n\"b'''", '"""c\'d"""', "'a\nb'", r"'\''",
    'R"a"',
    "input.`a-b`", "input.?a", "input[?'a']", "[?input.a]", "{?'a': 1}", "`a`", "input.`a`()",
    "{'a': 1, 'b': 2,}", "[1, 2,]", "[1, 2, ,]", "[,]", "{,}", "[]", "{}", "size([,])", "size(1,)", "{1: 2}",
    ".input.x", ".size(input.x)", "input . x [ 0 ]", "input.in", "input.true", "input.for", "for", "in",
    "input.\nx // end\n",
    "google.protobuf.Timestamp", "google.protobuf.Struct", "google.protobuf.Duration{seconds: 1}", "google.protobuf",
    "type(1) == int", "null_type", "timestamp", "dyn", "null", "a.b.c", "input{a: 1}", "{'a': 1}{'b': 2}",
    "input.x ? 1 : result.b ? 2 : 3", "input.x ? (result.b ? 2 : 3) : 1", "(input.x ? 1 : 2) == 1", "input.x ? 1",
    "1 in [1] && !(2 in [3])", "input.x < 1 == true", "1 + 2 * 3 - 4 / 5 % 6", "has(input.a.b)", "has(input)",
    "has(input['a'])",
    "has(has(input.a))", "input.all(x, y, z)", "input.map(x)", "input.map(x.y, 1)", "input.map(1, 1)",
    "input.map(x, true, x,)",
    "input.map(input, input)", "input.map(__result__, 1)", "map(1, 2)", "input.existsOne(x, x)", "@result",
    "__result__",
    "math.greatest()", "math.greatest(1)", "math.greatest(1, 2, 3)", "math.least(input.x, 2)", "math.ceil(1.5)",
    "math.pi", "math",
    "strings.quote('a')", "input.a.b.c(1)", "cel.bind(x, 1, x)", "optional.of(1)", "'a' 'b'", "1 2", "(1", "1)", "",
    " ", "\\u0041",
]  # fmt: skip


def library_refuses(source: str) -> bool:
    try:
        tree_of(source, NAMES)
    except (RuntimeError, TypeError, UnicodeError):
        return True
    return False


@pytest.mark.parametrize("source", [source for source in WRITTEN if not library_refuses(source)])
def test_a_source_has_the_tree_that_the_library_has(source: str) -> None:
    assert repr(parse(source)) == repr(tree_of(source, NAMES))


@pytest.mark.parametrize("joined", ["&&", "||", " && !", "==", "+", "? 1 :"])
def test_a_chain_of_any_length_has_the_same_tree(joined: str) -> None:
    for length in range(1, 30):
        source = joined.join(f"input.a{number}" for number in range(length))
        assert repr(parse(source)) == repr(tree_of(source, NAMES)), source


def test_random_sources_have_the_same_trees() -> None:
    chance = random.Random(20261123)
    compared = 0
    while compared < 1_500:
        source = expression(chance, chance.choice(list(ATOMS)), chance.randint(1, 4))
        if not library_refuses(source):
            compared += 1
            assert repr(parse(source)) == repr(tree_of(source, NAMES)), source


def test_syntax_that_the_library_refuses_is_refused() -> None:
    """Types and unknown names are for the library alone."""
    chance = random.Random(7)
    letters = [
        "input",
        ".",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        "'a'",
        "1",
        "2.5",
        "-",
        "!",
        "?",
        ":",
        ",",
        "&&",
        "==",
        "in",
        " ",
        "x",
    ]
    refused = 0
    for _ in range(6_000):
        source = "".join(chance.choice(letters) for _ in range(chance.randint(1, 7)))
        try:
            tree_of(source, ("input", "x"))
        except (RuntimeError, TypeError, UnicodeError) as error:
            if "Syntax error" in str(error):
                refused += 1
                with pytest.raises(NotCel):
                    parse(source)
        else:
            assert repr(parse(source)) == repr(tree_of(source, ("input", "x"))), source
    assert refused > 1_000


@pytest.mark.parametrize("source", ["(" * 60 + "1" + ")" * 60, "+".join("1" * 200), "[" * 4_000, "input" + ".a" * 300])
def test_what_is_nested_too_deeply_is_refused(source: str) -> None:
    with pytest.raises(NotCel, match="recursion depth"):
        parse(source)


WITHOUT = """
import sys
sys.modules["cel_expr_python"] = None
from stepwell.definition.expressions import compile_expression
from stepwell.errors import ExpressionError
print(compile_expression("input.l.map(x, x * 2).filter(x, x > 2)").evaluate({"input": {"l": [1, 2]}}))
for text in ("1 +", "inptu.x", "foo(1)", "input.x = 1", "input.size(1)", "'a".replace("'a", "'a")):
    try:
        compile_expression(text)
    except ExpressionError as error:
        print(error.code, error.message, error.hint, sep="|")
"""


def test_expressions_are_computed_and_refused_without_the_library() -> None:
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(  # noqa: S603 - our own words
        [sys.executable, "-c", WITHOUT], env=environment, capture_output=True, text=True, check=True
    )
    value, *refused = done.stdout.splitlines()
    assert value == "[4]"
    assert [line.split("|")[0] for line in refused] == ["bad_expression", "unknown_name", *["bad_expression"] * 4]
    assert "did you mean `input`?" in refused[1]
    assert refused[2].endswith("that function does not exist in CEL")
    assert refused[3].endswith("compare with ==")


def test_the_library_is_there_where_definitions_are_written() -> None:
    assert library(("input",)) is not None
