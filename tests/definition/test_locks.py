"""Locks in definitions: where they may stand, and what their names may be made of."""

from __future__ import annotations

import pytest

from stepwell.definition.compiler import compile_definition


def errors(text: str) -> list[tuple[str, int]]:
    return [(one.code, one.line) for one in compile_definition(text, "flow.yaml").errors]


@pytest.mark.parametrize(
    "rest",
    [
        "timeline: [{name: a, run: python:m.a}]",
        "nodes: {a: {run: python:m.a}}",
        "steps: [{name: a, run: python:m.a}]",
        "actions: [{actionType: notify}]",
    ],
)
@pytest.mark.parametrize("lock", ["plain", "'thread-{{ input.id }}'", "[one, '{{ input.id }}']"])
def test_a_run_of_any_format_can_have_one_lock_or_several(rest: str, lock: str) -> None:
    graph = compile_definition(f"workflow: flow\nlock: {lock}\n{rest}").graph
    assert graph is not None
    assert graph.lock is not None


@pytest.mark.parametrize(
    "node",
    [
        "run: python:m.a, timeout: 1s",
        "run: 'workflow:flow', timeout: 1s",
        "children: [{workflow: flow}]",
        "wait: {for: approval}",
        "sleep: 1s",
    ],
)
def test_whatever_takes_time_can_have_a_lock(node: str) -> None:
    graph = compile_definition(f"workflow: flow\ntimeline: [{{name: a, {node}, lock: one}}]").graph
    assert graph is not None
    assert graph.nodes["a"].lock is not None


@pytest.mark.parametrize("node", ["transitions: [{to: end}]", "run: 'workflow:flow', detached: true"])
def test_what_takes_no_time_cannot(node: str) -> None:
    assert errors(f"workflow: flow\nnodes:\n  a: {{lock: one, {node}}}") == [("misplaced_key", 3)]


@pytest.mark.parametrize(
    ("lock", "code"),
    [
        ("[]", "wrong_type"),
        ("{a: 1}", "wrong_type"),
        ("5", "wrong_type"),
        ("", "empty_value"),
        ("'{{ input. }}'", "bad_expression"),
        ("'{{ state.order }}'", "bad_lock"),
        ("'{{ steps.a.output }}'", "bad_lock"),
    ],
)
def test_what_cannot_be_a_runs_lock_is_a_mistake(lock: str, code: str) -> None:
    assert errors(f"workflow: flow\nlock: {lock}\ntimeline: [{{name: a, run: python:m.a}}]") == [(code, 2)]


def test_a_workflow_that_holds_a_lock_asks_for_no_other_at_its_steps() -> None:
    text = "workflow: flow\nlock: one\ntimeline: [{name: a, run: python:m.a, lock: two}]"
    assert errors(text) == [("bad_lock", 2)]


def test_a_steps_lock_may_be_named_by_its_state() -> None:
    text = "workflow: flow\ntimeline: [{name: a, run: x}, {name: b, run: y, lock: 'bin-{{ state.a }}'}]"
    assert errors(text) == []
