"""Forks and joins: how they compile, which joins they have, and what is wrong with them."""

from __future__ import annotations

import json
from dataclasses import replace
from textwrap import dedent

import pytest

from stepwell.definition.compiler import Compiled, compile_definition, compile_document
from stepwell.definition.graph import FanIn, Graph
from stepwell.definition.models import EnoughDef, FanInDef, NodeDef, TransitionDef, WorkflowDef

ORDERS = """
workflow: orders
nodes:
  fetch:
    run: python:orders.fetch
    timeout: 5s
    fan_out: all
    transitions:
      - {to: score, foreach: "{{ state.order.items }}", as: line, max_concurrency: 20, priority: 1}
      - {to: reject, when: "state.order.total > 10000", priority: 3}
      - {to: done, priority: 2}
  score: {run: python:orders.score, timeout: 5s, input: "{{ branch.item }}", transitions: [{to: gather}]}
  gather: {fan_in: {target: scores}, run: python:orders.total, timeout: 5s, transitions: [{to: done}]}
  reject: {}
  done: {}
"""


def checked(nodes: str, start: str = "") -> Compiled:
    """Of the lines under `nodes:`."""
    head = f"workflow: w\n{start}nodes:\n"
    return compile_definition(head + "".join(f"  {line}\n" for line in dedent(nodes).strip().splitlines()))


def compiled(nodes: str) -> Graph:
    made = checked(nodes)
    assert made.graph is not None, [str(problem) for problem in made.problems]
    return made.graph


def joins(graph: Graph) -> dict[str, str]:
    """The join of each node that forks."""
    forking = [node for node in graph.nodes.values() if node.fan_out == "all" or any(r.foreach for r in node.rules)]
    return {node.name: node.join for node in forking}


def test_a_fork_compiles_with_its_rules_and_its_join() -> None:
    graph = compile_definition(ORDERS).graph
    assert graph is not None
    fetch = graph.nodes["fetch"]
    assert (fetch.fan_out, fetch.join, fetch.fan_in) == ("all", "gather", None)
    assert [rule.to for rule in fetch.rules] == ["score", "done", "reject"]
    each, done, _ = fetch.rules
    assert each.foreach is not None
    assert each.foreach.evaluate({"state": {"order": {"items": [1, 2]}}}) == [1, 2]
    assert (each.item_name, each.max_concurrency) == ("line", 20)
    assert (done.foreach, done.item_name, done.max_concurrency) == (None, None, None)
    assert graph.nodes["gather"].fan_in == FanIn(target="scores")
    assert {node.join for name, node in graph.nodes.items() if name != "fetch"} == {""}


def test_a_join_takes_the_name_of_its_node_and_every_default() -> None:
    graph = compiled("""\
        a: {transitions: [{to: b, foreach: input.items}]}
        b: {fan_in: {}}
        """)
    assert graph.nodes["b"].fan_in == FanIn(
        "all", 0, "append", "b", "cancel", tolerate_count=None, tolerate_percent=None, on_branch_failure="fail"
    )
    assert graph.nodes["a"].fan_out == "first_match"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{policy: all}", FanIn()),
        ("{policy: any, on_early_complete: abandon}", FanIn("any", on_early_complete="abandon")),
        ("{policy: {m_of_n: 3}}", FanIn("m_of_n", 3)),
        ("{merge: keyed_by_branch, target: outputs}", FanIn(merge="keyed_by_branch", target="outputs")),
        ("{tolerate: {count: 0}}", FanIn(tolerate_count=0)),
        ("{tolerate: {percent: 12.5}}", FanIn(tolerate_percent=12.5)),
        ("{tolerate: {percent: 10}}", FanIn(tolerate_percent=10.0)),
        ("{on_branch_failure: collect}", FanIn(on_branch_failure="collect")),
    ],
)
def test_every_setting_of_a_join_is_read(written: str, expected: FanIn) -> None:
    graph = compiled(f"a: {{transitions: [{{to: b, foreach: input.items}}]}}\nb: {{fan_in: {written}}}")
    assert graph.nodes["b"].fan_in == replace(expected, target=expected.target or "b")


def test_camel_case_forks_compile_to_the_same_version() -> None:
    snake = compiled("""\
        a: {fan_out: all, transitions: [{to: b, foreach: input.items, max_concurrency: 2}]}
        b: {fan_in: {policy: {m_of_n: 2}, on_early_complete: abandon, on_branch_failure: collect}}
        """)
    camel = compiled("""\
        a: {fanOut: all, transitions: [{to: b, foreach: input.items, maxConcurrency: 2}]}
        b: {fanIn: {policy: {mOfN: 2}, onEarlyComplete: abandon, onBranchFailure: collect}}
        """)
    assert snake.version == camel.version


