"""Waits for people and events whose time limit is a small number without a unit: seconds, where hours are meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.definition.compiler import compile_definition, compile_document
from stepwell.definition.durations import without_unit
from stepwell.errors import Problem
from stepwell.runtime.folder.code import check_folder_code

CODE = """
import stepwell as sw
from stepwell import step, wait_for_approval, workflow

@step(timeout=8)
def ask():
    return wait_for_approval(timeout=8)

@step
def listen():
    return sw.wait_for_event("paid", timeout="30")

@workflow
async def flow(ctx, chosen: int):
    await ctx.approval("buy", timeout=48)
    await ctx.event("paid", timeout=1)
    await ctx.event("paid", timeout=chosen)
    await ctx.event("paid", timeout="8s")
    await ctx.event("paid", timeout=28_800)
    await ctx.callback(timeout=8)
    await ctx.step(ask, timeout=8)
"""


def doubts(wait: str) -> list[Problem]:
    made = compile_definition(f"workflow: flow\ntimeline: [{{name: ask, {wait}}}]")
    assert made.graph is not None
    return [one for one in made.problems if one.code == "without_unit"]


@pytest.mark.parametrize(
    ("wait", "place"),
    [
        ("wait: {for: approval, timeout: 8}", "/timeline/0/wait/timeout"),
        ("wait: {for: event, name: paid, timeout: '8'}", "/timeline/0/wait/timeout"),
        ("wait: {for: document, timeout: 8}", "/timeline/0/wait/timeout"),
        ("wait: {any: [{for: event, name: paid}, {for: approval}], timeout: 8}", "/timeline/0/wait/timeout"),
        ("wait: {any: [{for: event, name: paid, timeout: 8}, {for: approval}]}", "/timeline/0/wait/any/0/timeout"),
    ],
)
def test_a_small_number_without_a_unit_is_doubted(wait: str, place: str) -> None:
    (doubt,) = doubts(wait)
    assert (doubt.severity, doubt.path, doubt.message) == ("warning", place, "a `timeout` of 8 is 8 seconds")
    assert doubt.hint == "write 8h or 8d, or 8s if you mean it"


@pytest.mark.parametrize(
    "written",
    [
        "wait: {for: approval, timeout: 8h}",
        "wait: {for: event, name: paid, timeout: 8s}",
        "wait: {for: event, name: paid, timeout: 28800}",
        "wait: {for: event, name: paid, timeout: '{{ input.hours }}'}",
        "wait: {for: callback, timeout: 8}",
        "wait: {for: delay, timeout: 8}",
        "sleep: 8",
        "run: python:m.work, timeout: 8",
        "run: workflow:other, timeout: 8",
    ],
)
def test_a_unit_a_large_number_and_what_no_person_ends_are_left_alone(written: str) -> None:
    assert doubts(written) == []


def test_a_deployed_definition_is_not_doubted() -> None:
    node = {"name": "ask", "wait": {"for": "approval", "timeout": 8}}
    assert compile_document({"workflow": "flow", "timeline": [node]}, trusted=True).nodes["ask"].wait is not None


def test_code_is_doubted_at_the_number(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(CODE, encoding="utf-8")
    found = [one for one in check_folder_code(tmp_path) if one.code == "without_unit"]
    assert {(Path(one.file).name, one.severity) for one in found} == {("flow.py", "warning")}
    assert [(one.line, one.message) for one in found] == [
        (7, "a `timeout` of 8 is 8 seconds"),
        (11, "a `timeout` of 30 is 30 seconds"),
        (15, "a `timeout` of 48 is 48 seconds"),
        (16, "a `timeout` of 1 is 1 second"),
    ]


@pytest.mark.parametrize("value", [None, True, 0, "0", -1, "", "8 h", "soon", float("inf"), 300, [8], {}])
def test_what_is_no_small_number_is_not_doubted(value: object) -> None:
    assert without_unit(value) is None
