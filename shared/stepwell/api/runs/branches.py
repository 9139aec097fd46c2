"""The API's view of forks and their branches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from typing_extensions import TypedDict

from stepwell.api.runs.children import ChildView, Statuses, children_of, read_statuses
from stepwell.api.runs.rollbacks import undone_steps
from stepwell.api.runs.states import begun_phase, error_of, fork_at
from stepwell.api.runs.steps import ErrorView, StepResult, error_view, step_result, time_of
from stepwell.api.runs.trying import held_back, may_rest, tried_at
from stepwell.api.runs.waiting import waiting_data
from stepwell.definition.graph import Graph, Json
from stepwell.engine.forks.branches import fork_id
from stepwell.engine.forks.marks import is_waiting
from stepwell.engine.names import iso, node_of, shown_output
from stepwell.engine.parts import shown_kind
from stepwell.engine.records import Status
from stepwell.engine.token import StepView, Token
from stepwell.limits import PAGE_ITEMS_MAX
from stepwell.runtime.calls.service import Service
from stepwell.runtime.calls.survey import Surveyed
from stepwell.runtime.log.standing import Standing

BRANCHES_LOOKED_AT = 2_000  # read for one page with a status filter: one query for each hundred
WAITING_TOLD = 50  # waiting branches of a wide fork, by which an explanation tells what they wait for
_MAY_BE_UNDONE = frozenset({Status.COMPENSATING, Status.COMPENSATED, Status.FAILED})


class ForkView(TypedDict):
    """The fork that a run is at, without its branches."""

    id: str
    node: str
    width: int
    join: str | None


class BranchView(TypedDict):
    """One branch of a fork."""

    id: str
    index: int
    item: Json
    status: str
    phase: str
    current_step: str | None
    waiting_for: str | None
    waiting_until: str | None
    waiting_data: Json
    output: dict[str, Json]
    error: ErrorView | None
    steps: dict[str, StepResult]
    children: list[ChildView]
    forked: ForkView | None
    ended_at: str | None


def fork_view(graph: Graph, token: Token) -> ForkView | None:
    """Returns the fork that a token waits at."""
    fork = fork_at(token)
    if fork is None:
        return None
    node = graph.seen_as(token.node)
    return ForkView(id=fork_id(token.id, token.slot), node=node, width=fork.width, join=fork.join or None)


async def read_branches(service: Service, found: Sequence[Standing]) -> list[BranchView]:
    """Returns the views of one run's branches, with their children's status and undone steps."""
    if not found:
        return []
    statuses = await read_statuses(service, *found)
    header = await service.header(found[0].run_id)  # a branch's copy may be as old as its fork
    may_be_undone = header.status in _MAY_BE_UNDONE
    undone = undone_steps(await service.standing(found[0].run_id)) if may_be_undone else frozenset()
    now_ms, is_paused = header.paused_ms or service.ports.clock.now_ms(), header.paused_ms > 0
    return [branch_view(tried_at(at, now_ms), statuses, undone, is_paused=is_paused) for at in found]


def branch_view(
    at: Standing,
    statuses: Statuses | None = None,
    undone: Collection[tuple[str, str]] = frozenset(),
    *,
    is_paused: bool = False,
) -> BranchView:
    """Builds a branch's view from its own log.

    `statuses` are those of child runs that were read; `undone` has (token, step) of each undone step.
    """
    status = branch_status(at, is_paused=is_paused)
    at = replace(at, token=held_back(at.token)) if status is Status.PAUSED else at
    token, branch = at.token, at.token.branch
    node = (at.operation if token.last is None else "") or node_of(at.graph, token)
    steps = {name: replace(step, status="compensated") if (token.id, name) in undone else step
             for name, step in {**_at_work(at, node, status), **token.steps}.items()}  # fmt: skip
    waiting = token.parked if is_waiting(token) else None
    return BranchView(
        id=token.id,
        index=branch.index if branch else 0,
        item=branch.item if branch else None,
        status=status.value,
        phase=begun_phase(token) if status is Status.RUNNING else token.phase.value,
        current_step=None if token.ended else node,
        waiting_for=shown_kind(token, waiting) if waiting else None,
        waiting_until=time_of(waiting.until_ms) if waiting else None,
        waiting_data=waiting_data(at.run_id, token, 0) if waiting else None,  # without links, which need the time
        output=shown_output(token),
        error=error_view(error_of(token)),
        steps={name: step_result(step) for name, step in steps.items()},
        children=list(children_of(at, token, statuses or {})),
        forked=fork_view(at.graph, token),
        ended_at=iso(token.last_ms) if token.ended else None,
    )


def _at_work(at: Standing, node: str, status: Status) -> Mapping[str, StepView]:
    """Returns the step that the branch is at, which its log does not have before the first attempt has ended."""
    step = at.graph.nodes[node].step if node in at.graph.nodes else at.operation
    if not step or status not in {Status.RUNNING, Status.PAUSED} or fork_at(at.token) is not None:
        return {}
    begun_ms = at.token.branch.started_ms if at.token.branch else 0
    since_ms = at.token.last_ms or begun_ms
    is_tried = status is Status.RUNNING
    return {node: StepView(status.value, attempts=at.token.attempt + is_tried, started_ms=since_ms)}


def branch_status(at: Standing, *, is_paused: bool) -> Status:
    """Returns a branch's status according to its own log. One without a record runs if nothing holds it back.

    `is_paused`: the run is, so that a branch rests unless a worker has begun its step.
    """
    token = at.token
    if token.end is not None:
        return token.end.status
    if is_waiting(token):
        return Status.WAITING
    if token.last is None and not at.may_begin:
        return Status.PENDING
    return Status.PAUSED if is_paused and may_rest(token) else Status.RUNNING


async def read_forks(service: Service, at: Standing) -> list[Surveyed]:
    """Returns a run's forks. Of a wide one that the run is at, some of the branches that wait are read too."""
    found, own = list(await service.survey(at)), fork_id(at.token.id, at.token.slot)
    for place, one in enumerate(found):
        if one.id == own and any(counts.get(Status.WAITING.value) for counts in one.counts.values()):
            some, _ = await find_branches(service, at.run_id, own, 0, WAITING_TOLD, {Status.WAITING})
            found[place] = replace(one, some_waiting=tuple(branch.token for branch in some))
    return found


async def find_branches(
    service: Service, run_id: str, fork: str, first: int, limit: int, statuses: Collection[Status] = ()
) -> tuple[list[Standing], int | None]:
    """Finds branches with one of these statuses from `first` on, and where to continue (None at the end).

    Reads a limited number of branches, found or not. Raises NotFound.
    """
    found: list[Standing] = []
    is_paused = bool(statuses) and (await service.header(run_id)).paused_ms > 0
    until = first + (BRANCHES_LOOKED_AT if statuses else limit)
    while first < until:
        read = await service.branches(run_id, fork, first, min(PAGE_ITEMS_MAX, until - first))
        for at in read:
            branch = at.token.branch
            if branch is None or (statuses and branch_status(at, is_paused=is_paused) not in statuses):
                continue
            found.append(at)
            if len(found) == limit:
                return found, branch.index + 1 if branch.index + 1 < branch.total else None
        last = read[-1].token.branch if read else None
        if last is None or last.index + 1 >= last.total:
            return found, None
        first = last.index + 1
    return found, first
