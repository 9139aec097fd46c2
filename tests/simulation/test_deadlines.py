"""Deadlines that contradict each other, found in a definition without a run."""

from __future__ import annotations

from itertools import pairwise

import pytest

from stepwell.definition.authoring import StepDefaults
from stepwell.definition.compiler import compile_definition
from stepwell.simulation.deadlines import Contradiction, contradictions


def found(text: str, *others: str) -> list[Contradiction]:
    graphs = [compile_definition(one).graph for one in (f"workflow: w\n{text}", *others)]
    known = {one.name: one for one in graphs if one is not None}
    assert len(known) == len(graphs)
    return list(contradictions(known["w"], known, lambda run: StepDefaults()))


NAP = "  - {name: n, sleep: 50m}\n"
WAIT = "  - {name: w, wait: {for: event, name: e, timeout: 20m}}\n"
OFTEN = "  - {name: a, run: python:x.a, timeout: 1m, retry_policy: {max_retries: 6, initial_delay: 1s}}\n"
SLOWLY = "  - {name: a, run: python:x.a, retry_policy: {max_retries: 9, initial_delay: 60s}}\n"


@pytest.mark.parametrize(
    ("text", "code", "node"),
    [
        ("timeout: 1h\ntimeline:\n  - {name: a, run: python:x.a, timeout: 2h}\n", "step_outlives_run", "a"),
        ("timeout: 1h\ntimeline:\n  - {name: a, wait: {for: approval, timeout: 1h}}\n", "wait_outlives_run", "a"),
        (f"timeout: 1h\ntimeline:\n{NAP}{WAIT}", "wait_outlives_run", "w"),
        (f"timeout: 5m\ntimeline:\n{OFTEN}", "retries_outlive_run", "a"),
        (f"timeout: 5m\ntimeline:\n{SLOWLY}", "retries_outlive_run", "a"),
    ],
)
def test_two_deadlines_of_which_one_never_counts_are_found(text: str, code: str, node: str) -> None:
    assert [(one.code, one.node) for one in found(text)] == [(code, node)]


def test_sleeps_that_fill_the_whole_run_let_none_complete() -> None:
    both = "timeout: 1h\ntimeline:\n  - {name: a, sleep: 40m}\n  - {name: b, sleep: 40m}\n"
    assert [one.code for one in found(both)] == ["sleep_outlives_run", "never_completes"]
    dag = """
timeout: 1h
steps:
  - {name: a, wait: {for: delay, timeout: 40m}}
  - {name: b, wait: {for: delay, timeout: 40m}, depends_on: [a]}
"""
    assert "never_completes" in [one.code for one in found(dag)]
    beside = dag.replace(", depends_on: [a]", "")
    assert found(beside) == []


def test_a_way_around_the_sleep_is_the_one_that_counts() -> None:
    text = """
timeout: 1h
start: a
nodes:
  a: {run: "python:x.a", transitions: [{when: "result.slow", to: nap}, {to: done}]}
  nap: {sleep: 50m, transitions: [{to: done}]}
  done: {wait: {for: event, name: e, timeout: 30m}}
"""
    assert found(text) == []


def test_a_child_that_may_take_longer_than_its_parent_waits_is_found() -> None:
    parent = "timeline:\n  - {name: c, children: [{workflow: child}], timeout: 5m}\n"
    child = "workflow: child\ntimeout: 1h\ntimeline:\n  - {name: s, run: python:x.s, timeout: 1m}\n"
    assert [(one.code, one.node) for one in found(parent, child)] == [("child_outlives_wait", "c")]


def test_deadlines_that_fit_are_left_alone() -> None:
    text = """
timeout: 2d
timeline:
  - {name: a, run: python:x.a, timeout: 1m, retry_policy: {max_retries: 3, initial_delay: 10s}}
  - {name: n, sleep: 1h}
  - {name: w, wait: {for: approval, timeout: 1d}}
  - {name: b, run: python:x.b}
"""
    assert found(text) == []


def test_the_steps_of_a_long_chain_may_be_written_in_any_order() -> None:
    """The last one first: each is looked at after what it depends on."""
    names = [f"s{number}" for number in range(900)]
    steps = [f"  - {{name: {name}, run: python:x.a, depends_on: [{before}]}}\n"
             for before, name in pairwise(names)]  # fmt: skip
    text = f"timeout: 1h\nsteps:\n{''.join(reversed(steps))}  - {{name: s0, wait: {{for: delay, timeout: 2h}}}}\n"
    codes = [one.code for one in found(text)]
    assert (codes.count("sleep_outlives_run"), codes[-1]) == (1, "never_completes")