def test_a_stored_fork_compiles_to_the_same_nodes() -> None:
    graph = compile_definition(ORDERS).graph
    assert graph is not None
    for trusted in (True, False):
        again = compile_document(json.loads(json.dumps(graph.document)), trusted=trusted)
        assert joins(again) == joins(graph) == {"fetch": "gather"}
        assert again.nodes["gather"] == graph.nodes["gather"]
        assert [rule.item_name for rule in again.nodes["fetch"].rules] == ["line", None, None]


def test_a_fork_can_be_built_in_python() -> None:
    nodes = {
        "a": NodeDef(transitions=[TransitionDef(to="b", foreach="input.items", as_="line")]),
        "b": NodeDef(fan_in=FanInDef(policy=EnoughDef(m_of_n=2))),
    }
    graph = compile_document(WorkflowDef(workflow="w", nodes=nodes).model_dump(exclude_unset=True))
    assert graph.nodes["a"].rules[0].item_name == "line"
    assert graph.nodes["b"].fan_in == FanIn("m_of_n", 2, target="b")


# -- joins


def test_a_fork_without_a_join_ends_when_its_branches_have() -> None:
    assert joins(compiled("a: {fan_out: all, transitions: [{to: b}, {to: end}]}\nb: {}")) == {"a": ""}


def test_a_branch_may_end_before_the_join() -> None:
    graph = compiled("""\
        a: {transitions: [{to: b, foreach: input.items}]}
        b: {transitions: [{to: end, when: result.bad}, {to: j}]}
        j: {fan_in: {}}
        """)
    assert joins(graph) == {"a": "j"}


def test_a_fork_may_lead_straight_to_its_join() -> None:
    assert joins(compiled("a: {transitions: [{to: j, foreach: input.items}]}\nj: {fan_in: {}}")) == {"a": "j"}


def test_a_fork_inside_a_branch_has_its_own_join_and_the_branch_goes_on_from_it() -> None:
    graph = compiled("""\
        outer: {transitions: [{to: inner, foreach: input.lists}]}
        inner: {transitions: [{to: work, foreach: branch.item}]}
        work: {transitions: [{to: inner_join}]}
        inner_join: {fan_in: {}, transitions: [{to: outer_join}]}
        outer_join: {fan_in: {}}
        """)
    assert joins(graph) == {"outer": "outer_join", "inner": "inner_join"}


def test_a_join_may_fork_again() -> None:
    graph = compiled("""\
        a: {transitions: [{to: b, foreach: input.items}]}
        b: {fan_in: {}, transitions: [{to: c, foreach: state.b}]}
        c: {fan_in: {}}
        """)
    assert joins(graph) == {"a": "b", "b": "c"}


def test_a_loop_may_come_back_to_the_fork_from_behind_its_join() -> None:
    graph = compiled("""\
        a: {transitions: [{to: b, foreach: input.items}]}
        b: {transitions: [{to: j}]}
        j: {fan_in: {}, transitions: [{to: a, when: size(state.j) < 3}, {to: end}]}
        """)
    assert joins(graph) == {"a": "j"}


def test_a_branch_may_come_back_to_its_own_fork() -> None:
    graph = compiled(
        "a: {transitions: [{to: b, foreach: input.items}]}\nb: {transitions: [{to: a, max: 2}, {to: end}]}"
    )
    assert joins(graph) == {"a": ""}


def test_the_first_match_forks_over_its_own_rule_and_another_does_not() -> None:
    graph = compiled("""\
        a: {transitions: [{to: b, foreach: input.items, when: size(input.items) > 0}, {to: done}]}
        b: {transitions: [{to: j}]}
        j: {fan_in: {}, transitions: [{to: done}]}
        done: {}
        """)
    assert joins(graph) == {"a": "j"}


def test_every_rule_of_fan_out_all_can_be_taken() -> None:
    graph = compiled("a: {fan_out: all, transitions: [{to: b}, {to: c}]}\nb: {}\nc: {}")
    assert graph.nodes["c"].name == "c"
    assert not checked("a: {fan_out: all, transitions: [{to: b}, {to: c}]}\nb: {}\nc: {}").problems


# -- what is wrong

