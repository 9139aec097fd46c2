"""The DAG of the format `steps`: one fork whose branches are the steps. Each begins when all it depends on have ended.

a ──▶ b ──▶ d        a ends: {a}        → b and c are ready
└───▶ c ────┘        c ends: {a, c}     → none
                     b ends: {a, b, c}  → d is ready: only the last of its dependencies sees them all
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stepwell.definition.graph import Graph, Json
from stepwell.engine.records import Fork, Group
from stepwell.engine.token import StepView, Token

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


def ancestors(dag: Dag, name: str) -> tuple[str, ...]:
    """All steps that have ended when this one begins."""
    found: dict[str, None] = {}
    left = list(dag[name])
    while left:
        one = left.pop()
        if one not in found:
            found[one] = None
            left.extend(dag[one])
    return tuple(found)


def is_passed_over(dag: Dag, branch: Token) -> bool:
    """Whether all that this step depends on were skipped."""
    if branch.branch is None:
        return False
    needs = dag.get(branch.branch.start, ())
    return bool(needs) and all(_status(branch.branch.steps, name) == "skipped" for name in needs)


def _status(steps: Mapping[str, StepView], name: str) -> str:
    view = steps.get(name)
    return view.status if view is not None else ""


def outputs(branches: Iterable[Token]) -> dict[str, Json]:
    """What the steps brought, by name; null for one that was skipped."""
    return {name: view.output for branch in branches for name, view in branch.steps.items()}
