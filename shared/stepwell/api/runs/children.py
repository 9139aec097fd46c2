"""The API's view of child runs: those that a run's steps started, in the latest visit of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from typing_extensions import TypedDict

from stepwell.api.graphs import detached_by
from stepwell.api.runs.states import waiting_tokens
from stepwell.engine.children import id_of
from stepwell.engine.entries import Entry
from stepwell.engine.token import StepView, Token
from stepwell.errors import InvalidInput
from stepwell.limits import CHILD_STATUSES
from stepwell.runtime.calls.kin import kin_ids
from stepwell.runtime.calls.service import Service
from stepwell.runtime.calls.survey import Surveyed
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.ports.headers import FORK, REDRIVE, Header, RunPage, RunQuery
from stepwell.runtime.starts.starting import Caller
from stepwell.runtime.stores.answers import fits

OF_BRANCHES = 100  # children of the branches of a graph's forks that are shown

_ID = re.compile(r"run_[0-9a-f]{26}")  # of a run that another one started
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


def child_views(at: Standing, statuses: Statuses, forks: Sequence[Surveyed] = ()) -> list[ChildView]:
    """Returns the children of this token's steps, of a DAG's steps, and of what a durable function does in branches.

    Of those that the branches of a graph's forks started, it has the first OF_BRANCHES.
    """
    found = [one for token in _tokens(at, forks) for one in children_of(at, token, statuses)]
    in_branches = (one for token in _in_branches(at, forks) for one in children_of(at, token, statuses))
    found += islice(in_branches, OF_BRANCHES)
    waited = {one["run_id"] for one in found if not one["detached"]}  # whose id a later step may return
    return [one for one in found if not one["detached"] or one["run_id"] not in waited]


def _tokens(at: Standing, forks: Sequence[Surveyed]) -> list[Token]:
    return [at.token, *(at.branches if at.graph.dependencies else _operations(forks))]


def _operations(forks: Sequence[Surveyed]) -> Iterator[Token]:
    for fork in forks:
        if fork.fork.is_awaited:
            yield from fork.branches
            yield from _operations(fork.inner)


def _in_branches(at: Standing, forks: Sequence[Surveyed]) -> Iterator[Token]:
    """Yields the branches that were read of a graph's forks, without the steps of a DAG, which are branches too."""
    for fork in forks:
        if not fork.fork.is_awaited and not fork.fork.needs:
            yield from fork.branches
        yield from _in_branches(at, fork.inner)


def children_of(at: Standing, token: Token, statuses: Statuses) -> Iterator[ChildView]:
    """Yields the children that one token's steps have started."""
    for step, view in token.steps.items():
        for index, one in enumerate(view.children):
            run_id = id_of(one, at.run_id, token.id, view.called_slot, index)
            yield _child(one.name, one.workflow, run_id, step, statuses)
        workflow = _detached(at, step, view) or (step if _may_be_detached(view) and view.output in statuses else "")
        if workflow:
            yield _child(step, workflow, view.output, step, statuses, detached=True)


def waited_for(at: Standing, token: Token, statuses: Statuses) -> list[ChildView]:
    """Returns the children that this token waits for."""
    if token.parked is None or not token.parked.children:
        return []
    return [one for one in children_of(at, token, statuses) if one["step"] == token.node and not one["detached"]]


async def read_statuses(service: Service, *standings: Standing, forks: Sequence[Surveyed] = ()) -> Statuses:
    """Reads the status of the first 25 children from their headers, beginning with those of current waits.

    `forks`: of the one standing that is given. What may be a detached child of a function is read, and left out if
    neither the run started it nor one whose records it keeps.
    """
    waited = [one for at in standings for token in waiting_tokens(at) for one in waited_for(at, token, {})]
    others = [one for at in standings for one in child_views(at, {}, forks)]
    maybe = [str(view.output) for at in standings for token in _tokens(at, forks) for view in token.steps.values()
             if _may_be_detached(view)]  # fmt: skip
    wanted = list(dict.fromkeys([*(one["run_id"] for one in (*waited, *others)), *maybe]))[:CHILD_STATUSES]
    headers = [await service.ports.runs.get_run(run_id) for run_id in wanted]
    parents = {at.run_id for at in standings} | (await _origins(service, standings) if maybe else set())
    return {
        header.run_id: header.status.value
        for header in headers
        if header is not None and (header.run_id not in maybe or parent_id(header) in parents)
    }