HEAD = "a: {transitions: [{to: b, foreach: input.items}]}\n"
MISTAKES = [
    (
        "two joins",
        "a: {fan_out: all, transitions: [{to: b}, {to: c}]}\nb: {transitions: [{to: j}]}\nc: {transitions: [{to: k}]}\n"
        "j: {fan_in: {}}\nk: {fan_in: {}}",
        ("two_joins", 3, "`j` (a -> b -> j) and `k` (a -> c -> k)"),
    ),
    (
        "two joins by one branch",
        HEAD + "b: {transitions: [{to: j, when: result.ok}, {to: k}]}\nj: {fan_in: {}}\nk: {fan_in: {}}",
        ("two_joins", 3, "`j` (a -> b -> j) and `k` (a -> b -> k)"),
    ),
    (
        "two joins, one behind an inner fork",
        "a: {fan_out: all, transitions: [{to: b}, {to: k}]}\nb: {transitions: [{to: c, foreach: input.items}]}\n"
        "c: {fan_in: {}, transitions: [{to: l}]}\nk: {fan_in: {}}\nl: {fan_in: {}}",
        ("two_joins", 3, "`k` (a -> k) and `l` (a -> b -> c -> l)"),
    ),
    (
        "one join for a fork and a fork inside it",
        "a: {fan_out: all, transitions: [{to: b}, {to: j}]}\nb: {transitions: [{to: j, foreach: input.items}]}\n"
        "j: {fan_in: {}}",
        ("shared_join", 4, "branches of `a` fork again at `b`, and both forks join at `j`"),
    ),
    (
        "a branch back at its own fork before the join",
        HEAD + "b: {transitions: [{to: a, when: result.again}, {to: j}]}\nj: {fan_in: {}}",
        ("shared_join", 3, "fork again at `a`"),
    ),
    (
        "a join without any fork",
        "a: {transitions: [{to: b}]}\nb:\n  fanIn: {}",
        ("join_without_fork", 5, "`b` (a -> b)"),
    ),
    ("a join that starts", "a: {fan_in: {}}", ("join_without_fork", 3, "(a)")),
    (
        "a way around the fork",
        "a: {transitions: [{to: b, foreach: input.items, when: input.many}, {to: j}]}\nb: {transitions: [{to: j}]}\n"
        "j: {fan_in: {}}",
        ("join_without_fork", 5, "(a -> j)"),
    ),
    (
        "a second join behind the first",
        HEAD + "b: {fan_in: {}, transitions: [{to: c}]}\nc: {fan_in: {}}",
        ("join_without_fork", 5, "(a -> b -> c)"),
    ),
    (
        "a branch outside",
        "a:\n  run: x\n  timeout: 1s\n  input: ['{{ branch.item }}']",
        ("no_branch", 6, "`a`"),
    ),
    (
        "a branch of the fork's own node",
        "a: {transitions: [{to: b, foreach: branch.item}]}\nb: {}",
        ("no_branch", 3, "`a`"),
    ),
    (
        "a branch behind the join",
        HEAD
        + "b: {fan_in: {}, transitions: [{to: c}]}\nc: {transitions: [{to: end, when: branch.index == 0}, {to: end}]}",
        ("no_branch", 5, "`c`"),
    ),
    ("as without foreach", "a: {transitions: [{to: end, as: x}]}", ("misplaced_key", 3, "foreach")),
    (
        "concurrency without foreach",
        "a: {transitions: [{to: end, maxConcurrency: 2}]}",
        ("misplaced_key", 3, "foreach"),
    ),
    ("an item without a name", "a: {transitions: [{to: end, foreach: '[1]', as: a b}]}", ("bad_name", 3, "item")),
    (
        "no concurrency",
        HEAD + "b: {transitions: [{to: end, foreach: '[1]', max_concurrency: 0}]}",
        ("bad_value", 4, "1"),
    ),
    ("a list as foreach", "a: {transitions: [{to: end, foreach: [1, 2]}]}", ("wrong_type", 3, "a CEL expression")),
    ("truth as foreach", "a: {transitions: [{to: end, foreach: true}]}", ("wrong_type", 3, "a CEL expression")),
    ("a foreach that is none", "a: {transitions: [{to: end, foreach: 'input.'}]}", ("bad_expression", 3, "CEL")),
    ("all of nothing", "a: {fan_out: all}", ("misplaced_key", 3, "nothing to fork")),
    ("an unknown fan_out", "a: {fan_out: al, transitions: [{to: end}]}", ("bad_value", 3, "`all`")),
    ("a policy that is none", HEAD + "b: {fan_in: {policy: al}}", ("bad_value", 4, "did you mean `all`?")),
    ("none of n", HEAD + "b: {fan_in: {policy: {m_of_n: 0}}}", ("bad_value", 4, "N 1 or more")),
    ("true of n", HEAD + "b: {fan_in: {policy: {m_of_n: true}}}", ("bad_value", 4, "N 1 or more")),
    ("an unknown word in a policy", HEAD + "b: {fan_in: {policy: {m_of_m: 2}}}", ("unknown_key", 4, "`m_of_n`")),
    ("a merge that is none", HEAD + "b: {fan_in: {merge: add}}", ("bad_value", 4, "append")),
    ("a target without a name", HEAD + "b: {fan_in: {target: ''}}", ("bad_name", 4, "target")),
    ("an unknown key of a join", HEAD + "b: {fan_in: {polcy: any}}", ("unknown_key", 4, "`policy`")),
    ("a join that is a word", HEAD + "b: {fan_in: all}", ("wrong_type", 4, "a mapping")),
    ("tolerate everything", HEAD + "b: {fan_in: {tolerate: {percent: 101}}}", ("bad_value", 4, "at most 100")),
    ("tolerate less than nothing", HEAD + "b: {fan_in: {tolerate: {count: -1}}}", ("bad_value", 4, "at least 0")),
    ("tolerate a word", HEAD + "b: {fan_in: {tolerate: {percent: 1%}}}", ("wrong_type", 4, "the number alone")),
    ("tolerate nothing", HEAD + "b: {fan_in: {tolerate: {}}}", ("missing_key", 4, "count")),
    ("tolerate twice", HEAD + "b: {fan_in: {tolerate: {count: 1, percent: 1}}}", ("conflict", 4, "one of them")),
    (
        "tolerate what is collected",
        HEAD + "b: {fan_in: {tolerate: {count: 1}, on_branch_failure: collect}}",
        ("conflict", 4, "every failure"),
    ),
]


