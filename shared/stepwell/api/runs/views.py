"""The API's view of runs. A single run's view is read off its log, because headers lag behind.

The TypedDicts are the named schemas of the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from typing_extensions import TypedDict

from stepwell.api.runs.branches import ForkView, fork_view
from stepwell.api.runs.children import ChildView, Statuses, child_views, parent_id, read_statuses
from stepwell.api.runs.gathered import GatheringView, gathering_view
from stepwell.api.runs.ran import TokenView, attempts_of, shown_inside, steps_of, tokens_of
from stepwell.api.runs.rollbacks import RollbackView, outcome_of, rollback_view
from stepwell.api.runs.states import (
    cancelled_by,
    current_steps,
    error_of,
    held_text,
    is_shown_waiting,
    pause_of,
    phase_of,
    progress,
    status_of,
    summary_of,
    wait_of,
    waiting_tokens,
)
from stepwell.api.runs.steps import ErrorView, StepResult, error_view, time_of
from stepwell.api.runs.trying import tried_at, tried_in
from stepwell.api.runs.waiting import AwaitedEvent, Shown, awaited_events, waiting_data
from stepwell.definition.graph import Graph, Json
from stepwell.engine import gathering
from stepwell.engine.limits.permits import is_limited
from stepwell.engine.names import iso, shown_state
from stepwell.engine.parts import shown_kind
from stepwell.engine.records import Parked, Status
from stepwell.engine.starts import is_open
from stepwell.engine.token import Token
from stepwell.limits import TOKENS_SHOWN
from stepwell.prices import Prices, usd_here
from stepwell.runtime.calls.ledger import Cost
from stepwell.runtime.calls.service import Service
from stepwell.runtime.calls.survey import Surveyed
from stepwell.runtime.log.conditions import step_shown
from stepwell.runtime.log.due import waits_until_ms
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports.headers import STARTS, Header

RESULT_TYPES = {
    Status.COMPLETED: "success",
    Status.FAILED: "failure",
    Status.TIMED_OUT: "timeout",
    Status.CANCELLED: "cancelled",
    Status.COMPENSATED: "rolled_back",
}


class OriginView(TypedDict):
    """The run that a run was made from."""

    kind: str
    run_id: str


class CostView(TypedDict):
    """What a run has used until now on AWS, without its child runs, and what that costs by the dated list prices.

    `estimated`: the counts that its records do not say exactly; `step_seconds` are charged for 512 MB.
    """

    steps: int
    records: int
    waits: int
    forks: int
    write_units: int
    read_units: int
    queue_requests: int
    invocations: int
    schedules: int
    objects: int
    step_seconds: float
    output_bytes: int
    usd: float
    prices_as_of: str
    estimated: list[str]


class RunView(TypedDict):
    """A run. `pinned`: what is made of it takes its version, where no other is named.

    `version_number`: what the author of a durable function gave this version.
    """

    run_id: str
    workflow: str
    version: str
    version_number: int | None
    pinned: bool
    status: str
    phase: str
    outcome: str | None
    current_steps: list[str]
    progress: str
    waiting_for: str | None
    waiting_until: str | None
    waiting_data: Json
    waiting_events: list[AwaitedEvent]
    pending_reason: str | None
    gathering: GatheringView | None
    input: Json
    state: dict[str, Json]
    steps: dict[str, StepResult]
    tokens: list[TokenView]
    forked: ForkView | None
    result: Json
    error: ErrorView | None
    result_type: str | None
    result_summary: str | None
    cancelled_by: str | None
    cancel_reason: str | None
    parent: str | None
    origin: OriginView | None
    children: list[ChildView]
    rollback: RollbackView | None
    tags: dict[str, str]
    priority: int
    cost: CostView | None
    created_at: str
    started_at: str | None
    ended_at: str | None
    links: dict[str, str]


class StartedView(RunView):
    """A run, as the answer to a start. `folded`: the start became part of a run that another start had made.

    `warnings`: sentences about an input that is valid, and may not be what you meant.
    """

    folded: bool
    warnings: list[str]


class FailedView(TypedDict):
    """What a run failed with, as its header keeps it: without the message. `fingerprint`: of runs that failed alike."""

    fingerprint: str
    type: str
    step: str


class RunSummary(TypedDict):
    """A run in a list, from its header, which may lag a moment behind its log.

    `failure`: of a run that failed, timed out or was rolled back. `pending_reason`: what a pending run may wait for by
    the deployed version: `gathers starts`, `queued`, or `queued or limited`. It is null before `start_at`.
    """

    run_id: str
    workflow: str
    version: str
    pinned: bool
    status: str
    current_steps: list[str]
    waiting_for: str | None
    waiting_since: str | None
    waiting_until: str | None
    pending_reason: str | None
    failure: FailedView | None
    tags: dict[str, str]
    priority: int
    parent: str | None
    origin: OriginView | None
    created_at: str
    start_at: str | None
    started_at: str | None
    ended_at: str | None
    links: dict[str, str]


async def read_run(service: Service, run_id: str, shown: Shown | None = None) -> RunView:
    """Reads the run's view with its children's status and the caller's links. Raises NotFound."""
    return await view_of(service, await service.standing(run_id), shown)


