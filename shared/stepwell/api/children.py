"""The API's view of child runs: those that a run's steps started, in the latest visit of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from typing_extensions import TypedDict

from stepwell.api.states import waiting_tokens
from stepwell.engine.children import DETACHED, child_id
from stepwell.engine.token import StepView, Token
from stepwell.limits import CHILD_STATUSES
from stepwell.runtime.calls.service import Service
from stepwell.runtime.log.logbook import Standing

Statuses = Mapping[str, str]  # the status of child runs by id


class ChildView(TypedDict):
    """A child run. `status` is null if it could not be started, and for children beyond the first 25.

    `detached`: the run does not wait for it.
    """

    name: str
    workflow: str
    run_id: str
    step: str
    status: str | None
    detached: bool
    links: dict[str, str]


def child_views(at: Standing, statuses: Statuses) -> list[ChildView]:
    """Returns the children of this token's steps and of a DAG's steps."""
    members = at.branches if at.graph.dag else ()
    return [one for token in (at.token, *members) for one in children_of(at, token, statuses)]


def children_of(at: Standing, token: Token, statuses: Statuses) -> Iterator[ChildView]:
    """Yields the children that one token's steps have started."""
    for step, view in token.steps.items():
        for index, one in enumerate(view.children):
            run_id = child_id(at.run_id, token.id, view.called_slot, index)
            yield _child(one.name, one.workflow, run_id, step, statuses)
        workflow = _detached(at, step, view)
        if workflow:
            yield _child(step, workflow, view.output, step, statuses, detached=True)


def waited_for(at: Standing, token: Token, statuses: Statuses) -> list[ChildView]:
    """Returns the children that this token waits for."""
    if token.parked is None or not token.parked.children:
        return []
    return [one for one in children_of(at, token, statuses) if one["step"] == token.node and not one["detached"]]


async def read_statuses(service: Service, *standings: Standing) -> Statuses:
    """Reads the status of the first 25 children from their headers, beginning with those of current waits."""
    waited = [one for at in standings for token in waiting_tokens(at) for one in waited_for(at, token, {})]
    others = [one for at in standings for one in child_views(at, {})]
    wanted = list(dict.fromkeys(one["run_id"] for one in (*waited, *others)))[:CHILD_STATUSES]
    headers = [await service.ports.runs.get_run(run_id) for run_id in wanted]
    return {header.run_id: header.status.value for header in headers if header is not None}


def _detached(at: Standing, step: str, view: StepView) -> str:
    """Returns the workflow of a detached run that a step has started."""
    node = at.graph.nodes.get(step)
    is_detached = node is not None and node.step is not None and node.step.run.startswith(DETACHED)
    if not is_detached or node is None or node.step is None or not isinstance(view.output, str):
        return ""
    return node.step.run.removeprefix(DETACHED)


def _child(
    name: str, workflow: str, run_id: str, step: str, statuses: Statuses, *, detached: bool = False
) -> ChildView:
    return ChildView(
        name=name,
        workflow=workflow,
        run_id=run_id,
        step=step,
        status=statuses.get(run_id),
        detached=detached,
        links={"self": f"/runs/{run_id}"},
    )