@pytest.mark.parametrize(("nodes", "expected"), [one[1:] for one in MISTAKES], ids=[one[0] for one in MISTAKES])
def test_a_mistake_with_forks_has_its_code_its_line_and_a_hint(nodes: str, expected: tuple[str, int, str]) -> None:
    code, line, said = expected
    made = checked(nodes)
    assert made.graph is None
    found = [problem for problem in made.errors if (problem.code, problem.line) == (code, line)]
    assert found, [str(problem) for problem in made.problems]
    assert any(said in problem.message + problem.hint for problem in found), [str(problem) for problem in found]


@pytest.mark.parametrize(("percent", "hint"), [("0.1", "write percent: 10 if"), ("0.025", "write percent: 2.5 if")])
def test_a_percentage_that_is_written_as_a_fraction_is_warned_of(percent: str, hint: str) -> None:
    found = checked(HEAD + f"b: {{fan_in: {{tolerate: {{percent: {percent}}}}}}}")
    (problem,) = (one for one in found.problems if one.code == "tiny_percent")
    assert (problem.severity, (problem.hint or "")[: len(hint)]) == ("warning", hint)


@pytest.mark.parametrize("tolerate", ["{percent: 1%}", "{percent: 101}", "{count: few}", "{percents: 1}", "{count: }"])
def test_what_a_join_tolerates_is_not_told_to_be_empty_where_its_value_is_wrong(tolerate: str) -> None:
    (problem,) = checked(HEAD + f"b: {{fan_in: {{tolerate: {tolerate}}}}}").errors
    assert problem.code in ("wrong_type", "bad_value", "unknown_key", "empty_value")


FORK = """\
    a: {run: x, timeout: 1s, transitions: [{to: b, foreach: input.items, as: one}]}
    b: {run: x, timeout: 1s, output: {score: "{{ result }}"}, transitions: [{to: c}]}
    c: {run: x, timeout: 1s, input: READ, transitions: [{to: j}]}
    j: {fan_in: {target: scores}, transitions: [{to: k}]}
    k: {run: x, timeout: 1s, input: "{{ state.scores }}", transitions: [{to: m, foreach: state.scores}]}
    m: {run: x, timeout: 1s, input: "{{ state.scores[0].score }}"}
"""


@pytest.mark.parametrize(
    ("read", "told"),
    [
        ("'{{ state.score }}'", "branch.output.score"),
        ("{s: ['{{ state.score > 1 }}']}", "branch.output.score"),
        ("'{{ state.c }}'", "branch.output.c"),
        ("'{{ branch.output.score }}'", ""),
        ("'{{ state._branch.output.score }}'", ""),
        ("'{{ state.a }}'", ""),  # of before the fork
        ("'{{ state.one }}'", ""),
        ("'{{ state.scores }}'", ""),
        ("'{{ state.unknown }}'", ""),
    ],
)
def test_a_branch_that_reads_its_own_output_from_the_state_is_told_where_it_is(read: str, told: str) -> None:
    made = checked(FORK.replace("READ", read))
    assert made.graph is not None
    found = [(one.code, one.severity, one.line) for one in made.problems if one.code == "own_output"]
    assert found == ([("own_output", "warning", 5)] if told else [])
    assert all(told in one.hint for one in made.problems if one.code == "own_output")