async def view_of(service: Service, at: Standing, shown: Shown | None = None) -> RunView:
    """Reads what a view shows beside the run's own log: its branches, its children's status, and its cost."""
    forks, cost = await service.surveyed_with_cost(at)
    statuses = await read_statuses(service, at, forks=forks)
    made = run_view(at, service.ports.clock.now_ms(), statuses, forks, shown)
    made["cost"] = cost_view(cost, at.token, attempts_of(at.token, forks), service.prices())
    return made


def run_view(
    at: Standing,
    now_ms: int,
    statuses: Statuses | None = None,
    forks: Sequence[Surveyed] = (),
    shown: Shown | None = None,
) -> RunView:
    """Builds the view from the root token's log, without its cost; `statuses`: those of child runs that were read."""
    header, token, status = at.header, at.token, status_of(at)
    waiting = next(iter(waiting_tokens(at)), None) or shown_inside(at, forks)
    wait = wait_of(at.graph, waiting) if waiting else None
    parked = wait[0] if wait else None
    who, reason = cancelled_by(token, status)
    parent = parent_id(header)
    steps = steps_of(tried_at(at, now_ms), tried_in(at, forks, now_ms))
    tokens = list(tokens_of(at, forks))
    return RunView(
        run_id=header.run_id,
        workflow=header.workflow,
        version=header.version,
        version_number=at.graph.number,
        pinned=header.pinned,
        status=status.value,
        phase=phase_of(at),
        outcome=outcome_of(at),
        current_steps=_current_steps(at, status, tokens),
        progress=progress(at, steps),
        waiting_for=_waiting_for(at, waiting, parked),
        waiting_until=time_of(_waiting_until_ms(at, parked)),
        waiting_data=waiting_data(header.run_id, waiting, now_ms, shown) if waiting else None,
        waiting_events=awaited_events(waiting) if waiting else [],
        pending_reason=_pending_reason(at, status, now_ms),
        gathering=gathering_view(at),
        input=at.run.input,
        state=shown_state(token),
        steps=steps,
        tokens=tokens[:TOKENS_SHOWN],
        forked=fork_view(at.graph, token),
        result=token.result if status is Status.COMPLETED else None,
        error=error_view(error_of(token)),
        result_type=RESULT_TYPES.get(status),
        result_summary=summary_of(at),
        cancelled_by=who or None,
        cancel_reason=reason or None,
        parent=parent,
        origin=_origin(header),
        children=child_views(at, statuses or {}, forks),
        rollback=rollback_view(at),
        tags=dict(header.tags),
        priority=header.priority,
        cost=None,
        created_at=iso(header.created_ms),
        started_at=time_of(header.started_ms),
        ended_at=iso(token.last_ms) if token.ended else None,
        links=links(header.run_id, parent),
    )


def _current_steps(at: Standing, status: Status, tokens: Sequence[TokenView]) -> list[str]:
    """Returns the current nodes. The operation of a function's branch without a record is known to its fork only."""
    if at.graph.replays and status is Status.RUNNING:
        return list(dict.fromkeys(one["step"] for one in tokens))
    return current_steps(at)


_COUNTED = [one.name for one in fields(Cost) if one.name != "is_whole"]
_ESTIMATED = ["read_units", "queue_requests", "invocations"]


