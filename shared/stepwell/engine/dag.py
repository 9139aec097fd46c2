"""The DAG of the format `steps`: one fork whose branches are the steps. Each begins when all it depends on have ended.

a ──▶ b ──▶ d        a ends: {a}        → b and c are ready
└───▶ c ────┘        c ends: {a, c}     → none
                     b ends: {a, b, c}  → d is ready: only the last of its dependencies sees them all
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from stepwell.definition.graph import Graph, Json
from stepwell.engine.forks import branch_id, fork_id
from stepwell.engine.records import Fork, Group
from stepwell.engine.token import Branch, StepView, Token
from stepwell.errors import EngineFault

Dag = Mapping[str, tuple[str, ...]]
ROOT_NODE = ""  # where the root stands while its steps run


def dag_fork(graph: Graph) -> Fork:
    """A branch for each step, in the order of the definition."""
    return Fork(tuple(Group("", name, 1) for name in graph.dag))


def roots(dag: Dag) -> list[int]:
    """The steps that depend on none."""
    return [index for index, needs in enumerate(dag.values()) if not needs]


def ready(dag: Dag, ended: Iterable[int], last: int) -> list[int]:
    """The steps that can begin because this one has ended, the last of all that they depend on."""
    names = list(dag)
    done = {names[index] for index in ended}
    return [index for index, (_, needs) in enumerate(dag.items()) if names[last] in needs and done.issuperset(needs)]


def ancestors(dag: Dag, name: str) -> list[int]:
    """All steps that have ended when this one begins, in the order of the definition."""
    found: set[str] = set()
    left = list(dag[name])
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left.extend(dag[one])
    return [index for index, one in enumerate(dag) if one in found]


def step_id(dag: Dag, root: Token, name: str) -> str:
    """The id of the branch that is this step, of a root that stands at its fork."""
    return branch_id(fork_id(root.id, root.slot), list(dag).index(name))


def may_begin(dag: Dag, branch: Branch) -> bool:
    """Whether all that this step depends on have ended; it knows only of those that have."""
    return all(name in branch.steps for name in dag.get(branch.start, ()))


def is_passed_over(dag: Dag, branch: Branch) -> bool:
    """Whether all that this step depends on were skipped."""
    needs = dag.get(branch.start, ())
    return bool(needs) and all(branch.steps[name].status == "skipped" for name in needs)


def knowing(branch: Branch, ended: Iterable[Token]) -> Branch:
    """The step with what those before it brought: their results, and what they have written into the state."""
    found = list(ended)
    steps = {_name(one): view_of(one) for one in found}
    since_ms = max([branch.started_ms, *(one.last.at_ms for one in found if one.last)])
    return replace(
        branch, steps={**branch.steps, **steps}, state={**branch.state, **written(found)}, started_ms=since_ms
    )


def view_of(ended: Token) -> StepView:
    """What became of a step; one without code of its own leaves no trace but its end."""
    at_ms = ended.last.at_ms if ended.last else 0
    return ended.steps.get(_name(ended)) or StepView("completed", started_ms=at_ms, ended_ms=at_ms)


def outputs(ended: Iterable[Token]) -> dict[str, Json]:
    """What the steps brought, by name; null for one that was skipped."""
    return {_name(one): view_of(one).output for one in ended}


def written(ended: Iterable[Token]) -> dict[str, Json]:
    """What the steps wrote into the state, the later in the definition over the earlier; null for one skipped."""
    found: dict[str, Json] = {}
    for one in ended:
        found |= {_name(one): None} if view_of(one).status == "skipped" else one.scope
    return found


def _name(branch: Token) -> str:
    if branch.branch is None:
        raise EngineFault(f"{branch.id} is no step of a DAG", code="broken_log")
    return branch.branch.start