async def _origins(service: Service, standings: Sequence[Standing]) -> set[str]:
    """Returns the ids of the runs whose records these runs keep, back through the latest of them."""
    found = set[str]()
    for header in {at.run_id: at.header for at in standings}.values():
        last: Header | None = header
        while last is not None and len(found) < CHILD_STATUSES:
            made, _, origin = last.origin.partition(":")
            if made not in (REDRIVE, FORK):
                break
            found.add(origin)
            last = await service.ports.runs.get_run(origin)
    return found


async def child_runs(service: Service, parent: str, query: RunQuery) -> RunPage:
    """Finds the runs that a run started, the newest first, of those that the query asks for.

    It reads the parent's history, which names them, and the header of each. That history leaves out the branches of
    forks wider than HISTORY_BRANCHES, and so does this. Raises NotFound.
    """
    await service.header(parent)
    found: dict[str, None] = {}
    async for entry in (await service.narrator(parent)).entries():
        found |= dict.fromkeys(started_by(entry))
    return await page_of(service, list(reversed(found)), query, lambda header: parent_id(header) == parent)


def parent_id(header: Header) -> str | None:
    """Returns the run that started this one."""
    caller = Caller.of(header)
    return caller.run_id if caller else None


async def made_of(service: Service, original: str, query: RunQuery) -> RunPage:
    """Finds the runs that were made of a run: redriven, run again, forked. Raises NotFound.

    It reads one partition, and the header of each.
    """
    await service.header(original)
    ids = await kin_ids(service.ports, original)
    return await page_of(service, ids, query, lambda header: header.origin.partition(":")[2] == original)


async def page_of(
    service: Service, ids: Sequence[str], query: RunQuery, is_listed: Callable[[Header], bool] = bool
) -> RunPage:
    """Reads the headers of these runs, in this order, for a page of those that the query asks for."""
    if query.cursor and query.cursor not in ids:
        raise InvalidInput("the cursor is of another list", code="bad_cursor", hint="pass next_cursor")
    headers: list[Header] = []
    for run_id in ids[ids.index(query.cursor) + 1 if query.cursor else 0 :]:
        header = await service.ports.runs.get_run(run_id)
        if header is None or not is_listed(header):
            continue
        if header.created_ms < query.since_ms or not fits(header, query):
            continue
        if len(headers) == query.limit:
            return RunPage(tuple(headers), headers[-1].run_id)
        headers.append(header)
    return RunPage(tuple(headers))


def started_by(entry: Entry) -> list[str]:
    """Returns the runs that an entry of a history names: child runs, and what may be the id of a detached one."""
    data = entry.data if isinstance(entry.data, dict) else {}
    if entry.type == "children.started":
        return [str(one["run_id"]) for one in data["children"]]
    output = data.get("output")
    is_id = entry.type == "step.completed" and isinstance(output, str) and output.startswith("run_")
    return [str(output)] if is_id else []


def _detached(at: Standing, step: str, view: StepView) -> str:
    """Returns the workflow of a detached run that a step has started."""
    node = at.graph.nodes.get(step)
    return detached_by(node.step) if node is not None and isinstance(view.output, str) else ""


def _may_be_detached(view: StepView) -> bool:
    """Tells whether a step may have started a detached child: the log of a function has no more of it than the id."""
    return isinstance(view.output, str) and _ID.fullmatch(view.output) is not None


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