def cost_view(cost: Cost, token: Token, steps: int, prices: Prices) -> CostView:
    """Returns the run's ledger with USD. `steps`: attempts. Records are those of its own log."""
    used = {name: getattr(cost, name) for name in _COUNTED}
    return CostView(
        steps=steps,
        records=token.slot + 1,
        waits=cost.waits,
        forks=cost.forks,
        write_units=cost.write_units,
        read_units=cost.read_units,
        queue_requests=cost.queue_requests,
        invocations=cost.invocations,
        schedules=cost.schedules,
        objects=cost.objects,
        step_seconds=cost.step_seconds,
        output_bytes=cost.output_bytes,
        usd=round(usd_here(used, prices), 9),
        prices_as_of=prices.as_of,
        estimated=_ESTIMATED if cost.is_whole else _COUNTED,
    )


def _waiting_for(at: Standing, waiting: Token | None, parked: Parked | None) -> str | None:
    if waiting is not None and parked is not None:
        return shown_kind(waiting, parked)
    return at.header.waiting_for if is_shown_waiting(at) else None


def _waiting_until_ms(at: Standing, parked: Parked | None) -> int | None:
    if parked is not None:
        return waits_until_ms(at, parked)
    return at.header.waiting_until_ms if is_shown_waiting(at) else None


def run_summary(header: Header, now_ms: int, graph: Graph | None = None) -> RunSummary:
    """Builds the view from the run's header. That of a paused run still has a wait whose time is over.

    `graph`: the deployed version of its workflow, if there is one.
    """
    parent = parent_id(header)
    until_ms = header.waiting_until_ms
    waits = header.status is not Status.PAUSED or until_ms is None or until_ms > now_ms
    return RunSummary(
        run_id=header.run_id,
        workflow=header.workflow,
        version=header.version,
        pinned=header.pinned,
        status=header.status.value,
        current_steps=[_waiting_step(header)] if header.waiting_node else [],
        waiting_for=(header.waiting_for or None) if waits else None,
        waiting_since=time_of(header.waiting_since_ms) if waits else None,
        waiting_until=time_of(until_ms) if waits else None,
        pending_reason=_may_wait_for(header, now_ms, graph),
        failure=failed_view(header.failure) if header.failure else None,
        tags=dict(header.tags),
        priority=header.priority,
        parent=parent,
        origin=_origin(header),
        created_at=iso(header.created_ms),
        start_at=time_of(header.start_at_ms),
        started_at=time_of(header.started_ms),
        ended_at=time_of(header.ended_ms),
        links={"self": f"/runs/{header.run_id}", **_parent_link(parent)},
    )


def _may_wait_for(header: Header, now_ms: int, graph: Graph | None) -> str | None:
    """Returns what a pending run may wait for, as far as that is known without its log and its limits."""
    if header.status is not Status.PENDING or header.start_at_ms > now_ms:
        return None
    if header.origin.startswith(f"{STARTS}:"):
        return "gathers starts"
    return "queued or limited" if graph is not None and is_limited(graph) else "queued"


def failed_view(failure: str) -> FailedView:
    """Builds the view of a header's `failure`."""
    mark, kind, step = (*failure.split(" ", 2), "", "")[:3]
    return FailedView(fingerprint=mark, type=kind, step=step)


def _waiting_step(header: Header) -> str:
    """Returns where a run waits."""
    return step_shown(header.waiting_for, header.waiting_node)


def _origin(header: Header) -> OriginView | None:
    kind, _, run_id = header.origin.partition(":")
    return OriginView(kind=kind, run_id=run_id) if run_id and kind != STARTS else None


def links(run_id: str, parent: str | None = None) -> dict[str, str]:
    """Returns the links to further information."""
    base = f"/runs/{run_id}"
    names = ("history", "result", "explain", "graph", "branches")
    return {"self": base, **{name: f"{base}/{name}" for name in names}, **_parent_link(parent)}


def _parent_link(parent: str | None) -> dict[str, str]:
    return {"parent": f"/runs/{parent}"} if parent else {}


def _pending_reason(at: Standing, status: Status, now_ms: int) -> str | None:
    if status is Status.PAUSED:
        return pause_of(at.header)
    if status is not Status.PENDING:
        return None
    if is_open(at.run, at.token):
        return gathering.progress(at.graph, at.run, at.token)
    if at.header.start_at_ms > now_ms:
        return f"starts at {iso(at.header.start_at_ms)}"
    return "queued" if at.held is None else held_text(at.held)
