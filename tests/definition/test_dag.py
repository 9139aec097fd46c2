"""The format `steps`: a DAG to a graph, and what is wrong with one."""

from __future__ import annotations

import json
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.definition.compiler import Compiled, compile_definition, compile_document
from stepwell.definition.graph import Graph, Retry, Step

ONBOARD = """
workflow: onboard
steps:
  - {name: create-account, run: python:crm.create, timeout: 30s}
  - name: provision
    run: python:crm.provision
    depends_on: [create-account]
    timeout: 5m
    input: {account: "{{ steps['create-account'].output }}"}
    retry_policy: {max_retries: 1}
  - {name: welcome, agent: greet, dependsOn: [create-account], onFailure: skip, timeout: 30s}
  - {name: approve, wait: {for: approval}, depends_on: [provision, welcome]}
"""


def checked(steps: str) -> Compiled:
    """Of the items under `steps:`, on line 3 and on."""
    return compile_definition("workflow: w\nsteps:\n" + "".join(f"  - {line}\n" for line in steps.splitlines()))


def compiled(text: str) -> Graph:
    made = compile_definition(text)
    assert made.graph is not None, [str(problem) for problem in made.problems]
    return made.graph


def step_of(graph: Graph, name: str) -> Step:
    step = graph.nodes[name].step
    assert step is not None
    return step


def test_a_dag_compiles_to_nodes_without_rules_and_their_dependencies() -> None:
    graph = compiled(ONBOARD)
    assert (graph.format, graph.start, graph.start_mode) == ("steps", "create-account", "auto")
    assert list(graph.dependencies.items()) == [
        ("create-account", ()),
        ("provision", ("create-account",)),
        ("welcome", ("create-account",)),
        ("approve", ("provision", "welcome")),
    ]
    assert {node.rules for node in graph.nodes.values()} == {()}
    assert graph.nodes["approve"].wait is not None


def test_the_other_formats_have_no_dag() -> None:
    assert not compiled("workflow: w\ntimeline: [{name: a}]").dependencies
    assert not compiled("workflow: w\nnodes: {a: {}}").dependencies


def test_agent_and_action_are_other_words_for_run() -> None:
    graphs = [compiled(f"workflow: w\nsteps: [{{name: a, {word}: greet}}]") for word in ("run", "agent", "action")]
    assert {step_of(graph, "a").run for graph in graphs} == {"greet"}
    assert len({graph.version for graph in graphs}) == 1


def test_a_step_has_its_own_policy_or_that_of_the_format() -> None:
    graph = compiled(ONBOARD)
    usual = Retry(3, "exponential", 1_000, 60_000, "none", frozenset({"transient"}))
    assert (step_of(graph, "welcome").retry, step_of(graph, "welcome").default_retry) == (None, usual)
    own = step_of(graph, "provision").retry
    assert own is not None
    assert own.max_retries == 1
    other = compiled("workflow: w\ntimeline: [{name: a, run: x}]")
    assert (step_of(other, "a").retry, step_of(other, "a").default_retry) == (None, None)


def test_what_follows_a_failure_is_abort_or_skip() -> None:
    graph = compiled(ONBOARD)
    assert [step_of(graph, name).on_failure for name in ("create-account", "welcome")] == ["abort", "skip"]


def test_a_stored_dag_compiles_to_the_same_graph() -> None:
    graph = compiled(ONBOARD)
    for trusted in (True, False):
        again = compile_document(json.loads(json.dumps(graph.document)), trusted=trusted)
        assert again.dependencies == graph.dependencies
        assert (again.version, list(again.nodes)) == (graph.version, list(graph.nodes))


def test_a_step_without_dependencies_may_stand_anywhere() -> None:
    assert not checked("{name: a, depends_on: [b]}\n{name: b}").problems


