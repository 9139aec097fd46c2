"""Compensation: what undoes a node, what leads to it, and what is wrong with either."""

from __future__ import annotations

import pytest

from stepwell.definition.compiler import Compiled, compile_definition
from stepwell.definition.formats.dag import DEFAULT_RETRY
from stepwell.definition.graph import Graph, Retry, Step

ASKED = "workflow: w\nfailure_policy: compensate\n"
BODY = "run: x, timeout: 1s, compensate: {run: python:shop.undo, timeout: 1m, retry: {max_retries: 5}, pool: big}"
FORMATS = {
    "timeline": ASKED + f"timeline:\n  - {{name: a, {BODY}}}",
    "nodes": ASKED + f"nodes:\n  a: {{{BODY}}}",
    "steps": ASKED + f"steps:\n  - {{name: a, {BODY}}}",
    "list": ASKED + "steps: [{name: a, run: x, timeout: 1s}]\ncompensation:\n  - {step: a, agent: python:shop.undo, "
    "timeout: 1m, retryPolicy: {max_retries: 5}, pool: big}",
}


def clean(text: str) -> Graph:
    made = compile_definition(text)
    assert made.graph is not None
    assert not made.problems, [str(problem) for problem in made.problems]
    return made.graph


def listed(
    compensation: str, steps: str = "[{name: a, run: x, timeout: 1s}, {name: b, wait: {for: approval}}]"
) -> Compiled:
    """Of the items of a list `compensation`, on line 5 and on."""
    items = "".join(f"  - {line}\n" for line in compensation.splitlines())
    return compile_definition(f"{ASKED}steps: {steps}\ncompensation:\n{items}")


@pytest.mark.parametrize("written_as", FORMATS)
def test_a_compensation_is_a_step_of_its_own_in_every_format(written_as: str) -> None:
    graph = clean(FORMATS[written_as])
    usual = DEFAULT_RETRY if graph.format == "steps" else None
    expected = Step("python:shop.undo", timeout_ms=60_000, retry=Retry(5), pool="big", default_retry=usual)
    assert graph.nodes["a"].compensate == expected


def test_child_runs_may_have_a_compensation() -> None:
    graph = clean(
        ASKED + "nodes:\n  a: {children: [{workflow: fraud}], compensate: {run: y, input: '{{ steps.a.output }}'}}"
    )
    assert graph.nodes["a"].compensate is not None
    assert graph.nodes["a"].compensate.input is not None


def test_a_compensation_may_read_its_own_step() -> None:
    clean(
        ASKED + "steps: [{name: a, run: x, timeout: 1s, compensate: {run: y, input: '{{ steps.a.output }}'}}, "
        "{name: b, run: x, timeout: 1s}]\ncompensation: [{step: b, run: y, input: '{{ steps.a.output }}'}]"
    )


def test_the_workflow_says_what_leads_to_compensation() -> None:
    graph = clean(FORMATS["nodes"] + "\ncompensateOn: [timeout, cancel]\ninternal: true")
    assert (graph.failure_policy, graph.compensate_on) == ("compensate", frozenset({"timeout", "cancel"}))
    assert graph.internal
    silent = clean("workflow: w\nnodes: {a: {}}")
    assert (silent.failure_policy, silent.compensate_on, silent.internal) == ("fail", frozenset(), False)


@pytest.mark.parametrize(
    ("written_as", "items"), [("timeline", "[{name: a, %s}]"), ("nodes", "{a: {%s}}"), ("steps", "[{name: a, %s}]")]
)
def test_a_step_of_any_format_may_ask_for_compensation(written_as: str, items: str) -> None:
    body = "run: x, timeout: 1s, onFailure: compensate, compensate: {run: y}"
    graph = clean(f"workflow: w\n{written_as}: {items % body}")
    assert graph.nodes["a"].step is not None
    assert graph.nodes["a"].step.on_failure == "compensate"


LIST_MISTAKES = [
    ("an unknown step", "{step: aa, run: y}", "unknown_step", 5, "`a`"),
    ("one step twice", "{step: a, run: y}\n{step: a, run: z}", "conflict", 6, "twice"),
    ("a wait", "{step: b, run: y}", "misplaced_key", 5, "nothing to undo"),
    ("no step", "{run: y}", "missing_key", 5, "`step`"),
    ("nothing to run", "{step: a}", "missing_key", 5, "python:module.function"),
    ("a step that is a number", "{step: 7, run: y}", "wrong_type", 5, "text"),
    ("a run that is a number", "{step: a, run: 7}", "wrong_type", 5, "text"),
    ("two words for run", "{step: a, run: y, agent: y}", "duplicate_key", 5, "one spelling"),
    ("an output", "{step: a, run: y, output: {a: 1}}", "unknown_key", 5, "`output`"),
    ("at most once", "{step: a, run: y, at_most_once: true}", "misplaced_key", 5, "idempotent"),
    ("a child run", "{step: a, run: 'workflow:f'}", "unsupported", 5, "child run"),
]


