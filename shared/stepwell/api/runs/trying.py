"""What a token is at that its log has not got yet: the next attempt, a wait that is over, a pause, what was undone.

The log has an attempt only after it has ended, and has a wait's end some time before its node is left if a pause came.
That a pause holds a branch back is in the run's header, and that its steps were undone in the log of the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from stepwell.api.runs.ran import views_in
from stepwell.api.runs.rollbacks import undone_steps
from stepwell.api.runs.states import fork_at, status_of
from stepwell.definition.graph import Graph
from stepwell.engine.copying import changed
from stepwell.engine.forks.marks import is_waiting
from stepwell.engine.records import Kind, RetryAt, Status
from stepwell.engine.token import Token
from stepwell.runtime.calls.survey import Surveyed
from stepwell.runtime.log.standing import Standing


def tried(token: Token, now_ms: int) -> Token:
    """Returns the token with the attempt that runs now, if one before it failed; a wait that is over does not wait."""
    view, last = token.steps.get(token.node), token.last
    if view is None or last is None or token.ended or is_waiting(token):
        return token
    if view.status == "waiting":
        return changed(token, steps={**token.steps, token.node: changed(view, status="running")})
    if view.status != "running":
        return token
    if isinstance(last.next, RetryAt) and last.next.at_ms > now_ms:
        return token
    return changed(token, steps={**token.steps, token.node: changed(view, attempts=token.attempt + 1)})


def tried_at(at: Standing, now_ms: int) -> Standing:
    """Returns the run or branch with the attempts that run now. While it is paused, no further one begins."""
    now_ms = at.header.paused_ms or now_ms
    return changed(at, token=tried(at.token, now_ms), branches=tuple(tried(one, now_ms) for one in at.branches))


def may_rest(token: Token) -> bool:
    """Tells whether a pause holds this token back, which waits for nothing: no worker has begun its step."""
    return token.last is None or token.last.kind is not Kind.BEGAN


def held_back(token: Token) -> Token:
    """Returns a token that a pause holds back: its step is not tried meanwhile."""
    view = token.steps.get(token.node)
    if view is None or view.status != "running":
        return token
    return changed(token, steps={**token.steps, token.node: changed(view, status="paused", attempts=token.attempt)})


def tried_in(at: Standing, forks: Iterable[Surveyed], now_ms: int) -> tuple[Surveyed, ...]:
    """Returns the forks of a run in the same way. In a paused run their branches rest; undone steps are compensated."""
    now_ms = at.header.paused_ms or now_ms
    found = tuple(_tried_in(fork, now_ms) if fork.is_open else fork for fork in forks)
    if status_of(at) is Status.PAUSED:
        found = tuple(_resting(at.graph, fork) if fork.is_open else fork for fork in found)
    undone = undone_steps(at)
    return tuple(_undone(fork, undone) for fork in found) if undone else found


def _tried_in(fork: Surveyed, now_ms: int) -> Surveyed:
    branches = tuple(tried(one, now_ms) for one in fork.branches)
    inner = tuple(_tried_in(one, now_ms) if one.is_open else one for one in fork.inner)
    return replace(fork, branches=branches, inner=inner)


def _resting(graph: Graph, fork: Surveyed) -> Surveyed:
    """Returns an open fork of a paused run, whose branches rest unless they wait or a worker has begun their step."""
    branches = tuple(_at_rest(graph, fork, index, one) for index, one in enumerate(fork.branches))
    inner = tuple(_resting(graph, one) if one.is_open else one for one in fork.inner)
    counts = {name: _moved(one, "running", "paused", one.get("running", 0)) for name, one in fork.counts.items()}
    return replace(fork, branches=branches, inner=inner, counts=counts)


def _at_rest(graph: Graph, fork: Surveyed, index: int, branch: Token) -> Token:
    if branch.ended or is_waiting(branch) or fork_at(branch) is not None or not may_rest(branch):
        return branch
    begun = {
        name: changed(view, status="paused", attempts=branch.attempt) if view.status == "running" else view
        for name, view in views_in(graph, fork, index, branch)
        if name not in branch.steps
    }
    return changed(held_back(branch), steps={**held_back(branch).steps, **begun})


def _undone(fork: Surveyed, undone: Collection[tuple[str, str]]) -> Surveyed:
    """Returns a fork whose undone steps are compensated. `undone`: (token, step) of each."""
    branches = tuple(
        changed(one, steps={name: changed(view, status="compensated") if (one.id, name) in undone else view
                            for name, view in one.steps.items()})
        for one in fork.branches
    )  # fmt: skip
    first = Counter(step for token, step in undone if token.rpartition(".")[0] == fork.id)
    counts = {
        name: _moved(one, "completed", "compensated", min(one.get("completed", 0), first[name]))
        for name, one in fork.counts.items()
    }
    return replace(fork, branches=branches, inner=tuple(_undone(one, undone) for one in fork.inner), counts=counts)


def _moved(counts: Mapping[str, int], before: str, after: str, count: int) -> Mapping[str, int]:
    return Counter(counts) - Counter({before: count}) + Counter({after: count})
