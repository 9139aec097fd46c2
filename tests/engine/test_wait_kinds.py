"""Each kind of wait is one file: the kinds and their schemas agree, and nobody else asks which kind a wait is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import stepwell
from stepwell.definition.wait_schemas import SCHEMAS, SEVERAL
from stepwell.engine.entries import ENTRY_TYPES
from stepwell.engine.table import PARKED, Phase
from stepwell.engine.waits.kind import COMINGS, KINDS

ROOT = Path(stepwell.__file__).parent
OWN = (ROOT / "engine" / "waits", ROOT / "definition" / "wait_schemas.py")  # where a kind may be named
WORLDS = (ROOT / "simulation", ROOT / "testing")  # they play the world outside, which answers each kind in its own way
MOST = 3  # comparisons elsewhere
ONLY_A_LIMIT = {"workflow"}  # a schema of a wait that is stored as `children`
CONSTANTS = {name.upper() for name in KINDS}  # as the files of the kinds name them: LOCK, EVENT.name
NAMES = {*KINDS, *CONSTANTS}


def named(expression: ast.expr) -> set[str]:
    """The wait kinds in a constant, a name, or a list of them."""
    match expression:
        case ast.Constant(value=str(text)):
            return {text} & NAMES
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id=name), attr="name") | ast.Attribute(attr=name):
            return {name} & NAMES
        case ast.Set(elts=several) | ast.Tuple(elts=several) | ast.List(elts=several):
            return {name for one in several for name in named(one)}
    return set()


def is_kind(expression: ast.expr) -> bool:
    return ast.unparse(expression).rpartition(".")[2] in {"kind", "kinds", "waiting_for"}


def comparisons(path: Path) -> Iterator[str]:
    """Where a module compares a wait's kind, or has a table by it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(is_kind, sides)) and any(map(named, sides)):
                yield f"{path.name}:{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Match) and is_kind(node.subject):
            for pattern in (one for case in node.cases for one in ast.walk(case.pattern)):
                if isinstance(pattern, ast.MatchValue) and named(pattern.value):
                    yield f"{path.name}:{pattern.lineno}: case {ast.unparse(pattern)}"
        elif isinstance(node, ast.Dict) and len({name for key in node.keys if key for name in named(key)}) > 2:
            yield f"{path.name}:{node.lineno}: a table by kind"


def test_hardly_anybody_asks_which_kind_a_wait_is() -> None:
    outside = [path for path in sorted(ROOT.rglob("*.py")) if not any(map(path.is_relative_to, (*OWN, *WORLDS)))]
    found = [one for path in outside for one in comparisons(path)]
    assert len(found) <= MOST, "\n".join(found)


def test_the_count_finds_each_form_of_comparison(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "a = arm.kind == 'approval'\nb = kind in {'delay', 'sleep'}\nc = parked.kind == locks.LOCK\n"
        "match wait.kind:\n    case 'document': pass\nd = {'event': 1, 'response': 2, 'test': 3}\n"
        "e = kind == 'other' or size == 'test'\nf = parked.kind == LIMIT or arm.kind == EVENT.name\n",
        encoding="utf-8",
    )
    assert len(list(comparisons(module))) == 7


def test_each_kind_that_a_definition_may_name_has_its_file_and_its_schema() -> None:
    assert {*SCHEMAS, *SEVERAL} - ONLY_A_LIMIT == set(KINDS) - {"lock", "limit", "code", "tasks"}


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_parks_in_a_phase_that_waits_and_is_told_by_known_entries(name: str) -> None:
    kind = KINDS[name]
    assert kind.phase in PARKED | {Phase.WAITING_AT_FAN_IN}
    assert {kind.entry, *filter(None, [kind.over])} <= set(ENTRY_TYPES)
    assert {coming.entry for coming in kind.comings.values()} <= set(ENTRY_TYPES)
    assert all(COMINGS[came] is coming for came, coming in kind.comings.items())