def test_what_an_outer_branch_brought_is_the_state_of_an_inner_one() -> None:
    made = checked("""\
        a: {transitions: [{to: b, foreach: input.items}]}
        b: {run: x, timeout: 1s, transitions: [{to: c, foreach: input.items}]}
        c: {run: x, timeout: 1s, input: "{{ state.b }}", transitions: [{to: d}]}
        d: {fan_in: {}, transitions: [{to: e}]}
        e: {fan_in: {}}
    """)
    assert [one.code for one in made.problems] == []


@pytest.mark.parametrize(("given", "name"), [(", as: line", "line"), ("", "item")])
def test_an_item_with_the_name_of_a_node_is_in_the_state_of_its_branches(given: str, name: str) -> None:
    """The hint was wrong, too: `branch.output` does not have the item."""
    made = checked(f"""\
        a: {{transitions: [{{to: {name}, foreach: input.lines{given}}}]}}
        {name}: {{run: x, timeout: 1s, input: "{{{{ state.{name} }}}}", transitions: [{{to: j}}]}}
        j: {{fan_in: {{}}}}
    """)
    assert [str(one) for one in made.problems] == []


def test_an_item_is_in_the_state_of_inner_branches_too() -> None:
    made = checked("""\
        a: {transitions: [{to: b, foreach: input.lines, as: line}]}
        b: {transitions: [{to: c, foreach: input.lines, as: other}]}
        c: {run: x, timeout: 1s, input: "{{ state.line }}", output: {line: 1}, transitions: [{to: d}]}
        d: {fan_in: {}, transitions: [{to: e}]}
        e: {fan_in: {}}
    """)
    assert [str(one) for one in made.problems] == []


def test_a_branch_cannot_be_named_in_a_timeline() -> None:
    text = "workflow: w\ntimeline:\n  - name: a\n    branch: [{when: branch.index == 0, skip_to: end}]"
    (problem,) = compile_definition(text).errors
    assert (problem.code, problem.line) == ("no_branch", 4)


def test_a_node_in_and_out_of_a_fork_may_name_the_branch() -> None:
    compiled("""\
        a: {fan_out: all, transitions: [{to: b}, {to: j}]}
        j: {fan_in: {}, transitions: [{to: b}]}
        b: {run: x, timeout: 1s, input: "{{ branch }}"}
        """)


def test_a_long_way_is_shortened_in_the_middle() -> None:
    chain = "".join(f"n{i}: {{transitions: [{{to: n{i + 1}}}]}}\n" for i in range(50))
    (problem,) = checked(chain + "n50: {fan_in: {}}").errors
    assert "(n0 -> n1 -> n2 -> n3 -> … -> n47 -> n48 -> n49 -> n50)" in problem.message


@pytest.mark.parametrize(
    ("read", "told"),
    [
        ("state.ocr", True),
        ("state.words", True),
        ("steps.ocr.output", True),
        ("state.parts", False),
        ("state.split", False),
        ("steps.split.output", False),
        ("state.unwritten", False),
    ],
)
def test_what_only_branches_write_is_to_be_read_where_the_join_puts_it(read: str, told: bool) -> None:
    made = checked(f"""\
        split: {{fan_out: all, transitions: [{{to: ocr}}, {{to: meta}}]}}
        ocr: {{run: python:m.f, timeout: 5s, output: {{words: "{{{{ result.w }}}}"}}, transitions: [{{to: gather}}]}}
        meta: {{run: python:m.f, timeout: 5s, transitions: [{{to: gather}}]}}
        gather: {{fan_in: {{target: parts}}, transitions: [{{to: last}}]}}
        last: {{run: python:m.f, timeout: 5s, input: {{a: "{{{{ {read} }}}}"}}}}
        """)
    found = [(one.severity, one.line, one.hint) for one in made.problems if one.code == "left_in_branch"]
    hint = "the join `gather` puts what the branches wrote into `state.parts`: read it there"
    assert found == ([("warning", 7, hint)] if told else [])


def test_a_name_that_the_path_outside_of_the_fork_writes_too_may_be_read() -> None:
    made = checked("""\
        split: {transitions: [{to: ocr, foreach: input.pages}, {to: ocr}]}
        ocr: {run: python:m.f, timeout: 5s, input: {before: "{{ state.ocr }}"}, transitions: [{to: end}]}
        """)
    assert not [one for one in made.problems if one.code == "left_in_branch"]
