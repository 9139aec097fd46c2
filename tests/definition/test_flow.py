"""A workflow's limits in its definition: what they may say, and what their keys may be computed from."""

from __future__ import annotations

import pytest

from stepwell.definition.compiler import compile_definition
from stepwell.definition.graph import Concurrency, Gathering, Graph, RateLimit

TIMELINE = "timeline: [{name: a, run: python:m.a}]"


def compiled(limit: str, rest: str = TIMELINE) -> Graph:
    found = compile_definition(f"workflow: flow\n{limit}\n{rest}", "flow.yaml")
    assert found.graph is not None, found.problems
    return found.graph


def errors(limit: str, rest: str = TIMELINE) -> list[tuple[str, int]]:
    return [(one.code, one.line) for one in compile_definition(f"workflow: flow\n{limit}\n{rest}", "flow.yaml").errors]


@pytest.mark.parametrize(
    "rest",
    [
        TIMELINE,
        "nodes: {a: {run: python:m.a}}",
        "steps: [{name: a, run: python:m.a}]",
        "actions: [{actionType: notify}]",
        "function: python:m.f",
    ],
)
def test_every_format_can_have_limits(rest: str) -> None:
    graph = compiled('concurrency: {limit: 3, key: "{{ input.id }}"}\nrate_limit: {limit: 5, per: 1m}', rest)
    assert graph.concurrency is not None
    assert (graph.concurrency.limit, graph.concurrency.on_limit) == (3, "queue")
    assert graph.rate_limit == RateLimit(5, 60_000)


def test_the_key_is_optional_and_what_happens_at_the_limit_may_be_said() -> None:
    graph = compiled("concurrency: {limit: 1, onLimit: cancel_oldest}\nrateLimit: {limit: 2, per: 10s, burst: 4}")
    assert graph.concurrency is not None
    assert (graph.concurrency.key, graph.concurrency.on_limit) == (None, "cancel_oldest")
    assert graph.rate_limit == RateLimit(2, 10_000, 4)


@pytest.mark.parametrize(
    ("text", "on_limit"), [("singleton: {}", "cancel_newest"), ("singleton: {mode: cancel}", "cancel_oldest")]
)
def test_a_singleton_is_a_concurrency_of_one(text: str, on_limit: str) -> None:
    graph = compiled(text)
    assert graph.concurrency == Concurrency(1, None, on_limit)


@pytest.mark.parametrize(
    "limit",
    [
        "singleton: {mode: replace}",
        'singleton: {key: "{{ state.x }}"}',
        "concurrency: {limit: 0}",
        "concurrency: {limit: 1001}",
        "concurrency: {limit: 1.5}",
        "concurrency: {}",
        "concurrency: 3",
        "concurrency: {limit: 1, on_limit: drop}",
        "concurrency: {limit: 1, size: 2}",
        'concurrency: {limit: 1, key: "{{ state.x }}"}',
        'concurrency: {limit: 1, key: "{{ now }}"}',
        'concurrency: {limit: 1, key: "{{ input. }}"}',
        "rate_limit: {limit: 1}",
        "rate_limit: {limit: 1, per: 0s}",
        "rate_limit: {limit: 1, per: soon}",
        "rate_limit: {limit: 1, per: 1m, burst: 0}",
        'rate_limit: {limit: 1, per: 1m, key: "{{ steps.a.output }}"}',
        "debounce: {}",
        "max_cost: 0",
        "max_cost: a lot",
        "debounce: {period: 0s}",
        "debounce: {period: 2m, max_delay: 1m}",
        'debounce: {period: 1m, key: "{{ run.id }}"}',
        "batch: {max_size: 10}",
        "batch: {max_size: 101, max_delay: 1m}",
        "batch: {max_delay: 1m}",
        "batch: {max_size: 3, max_delay: 366d}",
    ],
)
def test_a_wrong_limit_is_one_error_on_its_line(limit: str) -> None:
    assert [line for _, line in errors(limit)] == [2]


def test_starts_that_follow_each_other_may_become_one_run() -> None:
    assert compiled("debounce: {period: 30s}").gathering == Gathering("debounce", 300_000, 30_000)
    assert compiled("debounce: {period: 30s, maxDelay: 1m}").gathering == Gathering("debounce", 60_000, 30_000)
    assert compiled("batch: {max_size: 5, max_delay: 1m}").gathering == Gathering("batch", 60_000, max_size=5)


@pytest.mark.parametrize("other", ["batch: {max_size: 5, max_delay: 1m}", "start: manual"])
def test_a_debounce_beside_what_contradicts_it_is_an_error_on_the_others_line(other: str) -> None:
    assert errors(f"debounce: {{period: 30s}}\n{other}") == [("conflict", 3)]


def test_a_run_may_cost_so_much_but_not_where_its_steps_run_beside_each_other() -> None:
    assert compiled("max_cost: 0.5").max_cost_usd == 0.5
    assert errors("max_cost: 0.5", "steps: [{name: a, run: python:m.a}]") == [("conflict", 2)]


@pytest.mark.parametrize("limit", ["0", "-1"])
def test_a_max_cost_that_is_too_small_says_what_it_may_be(limit: str) -> None:
    found = compile_definition(f"workflow: flow\nmax_cost: {limit}\n{TIMELINE}", "flow.yaml").errors
    assert [one.message for one in found] == [f"`max_cost` must be more than 0, not {limit}"]


def test_the_records_of_several_steps_may_be_written_together() -> None:
    assert compiled("").durability == "step"
    assert compiled("durability: batch").durability == "batch"
    assert errors("durability: some") == [("bad_value", 2)]


@pytest.mark.parametrize(
    ("more", "body"),
    [
        ("durability: batch", "steps: [{name: a, run: python:m.a}, {name: b, run: python:m.b}]"),
        ("durability: batch", "function: python:m.a"),
        ("durability: batch\nmax_cost: 1", TIMELINE),
    ],
)
def test_it_is_an_error_where_no_record_can_wait(more: str, body: str) -> None:
    assert errors(more, body) == [("conflict", 2)]


@pytest.mark.parametrize(
    ("steps", "warns"),
    [
        ("[{name: a, run: python:m.a}, {name: b, run: python:m.b}]", False),
        ("[{name: a, run: python:m.a}]", True),
        ("[{name: a, run: python:m.a, at_most_once: true}, {name: b, run: python:m.b}]", True),
        ("[{name: a, run: python:m.a, compensate: {run: python:m.c}}, {name: b, run: python:m.b}]", True),
        ("[{name: a, sleep: 5s}, {name: b, run: python:m.b}]", True),
    ],
)
def test_it_is_a_warning_where_no_record_does(steps: str, warns: bool) -> None:
    found = compile_definition(f"workflow: flow\ndurability: batch\ntimeline: {steps}", "flow.yaml").problems
    assert ("no_batch" in [one.code for one in found]) is warns
