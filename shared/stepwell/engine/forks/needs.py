"""Forks whose branches need others: each branch begins when all that it needs have ended.

a ──▶ b ──▶ d        a ends: {a}        → b and c are ready
└───▶ c ────┘        c ends: {a, c}     → none
                     b ends: {a, b, c}  → d is ready: only the last of those that it needs sees them all

The join keeps their order, so a repeated arrival of c sees {a, c} still. In forks of earlier releases it sees all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from graphlib import TopologicalSorter

from stepwell.definition.graph import Json
from stepwell.engine.records import Fork
from stepwell.engine.token import Branch, StepView, Token
from stepwell.errors import EngineFault


def ready(fork: Fork, ended: Collection[int], last: int) -> list[int]:
    """Returns the branches that can begin now: this one is the last that they need. `ended`: this one included."""
    return [index for index, needs in enumerate(fork.needs) if last in needs and all(one in ended for one in needs)]


def ancestors(fork: Fork, index: int) -> list[int]:
    """Returns all branches that have ended when this one begins, in order."""
    found: set[int] = set()
    left = list(fork.needs[index])
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left.extend(fork.needs[one])
    return sorted(found)


def causal_order(fork: Fork) -> Iterable[int]:
    """Sorts the branches so that each comes after those that it needs."""
    return TopologicalSorter(dict(enumerate(fork.needs))).static_order() if fork.needs else range(fork.width)


def may_begin(branch: Branch) -> bool:
    """Tells whether all branches that this one needs have ended."""
    return all(name in branch.steps for name in branch.needs)


def is_passed_over(branch: Branch) -> bool:
    """Tells whether all branches that this one needs were skipped."""
    return bool(branch.needs) and all(branch.steps[name].status == "skipped" for name in branch.needs)


def knowing(branch: Branch, ended: Iterable[Token]) -> Branch:
    """The branch with what those before it brought: their results, and what they have written into the state."""
    found = list(ended)
    steps = {_name(one): view_of(one) for one in found}
    since_ms = max([branch.started_ms, *(one.last_ms for one in found)])
    return replace(
        branch, steps={**branch.steps, **steps}, state={**branch.state, **written(found)}, started_ms=since_ms
    )


def view_of(ended: Token) -> StepView:
    """Returns the view of a member; one without code has only an end."""
    return ended.steps.get(_name(ended)) or StepView("completed", started_ms=ended.last_ms, ended_ms=ended.last_ms)


def outputs(ended: Iterable[Token]) -> dict[str, Json]:
    """Returns the members' outputs by name; null for a skipped one."""
    return {_name(one): view_of(one).output for one in ended}


def written(ended: Iterable[Token]) -> dict[str, Json]:
    """What the members wrote into the state, the later in the definition over the earlier; null for one skipped."""
    found: dict[str, Json] = {}
    for one in ended:
        found |= {_name(one): None} if view_of(one).status == "skipped" else one.scope
    return found


def _name(branch: Token) -> str:
    if branch.branch is None:
        raise EngineFault(f"{branch.id} is no branch", code="broken_log")
    return branch.branch.start
