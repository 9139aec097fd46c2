"""The API's view of a DAG: every step with its status, including steps that have not begun."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from stepwell.engine.forks.needs import view_of
from stepwell.engine.token import StepView, Token
from stepwell.runtime.log.standing import Standing

_DONE = frozenset({"completed", "skipped", "compensated"})
_AT_WORK = frozenset({"running", "waiting"})


def step_views(at: Standing) -> dict[str, StepView]:
    """Returns a DAG's steps in the order of the definition; `pending` steps have not begun, or never will."""
    tokens = dict(zip(at.graph.dependencies, at.branches, strict=False))  # empty before the run has begun
    return {name: _view(at, name, tokens) for name in at.graph.dependencies}


def live_steps(at: Standing) -> list[Token]:
    """Returns the tokens of the steps that run or wait."""
    views = step_views(at)
    return [one for name, one in zip(at.graph.dependencies, at.branches, strict=True) if views[name].status in _AT_WORK]


def at_work(views: Mapping[str, StepView]) -> list[str]:
    """Returns the names of the steps that run or wait."""
    return [name for name, view in views.items() if view.status in _AT_WORK]


def done(views: Iterable[StepView]) -> int:
    """Counts the finished steps."""
    return sum(map(is_done, views))


def is_done(step: StepView) -> bool:
    """Tells whether a step has finished, so that those after it may begin."""
    return step.status in _DONE


def _view(at: Standing, name: str, tokens: Mapping[str, Token]) -> StepView:
    token = tokens.get(name)
    if token is None:
        return StepView("pending")
    if name in token.steps or token.has_completed:
        return replace(view_of(token), status="compensated") if _is_undone(at, token) else view_of(token)
    before = [tokens[one] for one in at.graph.dependencies[name]]
    if not all(one.has_completed for one in before):
        return StepView("pending")
    begun_ms = max([one.last_ms for one in before], default=token.branch.started_ms if token.branch else 0)
    if token.end is not None and token.end.error is not None:
        return StepView("failed", error=token.end.error, started_ms=begun_ms, ended_ms=token.last_ms)
    ended_ms = (token if token.ended else at.token).last_ms
    if token.ended or at.token.ended:
        return StepView("cancelled", started_ms=begun_ms, ended_ms=ended_ms)
    return StepView("running", attempts=int(at.graph.nodes[name].step is not None), started_ms=begun_ms)


def _is_undone(at: Standing, step: Token) -> bool:
    undone = at.token.undoing.undone if at.token.undoing else ()
    return any(place.startswith(f"{step.id}@") for place in undone)