MISTAKES = [
    ("a cycle of one", "{name: a, depends_on: [a]}\n{name: b}", ("cycle", 3, "`a -> a`")),
    (
        "a cycle of two",
        "{name: a, depends_on: [b]}\n{name: b, dependsOn: [a]}\n{name: c}",
        ("cycle", 3, "`a -> b -> a`"),
    ),
    (
        "a cycle behind a root",
        "{name: r}\n{name: a, depends_on: [r, c]}\n{name: b, depends_on: [a]}\n{name: c, depends_on: [b]}",
        ("cycle", 4, "`a -> c -> b -> a`"),
    ),
    ("no root", "{name: a, depends_on: [b]}\n{name: b, depends_on: [a]}", ("no_root", 2, "none can begin")),
    ("nothing under steps", "", ("empty_value", 2, "give it a value")),
    ("an unknown dependency", "{name: fetch}\n{name: b, depends_on: [fetsh]}", ("unknown_dependency", 4, "`fetch`")),
    ("one dependency twice", "{name: a}\n{name: b, depends_on: [a, a]}", ("duplicate_dependency", 4, "twice")),
    ("duplicate names", "{name: a}\n{name: a}", ("duplicate_name", 4, "rename")),
    ("no name", "{run: x}", ("missing_key", 3, "name")),
    ("the reserved name", "{name: end}", ("reserved_name", 3, "end")),
    ("a dependency that is text", "{name: a}\n{name: b, depends_on: a}", ("wrong_type", 4, "a list")),
    ("run and agent", "{name: a, run: x, agent: y}", ("duplicate_key", 3, "one spelling")),
    ("an agent that is a number", "{name: a, agent: 5}", ("wrong_type", 3, "text")),
    ("an agent that is none", "{name: a, agent: 'a b'}", ("bad_run", 3, "@step")),
    ("a rule", "{name: a, branch: [{skip_to: end}]}", ("unknown_key", 3, "`branch`")),
    ("visits", "{name: a, max_visits: 3}", ("unknown_key", 3, "max_visits")),
    ("an unknown step", "{name: a, run: x, input: '{{ steps.b.output }}'}", ("unknown_step", 3, "names no node")),
    ("a branch", "{name: a, run: x, input: '{{ branch.item }}'}", ("no_branch", 3, "outside any fork")),
]


@pytest.mark.parametrize(("steps", "expected"), [one[1:] for one in MISTAKES], ids=[one[0] for one in MISTAKES])
def test_a_mistake_in_a_dag_has_its_code_its_line_and_a_hint(steps: str, expected: tuple[str, int, str]) -> None:
    code, line, said = expected
    made = checked(steps)
    assert made.graph is None
    found = [problem for problem in made.errors if (problem.code, problem.line) == (code, line)]
    assert found, [str(problem) for problem in made.problems]
    assert any(said in problem.message + problem.hint for problem in found), [str(problem) for problem in found]


def test_a_dag_starts_at_its_roots_alone() -> None:
    (problem,) = compile_definition("workflow: w\nstart: b\nsteps: [{name: a}, {name: b}]").errors
    assert (problem.code, problem.line) == ("bad_value", 2)
    assert compiled("workflow: w\nstart: manual\nsteps: [{name: a}]").start_mode == "manual"


def test_an_empty_dag_is_refused() -> None:
    (problem,) = compile_definition("workflow: w\nsteps: []").errors
    assert (problem.code, problem.line) == ("no_nodes", 2)


@pytest.mark.parametrize("dependencies", ["[]", "[b]"])
def test_a_step_that_reads_what_may_not_have_ended_is_warned(dependencies: str) -> None:
    made = checked(
        f"{{name: a}}\n{{name: b}}\n{{name: c, run: x, timeout: 1s, depends_on: {dependencies}, "
        "input: '{{ steps.a.output }}'}"
    )
    assert made.graph is not None
    assert [(one.code, one.line, one.severity) for one in made.problems] == [("not_a_dependency", 5, "warning")]
    assert "add `a`" in made.problems[0].hint


def test_a_step_may_read_what_it_depends_on_through_others() -> None:
    made = checked(
        "{name: a}\n{name: b, depends_on: [a]}\n"
        "{name: c, run: x, timeout: 1s, depends_on: [b], input: '{{ steps.a.output }}'}"
    )
    assert not made.problems


NAMES = ("a", "b", "c", "d")


@given(st.dictionaries(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), unique=True), min_size=1))
@settings(deadline=None)
def test_a_dag_compiles_exactly_where_some_order_runs_every_step_after_its_dependencies(
    dag: dict[str, list[str]],
) -> None:
    document = {"workflow": "w", "steps": [{"name": name, "depends_on": named} for name, named in dag.items()]}
    orders = permutations(dag)
    runs = any(all(set(dag[name]) <= set(order[:at]) for at, name in enumerate(order)) for order in orders)
    made = compile_definition(json.dumps(document))
    assert (made.graph is not None) == runs
    codes = {problem.code for problem in made.errors}
    unknown = {"unknown_dependency"} if any(set(named) - set(dag) for named in dag.values()) else set()
    assert unknown == codes if unknown else codes <= {"cycle", "no_root"}