@pytest.mark.parametrize(
    ("items", "code", "line", "said"), [one[1:] for one in LIST_MISTAKES], ids=[one[0] for one in LIST_MISTAKES]
)
def test_a_mistake_in_the_list_of_compensations_is_told_once(items: str, code: str, line: int, said: str) -> None:
    (problem,) = listed(items).errors
    assert (problem.code, problem.line) == (code, line)
    assert said in problem.message + problem.hint


def test_a_step_has_one_compensation() -> None:
    (problem,) = listed("{step: a, run: y}", "[{name: a, run: x, compensate: {run: y}}]").errors
    assert (problem.code, problem.line) == ("conflict", 5)


ENTRY = ASKED + "timeline:\n  - name: a\n    "
MISTAKES = [
    ("of a wait", ENTRY + "wait: {for: approval}\n    compensate: {run: y}", "misplaced_key", 6, "needs a `run`"),
    ("nothing to run", ENTRY + "run: x\n    compensate: {timeout: 1s}", "missing_key", 6, "`run`"),
    ("a run that is a number", ENTRY + "run: x\n    compensate: {run: 5}", "wrong_type", 6, "text"),
    ("text", ENTRY + "run: x\n    compensate: y", "wrong_type", 6, "a mapping"),
    ("at most once", ENTRY + "run: x\n    compensate: {run: y, at_most_once: true}", "misplaced_key", 6, "idempotent"),
    ("compensated", ENTRY + "run: x\n    compensate: {run: y, compensate: {run: z}}", "unknown_key", 6, "`compensate`"),
    (
        "a node called compensate",
        ASKED + "nodes:\n  compensate: {run: 5, transitions: [{to: b}]}\n  b: {}",
        "wrong_type",
        4,
        "text",
    ),
    ("a list elsewhere", ENTRY + "run: x\ncompensation: [{step: a, run: y}]", "misplaced_key", 6, "compensate: {run"),
    ("an unknown policy", "workflow: w\nfailure_policy: undo\nnodes: {a: {}}", "bad_value", 2, "compensate"),
    ("an unknown way", "workflow: w\ncompensate_on: [cancell]\nnodes: {a: {}}", "bad_value", 2, "`cancel`"),
    ("one way twice", "workflow: w\ncompensate_on: [cancel, cancel]\nnodes: {a: {}}", "duplicate_value", 2, "twice"),
    ("internal that is text", "workflow: w\ninternal: 'yes'\nnodes: {a: {}}", "wrong_type", 2, "true or false"),
]


@pytest.mark.parametrize(
    ("text", "code", "line", "said"), [one[1:] for one in MISTAKES], ids=[one[0] for one in MISTAKES]
)
def test_a_mistake_about_compensation_is_told_once(text: str, code: str, line: int, said: str) -> None:
    (problem,) = compile_definition(text).errors
    assert (problem.code, problem.line) == (code, line)
    assert said in problem.message + problem.hint


@pytest.mark.parametrize("way", ["failure_policy: compensate", "compensate_on: [cancel]", ""])
def test_a_compensation_that_nothing_leads_to_is_warned(way: str) -> None:
    made = compile_definition(f"workflow: w\n{way}\nnodes:\n  a: {{run: x, timeout: 1s, compensate: {{run: y}}}}")
    assert made.graph is not None
    told = [(one.code, one.severity, one.line) for one in made.problems]
    assert told == ([] if way else [("compensation_never_runs", "warning", 4)])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("workflow: w\nfailure_policy: compensate\nnodes: {a: {}}", 2),
        ("workflow: w\ncompensate_on: [timeout]\nnodes: {a: {}}", 2),
        ("workflow: w\nnodes:\n  a:\n    run: 'workflow:f'\n    on_failure: compensate", 5),
    ],
)
def test_compensation_that_finds_nothing_to_undo_is_warned(text: str, line: int) -> None:
    made = compile_definition(text)
    assert made.graph is not None
    assert [(one.code, one.severity, one.line) for one in made.problems] == [("nothing_to_compensate", "warning", line)]
