"""Child runs in every format: what they compile to, how they are named, and what is wrong with them."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.definition.child_names import child_names
from stepwell.definition.compiler import Compiled, compile_definition, compile_document
from stepwell.definition.graph import Call, Child, Graph, Retry, Step
from stepwell.limits import CHILDREN, HOUR_MS, MINUTE_MS

FORMATS = {
    "timeline": "workflow: w\ntimeline:\n  - {{name: a, {}}}\n",
    "nodes": "workflow: w\nnodes:\n  a: {{{}}}\n",
    "steps": "workflow: w\nsteps:\n  - {{name: a, {}}}\n",
}


def checked(body: str, written_as: str = "timeline") -> Compiled:
    """Of a definition with one node, `a`, on line 3."""
    return compile_definition(FORMATS[written_as].format(body))


def compiled(body: str, written_as: str = "timeline") -> Graph:
    made = checked(body, written_as)
    assert made.graph is not None, [str(problem) for problem in made.problems]
    return made.graph


def call_of(body: str, written_as: str = "timeline") -> Call:
    node = compiled(body, written_as).nodes["a"]
    assert node.call is not None
    assert (node.step, node.wait) == (None, None)
    return node.call


@pytest.mark.parametrize("written_as", FORMATS)
def test_a_run_of_a_workflow_is_one_child_whose_result_is_the_nodes_own(written_as: str) -> None:
    made = checked("run: 'workflow:fraud'", written_as)
    assert not made.problems
    call = call_of("run: 'workflow:fraud'", written_as)
    assert call == Call((Child("fraud", "fraud"),), single=True, timeout_ms=HOUR_MS)


@pytest.mark.parametrize("written_as", FORMATS)
def test_children_are_several_by_name(written_as: str) -> None:
    call = call_of("children: [{workflow: fraud}, {workflow: stock, name: shelf, input: {id: 7}}]", written_as)
    assert [(child.name, child.workflow) for child in call.children] == [("fraud", "fraud"), ("shelf", "stock")]
    assert (call.single, call.timeout_ms) == (False, 5 * MINUTE_MS)
    assert call.children[0].input is None
    assert call.children[1].input is not None
    assert call.children[1].input.evaluate({}) == {"id": 7}


def test_a_call_has_all_that_is_written_of_it() -> None:
    call = call_of(
        "children: [{workflow: fraud}], timeout: 2h, output: {score: '{{ result.fraud.score }}'}, "
        "onFailure: compensate, retry: {maxRetries: 2, on: [child_failed]}, siblings: finish, parentClose: abandon"
    )
    assert call.retry == Retry(2, on=frozenset({"child_failed"}))
    assert (call.timeout_ms, call.on_failure, call.failed_child) == (2 * HOUR_MS, "compensate", "propagate")
    assert (call.siblings, call.parent_close) == ("finish", "abandon")
    assert call.output is not None
    assert call.output.evaluate({"result": {"fraud": {"score": 3}}}) == {"score": 3}


def test_a_templated_timeout_is_worked_out_when_the_run_comes_there() -> None:
    call = call_of("run: 'workflow:fraud', timeout: '{{ input.patience }}', input: {order: '{{ state.order }}'}")
    assert call.timeout_ms is None
    assert call.timeout is not None
    assert call.timeout.evaluate({"input": {"patience": "5m"}}) == "5m"
    assert call.children[0].input is not None


@pytest.mark.parametrize(
    ("written", "on_failure", "failed_child"),
    [
        ("abort", "abort", "propagate"),
        ("skip", "skip", "propagate"),
        ("compensate", "compensate", "propagate"),
        ("propagate", "abort", "propagate"),
        ("isolate", "abort", "isolate"),
        ("return", "abort", "return"),
    ],
)
def test_on_failure_says_what_follows_or_what_a_failed_child_does(
    written: str, on_failure: str, failed_child: str
) -> None:
    call = call_of(f"run: 'workflow:fraud', on_failure: {written}, inherit_artifacts: false, detached: false")
    assert (call.on_failure, call.failed_child) == (on_failure, failed_child)


def test_a_detached_run_is_a_step_that_starts_it() -> None:
    made = checked("run: 'workflow:mail', detached: true, input: {to: 'x'}, retry: {}, on_failure: skip")
    assert not made.problems  # above all, none about a timeout
    assert made.graph is not None
    node = made.graph.nodes["a"]
    assert node.call is None
    assert node.step is not None
    assert node.step.input is not None
    assert node.step == Step("workflow:mail", input=node.step.input, retry=Retry(), on_failure="skip")


def test_a_join_may_call_a_workflow() -> None:
    text = """
