"""What ran, node by node: a run's own steps, and those of its branches with how many are in each status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from stepwell.api.dags import step_views
from stepwell.api.states import fork_at, status_of
from stepwell.api.steps import StepResult, step_result
from stepwell.definition.graph import Graph
from stepwell.engine.marks import is_waiting
from stepwell.engine.names import node_of
from stepwell.engine.records import Status
from stepwell.engine.token import StepView, Token
from stepwell.runtime.calls.survey import Surveyed
from stepwell.runtime.log.logbook import Standing

_LIVE = ("running", "waiting", "pending")  # what shows of a node while there is one such branch
_WORST = (*_LIVE, "failed", "cancelled", "completed", "compensated", "skipped")


def steps_of(at: Standing, forks: Sequence[Surveyed]) -> dict[str, StepResult]:
    """Returns each step in the log, and a step on its first visit, which the log does not have yet.

    For a DAG, returns every step. A step that ran in branches has `branches`: how many are in each status.
    """
    own = _own(at)
    found = {name: step_result(step) for name, step in own.items()}
    for name, (views, counts) in _in_branches(at.graph, _inner(forks) if at.graph.dag else forks).items():
        if name in own:
            views.append(own[name])
            counts[own[name].status] += 1
        found[name] = _summed(views, counts)
    return found


def _own(at: Standing) -> Mapping[str, StepView]:
    if at.graph.dag:
        return step_views(at)
    shown = dict(at.token.steps)
    name = node_of(at.graph, at.token)
    is_at_it = status_of(at) is Status.RUNNING and fork_at(at.token) is None
    if is_at_it and name not in shown and at.graph.nodes[name].step is not None:
        since_ms = at.token.last.at_ms if at.token.last else at.header.started_ms
        shown[name] = StepView("running", attempts=at.token.attempt, started_ms=since_ms)
    return shown


def _inner(forks: Iterable[Surveyed]) -> list[Surveyed]:
    return [inner for fork in forks for inner in fork.inner]


def _in_branches(graph: Graph, forks: Iterable[Surveyed]) -> dict[str, tuple[list[StepView], Counter[str]]]:
    """By node: what is known of each branch's step there, and how many are in each status."""
    found: dict[str, tuple[list[StepView], Counter[str]]] = {}
    for fork in forks:
        for name, view in _views(graph, fork):
            views, counts = found.setdefault(name, ([], Counter()))
            views.append(view)
            counts[view.status] += 1
        for name, by_status in fork.counts.items():
            node = fork.node if graph.function else name
            found.setdefault(node, ([], Counter()))[1].update(by_status)
        for name, (views, counts) in _in_branches(graph, fork.inner).items():
            there = found.setdefault(name, ([], Counter()))
            there[0].extend(views)
            there[1].update(counts)
    return found


def _views(graph: Graph, fork: Surveyed) -> Iterator[tuple[str, StepView]]:
    for index, branch in enumerate(fork.branches):
        yield from branch.steps.items()
        name = _stands_at(graph, fork, branch)
        node = graph.nodes.get(name)
        if branch.ended or name in branch.steps or fork_at(branch) is not None:
            continue
        if node is None or node.step is not None or node.wait is not None or node.call is not None:
            has_begun = branch.last is not None or index in fork.may_begin
            status = "waiting" if is_waiting(branch) else "running" if has_begun else "pending"
            started_ms = branch.last.at_ms if branch.last else 0
            yield (
                name,
                StepView(status if fork.is_open else "cancelled", attempts=branch.attempt, started_ms=started_ms),
            )


def _stands_at(graph: Graph, fork: Surveyed, branch: Token) -> str:
    """Returns the node; an operation of a durable function that has no record yet is known by its fork only."""
    return fork.node if graph.function and branch.last is None else node_of(graph, branch)


def _summed(views: Sequence[StepView], counts: Counter[str]) -> StepResult:
    status = next((one for one in _WORST if counts[one]), "pending")
    failed = next((view for view in views if view.error is not None and view.status == "failed"), None)
    started = [view.started_ms for view in views if view.started_ms]
    ended = max((view.ended_ms for view in views), default=0) if status not in _LIVE else 0
    whole = StepView(
        status,
        error=failed.error if failed else None,
        attempts=sum(view.attempts for view in views),
        started_ms=min(started, default=0),
        ended_ms=ended,
    )
    result = step_result(replace(whole))
    result["branches"] = {"total": counts.total(), **{name: counts[name] for name in _WORST if counts[name]}}
    return result
