"""The walk through any graph finds the joins that a run would come to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from hypothesis import event, given, settings
from hypothesis import strategies as st

from stepwell.definition.clauses.forks import ROOT, walk_forks
from stepwell.definition.compiler import compile_definition
from stepwell.definition.expressions import compile_expression
from stepwell.definition.graph import END, FanIn, Node, Rule
from tests.effort import loops

NAMES = [f"n{i}" for i in range(6)]
EACH = compile_expression("input.items")
MAYBE = compile_expression("result.ok")


@st.composite
def graphs(draw: st.DrawFn, most_forks: int = 2) -> dict[str, Node]:
    """Up to six nodes, the first of which forks; some others fork too, and some join."""
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    left = most_forks
    nodes = {}
    for name in names:
        targets = draw(st.lists(st.sampled_from([*names, END]), min_size=1, max_size=3))
        kinds = ["plain"] * (not left or name != names[0]) + ["all", "foreach"] * (left > 0)
        kind = draw(st.sampled_from(kinds))
        left -= kind != "plain"
        fork = draw(st.integers(0, len(targets) - 1)) if kind == "foreach" else -1
        rules = tuple(
            Rule(f"{name}.transitions[{at}]", "transition", MAYBE, target, foreach=EACH if at == fork else None)
            for at, target in enumerate(targets)
        )
        fan_in = FanIn(target=name) if name != names[0] and draw(st.booleans()) else None
        nodes[name] = Node(name, rules=rules, fan_out="all" if kind == "all" else "first_match", fan_in=fan_in)
    return nodes


DEEPEST = 8  # forks inside each other: what two forks and six nodes need at most to show a join


def moves(nodes: Mapping[str, Node], forks: tuple[str, ...], at: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Where a token inside these forks comes next; joins by explicit stack, as a run would."""
    for rule in nodes[at].rules:
        forking = nodes[at].fan_out == "all" or rule.foreach is not None
        if rule.to and rule.to != END and not (forking and len(forks) == DEEPEST):
            yield ((*forks, at) if forking else forks), rule.to


def walked(nodes: Mapping[str, Node]) -> tuple[dict[str, set[str]], set[str]]:
    """The joins of each fork that a run comes to, and the nodes that a branch runs; by trying every way."""
    found: dict[str, set[str]] = {ROOT: set()}
    inside: set[str] = set()
    seen: set[tuple[tuple[str, ...], str, bool]] = set()
    waiting: list[tuple[tuple[str, ...], str, bool]] = [((), next(iter(nodes)), False)]  # joined: past its fan-in
    while waiting:
        forks, at, joined = waiting.pop()
        if (forks, at, joined) in seen:
            continue
        seen.add((forks, at, joined))
        if nodes[at].fan_in is not None and not joined:
            found.setdefault(forks[-1] if forks else ROOT, set()).add(at)
            if forks:
                waiting.append((forks[:-1], at, True))
            continue
        inside |= {at} if forks else set()
        if nodes[at].fan_out == "all" or any(rule.foreach for rule in nodes[at].rules):
            found.setdefault(at, set())
        waiting += [(inner, target, False) for inner, target in moves(nodes, forks, at)]
    return found, inside


@given(graphs())
@settings(deadline=None, max_examples=300)
def test_the_walk_finds_what_trying_every_way_finds(nodes: dict[str, Node]) -> None:
    walks = walk_forks(nodes, next(iter(nodes)))
    expected, inside = walked(nodes)
    event(f"forks: {len(walks) - 1}, joins: {min(2, max(len(walk.joins) for walk in walks.values()))}")
    assert {name: set(walk.joins) for name, walk in walks.items()} == expected
    assert {at for name, walk in walks.items() if name != ROOT for at in walk.before} == inside


@st.composite
def definitions(draw: st.DrawFn) -> dict[str, object]:
    nodes: dict[str, object] = {}
    for node in draw(graphs(most_forks=6)).values():
        transitions = [
            {
                "to": rule.to,
                **({"foreach": "branch.item"} if rule.foreach else {}),
                **({"when": "input.x"} if at else {}),
            }
            for at, rule in enumerate(node.rules)
        ]
        nodes[node.name] = {
            **({"transitions": transitions} if transitions else {}),
            **({"fan_in": {}} if node.fan_in else {}),
            "fan_out": node.fan_out,
        }
    return {"workflow": "w", "nodes": nodes}


@given(definitions())
@settings(deadline=None, max_examples=200)
def test_the_check_tells_of_every_graph_what_is_wrong_or_gives_each_fork_its_join(document: dict[str, object]) -> None:
    made = compile_definition(json.dumps(document))
    codes = {problem.code for problem in made.errors}
    event(", ".join(sorted(codes)) or "fine")
    assert codes <= {"two_joins", "join_without_fork", "shared_join", "no_branch", "unreachable", "no_way_out"}
    if made.graph is not None:
        fan_ins = {name for name, node in made.graph.nodes.items() if node.fan_in}
        assert {node.join for node in made.graph.nodes.values() if node.join} == fan_ins


def test_five_hundred_forks_in_a_tangle_are_walked_in_passable_time() -> None:
    names = [f"n{i}" for i in range(500)]
    nodes = {
        name: Node(
            name,
            rules=tuple(
                Rule(f"{name}.{k}", "transition", MAYBE, names[(at * 7 + k * 131) % 500], foreach=None if k else EACH)
                for k in range(40)
            ),
            fan_in=FanIn(target=name) if at == 499 else None,
        )
        for at, name in enumerate(names)
    }

    def walked() -> None:
        assert len(walk_forks(nodes, "n0")) == 501

    assert loops(walked) < 300  # measured: 29, 1.5 s