workflow: w
nodes:
  a: {transitions: [{to: b, foreach: input.items}]}
  b: {run: "workflow:fraud", transitions: [{to: c}]}
  c: {fan_in: {}, run: "workflow:total"}
"""
    graph = compile_definition(text).graph
    assert graph is not None
    assert graph.nodes["c"].call is not None
    assert graph.nodes["a"].join == "c"


def test_a_stored_definition_compiles_to_the_same_calls() -> None:
    graph = compiled("children: [{workflow: fraud}, {workflow: fraud}], timeout: 1m")
    again = compile_document(json.loads(json.dumps(graph.document)), trusted=True)
    assert again.nodes["a"].call == graph.nodes["a"].call


MISTAKES = [
    ("a workflow without a name", "run: 'workflow:'", "bad_name", "letters"),
    ("a workflow with a bad name", "run: 'workflow: fraud'", "bad_name", "letters"),
    ("too long", "run: 'workflow:f', timeout: 25h", "timeout_too_long", "at most 1d"),
    ("no children", "children: []", "missing_key", "workflow: fraud"),
    ("a child that is text", "children: [fraud]", "wrong_type", "mapping"),
    ("a child without a workflow", "children: [{name: x}]", "missing_key", "`workflow`"),
    ("a workflow that is a number", "children: [{workflow: 7}]", "wrong_type", "text"),
    ("a child's bad name", "children: [{workflow: f, name: a b}]", "bad_name", "letters"),
    ("a child's empty name", "children: [{workflow: f, name: ''}]", "bad_name", "letters"),
    ("a name given twice", "children: [{workflow: f, name: x}, {workflow: g, name: x}]", "duplicate_name", "`x`"),
    (
        "a number that makes a name too long",
        f"children: [{{workflow: {'f' * 127}}}, {{workflow: {'f' * 127}}}]",
        "bad_name",
        "129",
    ),
    (
        "too many",
        f"children: [{', '.join(['{workflow: f}'] * (CHILDREN + 1))}]",
        "too_many_children",
        f"at most {CHILDREN}",
    ),
    ("children and run", "run: x, children: [{workflow: f}]", "conflict", "two nodes"),
    ("children and a wait", "children: [{workflow: f}], wait: {for: approval}", "conflict", "two nodes"),
    ("one input of children", "children: [{workflow: f}], input: {a: 1}", "misplaced_key", "inside each child"),
    ("at_most_once", "run: 'workflow:f', at_most_once: true", "misplaced_key", "`at_most_once`"),
    ("pool", "run: 'workflow:f', pool: big", "misplaced_key", "`pool`"),
    ("pool of children", "children: [{workflow: f}], pool: big", "misplaced_key", "`pool`"),
    ("detached children", "children: [{workflow: f}], detached: true", "misplaced_key", "`detached`"),
    ("detached, with a timeout", "run: 'workflow:f', detached: true, timeout: 1m", "misplaced_key", "`timeout`"),
    ("detached, closed", "run: 'workflow:f', detached: true, parent_close: cancel", "misplaced_key", "`parent_close`"),
    ("detached, isolated", "run: 'workflow:f', detached: true, on_failure: isolate", "misplaced_key", "no run sees"),
    ("an isolated step", "run: x, on_failure: isolate", "misplaced_key", "for child runs"),
    ("parent_close of a step", "run: x, parent_close: cancel", "misplaced_key", "child run"),
    ("siblings of a wait", "wait: {for: approval}, siblings: cancel", "misplaced_key", "list of children"),
    ("an unknown on_failure", "run: 'workflow:f', on_failure: isolat", "bad_value", "`isolate`"),
    ("an unknown siblings", "children: [{workflow: f}], siblings: stop", "bad_value", "finish"),
    ("artifacts", "children: [{workflow: f}], inherit_artifacts: true", "unsupported", "inherit_artifacts: true"),
]


@pytest.mark.parametrize("written_as", ["timeline", "steps"])
@pytest.mark.parametrize(("body", "code", "said"), [one[1:] for one in MISTAKES], ids=[one[0] for one in MISTAKES])
def test_a_mistake_about_child_runs_is_told_once(body: str, code: str, said: str, written_as: str) -> None:
    made = checked(body, written_as)
    assert made.graph is None
    (problem,) = made.errors
    assert (problem.code, problem.line) == (code, 3)
    assert said in problem.message + problem.hint


@pytest.mark.parametrize("written_as", FORMATS)
@pytest.mark.parametrize("kind", ["", ", detached: true"])
def test_siblings_of_a_single_child_run_are_a_warning(kind: str, written_as: str) -> None:
    made = checked(f"run: 'workflow:f', siblings: finish{kind}", written_as)
    assert made.graph is not None
    (problem,) = made.problems
    assert (problem.code, problem.severity) == ("misplaced_key", "warning")
    assert "several `children`" in problem.hint


@pytest.mark.parametrize(
    ("children", "names"),
    [
        ([("fraud", None)] * 3, ["fraud", "fraud_2", "fraud_3"]),
        ([("fraud", None), ("fraud", None), ("stock", "fraud_2")], ["fraud", "fraud_3", "fraud_2"]),
        ([("fraud", None), ("fraud", None), ("fraud_2", None)], ["fraud", "fraud_3", "fraud_2"]),
        ([("stock", "fraud"), ("fraud", None)], ["fraud", "fraud_2"]),
        ([("a", None), ("b", "x"), ("a", None), ("b", None)], ["a", "x", "a_2", "b"]),
    ],
)
def test_a_child_is_named_after_its_workflow_and_numbered_where_that_is_taken(
    children: list[tuple[str, str | None]], names: list[str]
) -> None:
    assert child_names(children) == names


WORKFLOWS = st.sampled_from(["a", "a_2", "a_3", "a_2_2"])


@given(st.lists(st.tuples(WORKFLOWS, st.none()), max_size=8), st.sets(WORKFLOWS), st.randoms())
@settings(deadline=None)
def test_names_are_kept_where_they_are_given_and_no_two_are_the_same(
    unnamed: list[tuple[str, str | None]],
    given_names: set[str],
    random: Random,
) -> None:
    children = [*unnamed, *((name, name) for name in sorted(given_names))]
    random.shuffle(children)
    names = child_names(children)
    assert len(set(names)) == len(children)
    for (workflow, own), name in zip(children, names, strict=True):
        assert name == own if own else name == workflow or name.startswith(f"{workflow}_")


def test_what_a_definition_calls_is_told_with_its_place() -> None:
    text = (
        "workflow: w\nsteps:\n  - {name: a, agent: 'workflow:f'}\n  - name: b\n    children:\n      - {workflow: g}\n"
        "  - {name: c, run: 'workflow:h', detached: true}\n"
    )
    called = compile_definition(text, "w.yaml").called
    told = [(one.workflow, one.unknown.file, one.unknown.line, one.unknown.column) for one in called]
    assert told == [("f", "w.yaml", 3, 15), ("g", "w.yaml", 6, 10), ("h", "w.yaml", 7, 15)]
