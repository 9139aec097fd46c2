"""Limits that are templates: a step's time-out, and how many branches run at once."""

from __future__ import annotations

import pytest

from stepwell.definition.compiler import compile_definition
from stepwell.limits import DAY_MS
from tests.runtime.kit import World
from tests.runtime.test_forks import waiting

STEP = "workflow: flow\ntimeline: [{name: a, run: python:m.a, timeout: '{{ input.most }}'}]"
ACTION = """
workflow: flow
timeline:
  - name: w
    wait: {for: approval, timeout: 1h, on_timeout: continue,
           timeout_actions: [{run: python:m.a, timeout: "{{ input.most }}"}]}
"""
FORK = """
workflow: flow
nodes:
  start: {transitions: [{to: each, foreach: "{{ input.items }}", max_concurrency: "{{ input.most }}"}]}
  each: {run: python:m.a, transitions: [{to: done}]}
  done: {fan_in: {policy: all}}
"""


def limits_seen(definition: str, most: object) -> list[int]:
    """The time limit of each call, in milliseconds."""
    world = World(definition)
    world.start(given={"most": most})
    world.deliver()
    world.pass_time(DAY_MS)
    return [call.timeout_ms for call in world.steps.calls]


@pytest.mark.parametrize("definition", [STEP, ACTION], ids=["a step", "an action of a time-out"])
@pytest.mark.parametrize(("most", "limit_ms"), [("90s", 90_000), (2, 2_000), ("PT1M", 60_000), (0.5, 500)])
def test_an_attempt_may_take_what_its_template_says(definition: str, most: object, limit_ms: int) -> None:
    assert limits_seen(definition, most) == [limit_ms]


@pytest.mark.parametrize("most", ["soon", None, 0, -1, True, "2y", []])
def test_a_value_that_is_no_time_fails_the_step_and_calls_nothing(most: object) -> None:
    world = World(STEP)
    run_id = world.start(given={"most": most})
    world.deliver()
    error = world.token(run_id).error
    assert error is not None
    assert (error.category, world.steps.calls) == ("validation", [])
    assert "input.most" in error.message


@pytest.mark.parametrize("most", [1, 2, 3.0, 10])
def test_a_fork_runs_as_many_branches_at_once_as_its_template_says(most: float) -> None:
    world = World(FORK.replace("run: python:m.a", "wait: {for: approval}"))
    run_id = world.start(given={"most": most, "items": [1, 2, 3, 4]})
    world.deliver()
    assert len(waiting(world, run_id, 4)) == min(most, 4)


@pytest.mark.parametrize("most", [0, -1, 1.5, "2", None, True])
def test_a_value_that_is_no_number_of_branches_fails_the_fork(most: object) -> None:
    world = World(FORK)
    run_id = world.start(given={"most": most, "items": [1]})
    world.deliver()
    end = world.token(run_id).end
    assert end is not None
    assert end.error is not None
    assert (end.status, end.error.category) == ("failed", "validation")


def test_a_step_with_a_computed_time_has_a_time_limit() -> None:
    assert compile_definition(STEP).problems == ()
    assert [one.code for one in compile_definition(STEP.replace(", timeout: '{{ input.most }}'", "")).problems] == [
        "step_without_timeout"
    ]


def test_a_compensation_has_a_fixed_time() -> None:
    text = STEP.replace("timeout: '{{ input.most }}'", "compensate: {run: python:m.b, timeout: '{{ input.most }}'}")
    (problem,) = compile_definition(text).problems
    assert (problem.code, problem.path) == ("bad_value", "/timeline/0/compensate/timeout")


@pytest.mark.parametrize(("key", "hint"), [
    ("run: 'workflow:{{ input.kind }}'", "`when`"),
    ("wait: {for: event, name: 'paid.{{ input.id }}'}", "`key`"),
])  # fmt: skip
def test_a_name_with_a_template_is_told_what_to_write(key: str, hint: str) -> None:
    (problem,) = compile_definition(f"workflow: flow\ntimeline: [{{name: a, {key}}}]").problems
    assert problem.code == "bad_name"
    assert hint in (problem.hint or "")
