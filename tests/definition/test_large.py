"""The check of a large definition: its work grows with the number of rules, and each part is done once."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest

from stepwell.cli.folder.checking import print_problems
from stepwell.definition import models
from stepwell.definition.cel import compile as cel_compile
from stepwell.definition.compiler import Compiled, compile_definition
from stepwell.errors import Problem

RULES = 39  # of each node
CALLS = 80  # of Python functions for a rule: 73 as measured; 274 where each rule is compiled by itself


def definition(nodes: int) -> str:
    """A chain of nodes with 39 rules each. No two conditions are the same text."""
    lines = ["workflow: large", "nodes:"]
    for node in range(nodes):
        lines += [f"  n{node}:", "    run: python:m.step", "    transitions:"]
        lines += [
            f"      - {{to: n{node + 1}, when: \"result.v{rule} > {node}.{rule} && state.kind == 'k{rule}'\"}}"
            for rule in range(RULES)
        ]
    return "\n".join([*lines, f"  n{nodes}: {{}}"]) + "\n"


def calls_of(text: str) -> int:
    """Counts the calls of Python functions in one compilation."""
    count = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        made = compile_definition(text)
    finally:
        sys.setprofile(before)
    assert made.graph is not None
    return count


def test_the_work_for_a_rule_does_not_grow_with_the_definition() -> None:
    calls_of(definition(1))  # imports and caches
    small, large = calls_of(definition(20)), calls_of(definition(80))
    assert large / (80 * RULES) < CALLS
    assert large < 4.1 * small


def test_rules_that_are_alike_are_compiled_by_the_library_once() -> None:
    """40 nodes with 39 rules each, all different."""
    cel_compile._compiled.cache_clear()
    assert compile_definition(definition(40)).graph is not None
    assert cel_compile._compiled.cache_info().misses == 1


def test_a_definition_is_validated_as_a_whole_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    validated = []
    validate = models.WorkflowDef.model_validate
    monkeypatch.setattr(models.WorkflowDef, "model_validate", lambda data: validated.append(data) or validate(data))
    assert compile_definition(definition(10)).graph is not None
    assert len(validated) == 1


def test_the_file_of_many_problems_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "large.yaml"
    file.write_text(definition(10))
    made: Compiled = compile_definition(file.read_text(), str(file))
    reads = []
    read = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda path, **how: reads.append(path) or read(path, **how))
    print_problems(made.problems)
    assert len(made.problems) > 10
    assert reads == [file]
    assert "    3 |   n0:" in capsys.readouterr().out


def test_a_problem_without_a_line_is_printed_without_an_excerpt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_problems([Problem("no_workflows", "there are no workflows", hint="stepwell init", file=str(tmp_path))])
    error, hint = capsys.readouterr().out.splitlines()
    assert error.endswith("error there are no workflows [no_workflows]")
    assert hint == "  hint: stepwell init"
