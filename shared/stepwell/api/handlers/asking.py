"""Handlers that read runs: lists, one run, its history, explanation and picture."""

from __future__ import annotations

from functools import partial
from typing import cast

from pydantic import Field

from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.failures import FAILED, FailuresQueryString, failures_of
from stepwell.api.large import fitted, fitted_entry, fitting, result_of
from stepwell.api.requests import (
    PRINTABLE,
    BranchesQueryString,
    ExportQueryString,
    GraphQueryString,
    HistoryQueryString,
    NoQuery,
    Query,
    RunQueryString,
    RunsQueryString,
    WholeListQueryString,
)
from stepwell.api.runs.branches import find_branches, read_branches, read_forks
from stepwell.api.runs.children import child_runs, made_of, page_of, read_statuses
from stepwell.api.runs.entered import states_entered
from stepwell.api.runs.explain import explain
from stepwell.api.runs.explained_approvals import by_credentials
from stepwell.api.runs.flows import read_drawn
from stepwell.api.runs.histories import last_entry, read_history
from stepwell.api.runs.moments import StateQueryString, state_view
from stepwell.api.runs.pending_updates import with_updates
from stepwell.api.runs.ran import words_of
from stepwell.api.runs.rollbacks import node_not_undone
from stepwell.api.runs.states import error_of, fork_at
from stepwell.api.runs.views import RunView, run_summary, view_of
from stepwell.api.runs.vocabulary import MACHINE, in_words_of
from stepwell.api.runs.waiting import shown_to
from stepwell.definition.graph import END, Json
from stepwell.engine.entries import entry_json
from stepwell.engine.names import iso
from stepwell.engine.records import Status
from stepwell.errors import InvalidInput
from stepwell.limits import ANSWERED_BYTES, PAGE_ITEMS_MAX
from stepwell.runtime.calls.exporting import read_export
from stepwell.runtime.calls.keyed import keyed_ids
from stepwell.runtime.calls.moments import as_of
from stepwell.runtime.ports.headers import RunQuery
from stepwell.runtime.stores.answers import encode_cursor

_MEDIA = {"svg": "image/svg+xml", "mermaid": "text/plain; charset=utf-8", "dot": "text/plain; charset=utf-8"}


async def list_runs(call: Call) -> Answer:
    asked = call.asked(RunsQueryString)
    _check_list(asked)
    query = RunQuery(
        workflow=asked.workflow,
        statuses=frozenset(asked.status) or (FAILED if asked.failure else frozenset()),
        tag=tag_of(asked.tag),
        since_ms=asked.since or 0,
        waiting_for=frozenset(asked.waiting_for),
        failure=asked.failure,
        overdue_at_ms=call.parts.ports.clock.now_ms() if asked.overdue else None,
        by_deadline=bool(asked.sort),
        limit=asked.limit,
        cursor=asked.cursor or ("" if asked.before is None else encode_cursor(asked.before, "")),
    )
    service = call.parts.service
    if asked.key:
        page = await page_of(service, await keyed_ids(service.ports, asked.workflow, asked.key), query)
    elif asked.origin:
        page = await made_of(service, asked.origin, query)
    elif asked.parent:
        page = await child_runs(service, asked.parent, query)
    else:
        page = await service.runs(query)
    now_ms = call.parts.ports.clock.now_ms()
    current = call.parts.catalog.current
    return paged([run_summary(one, now_ms, current.get(one.workflow)) for one in page.headers], page.next_cursor)


async def list_failures(call: Call) -> Answer:
    asked = call.asked(FailuresQueryString)
    query = RunQuery(asked.workflow, FAILED, since_ms=asked.since or 0, limit=asked.limit, cursor=asked.cursor)
    service = call.parts.service
    page = await service.runs(query)
    return paged([*await failures_of(service, page.headers)], page.next_cursor)


async def get_run(call: Call) -> Answer:
    words = call.asked(RunQueryString).as_
    service = call.parts.service
    at = await service.standing(call.path["run_id"])
    view = await view_of(service, at, shown_to(call.identity, call.parts.links))
    if not words:
        return Answer(200, fitted(at.run_id, view))
    fitting_view = cast("RunView", fitted(at.run_id, view, ANSWERED_BYTES // 2))  # an agent's variables are said twice
    told = in_words_of(words, fitting_view, at)
    return Answer(200, {**told, "states_entered": await states_entered(service, at)} if words == MACHINE else told)


class OutputQueryString(Query):
    after: str = Field("", description="next_cursor of the call before", json_schema_extra=PRINTABLE)
    limit: int = Field(PAGE_ITEMS_MAX, ge=1, le=PAGE_ITEMS_MAX)


async def get_output(call: Call) -> Answer:
    """Lists what the run's steps emit as they run. `next_cursor` is that of the last: there may be more at any time."""
    query = call.asked(OutputQueryString)
    found = await call.parts.service.output(call.path["run_id"], query.after, query.limit)
    items = [
        {
            "cursor": one.cursor,
            "at": iso(one.at_ms),
            "token": one.token,
            "step": one.step,
            "attempt": one.attempt,
            "first": one.is_first,
            "data": one.data,
        }
        for one in found
    ]
    return Answer(200, {"items": items, "next_cursor": found[-1].cursor if found else query.after or None})


async def get_history(call: Call) -> Answer:
    asked = call.asked(HistoryQueryString)
    if asked.after and asked.cursor:
        raise InvalidInput("`after` and `cursor` say the same; send one", code="two_cursors")
    after = asked.after or asked.cursor
    page = await read_history(
        call.parts.service, call.path["run_id"], after, asked.limit, token=asked.token, phases=asked.phases
    )
    entries, is_cut = fitting([entry_json(entry) for entry in page.entries], partial(fitted_entry, call.path["run_id"]))
    return paged([*entries], str(entries[-1]["id"]) if page.more or is_cut else "")


async def get_state(call: Call) -> Answer:
    """Answers with the run as one record left it, and with what that record changed."""
    asked = call.asked(StateQueryString)
    service = call.parts.service
    at = await service.standing(call.path["run_id"])
    before, after = await as_of((await service.narrator(at.run_id)).logbook, at, asked.at)
    return Answer(200, fitted(at.run_id, state_view(before, after, at.token.slot), at=after.token.slot))


async def get_export(call: Call) -> Answer:
    """Answers with raw records, for `stepwell replay`."""
    asked = call.asked(ExportQueryString)
    service = call.parts.service
    page = await read_export(service.ports, await service.header(call.path["run_id"]), asked.cursor, asked.limit)
    return paged([*page.items], page.next_cursor)


async def get_query(call: Call) -> Answer:
    """Answers a query of a durable function, without writing."""
    call.asked(NoQuery)
    run_id, name = call.path["run_id"], call.path["name"]
    value = await result_of(run_id, await call.parts.service.query(run_id, name), call.parts.ports.blobs)
    return Answer(200, {"run_id": run_id, "name": name, "value": value})


async def list_branches(call: Call) -> Answer:
    asked = call.asked(BranchesQueryString)
    service = call.parts.service
    found, following = await find_branches(
        service, call.path["run_id"], asked.fork, asked.cursor, asked.limit, frozenset(asked.status)
    )
    run_id = call.path["run_id"]
    views, is_cut = fitting(
        await read_branches(service, found), lambda branch: fitted(run_id, branch, token=str(branch["id"]))
    )
    if is_cut:
        following = views[-1]["index"] + 1
    return paged([*views], "" if following is None else str(following))


async def get_explanation(call: Call) -> Answer:
    call.asked(NoQuery)
    service = call.parts.service
    at = await service.standing(call.path["run_id"])
    last = await last_entry(service, at)
    statuses = await read_statuses(service, at)
    pause = None if at.token.ended else await call.parts.workflow_pauses.of(at.run.workflow)
    forks = () if at.branches or fork_at(at.token) is None else await read_forks(service, at)  # too many for its log
    explanation = explain(at, call.parts.ports.clock.now_ms(), last, statuses, pause, forks)
    explanation = await with_updates(explanation, call.parts.ports)
    if call.identity.name:
        for waker in explanation["wakers"]:
            waker["detail"] = by_credentials(waker["detail"])
    if explanation["last_entry"]:
        ((explanation["last_entry"],), _) = fitting([explanation["last_entry"]], partial(fitted_entry, at.run_id))
    return Answer(200, explanation)


async def get_graph(call: Call) -> Answer:
    """Answers with the run's graph and the status of each node."""
    form = call.asked(GraphQueryString).format
    service = call.parts.service
    at = await service.standing(call.path["run_id"])
    drawn = await read_drawn(service, at)
    if form == "json":
        return Answer(200, fitted(at.run_id, drawn.json(), graph=1))
    from stepwell.api.drawing import picture  # noqa: PLC0415 - 3% of a cold start, for this call alone

    shown = drawn.view if at.graph.replays and len(drawn.view["nodes"]) > 1 else at.graph
    words = words_of(drawn.steps) | dict.fromkeys(node_not_undone(at), "not undone")
    if (error := error_of(at.token)) is not None:
        words[END] = f"{error.type}: {error.message}"
    return Answer(200, picture.draw(form, shown, drawn.states, words, drawn.taken), _MEDIA[form])


def page_of_all(items: list[Json], asked: WholeListQueryString) -> Answer:
    """Answers with a page of a list that was read as a whole."""
    end = len(items) if asked.limit is None else asked.cursor + asked.limit
    return paged(items[asked.cursor : end], str(end) if end < len(items) else "")


def paged(items: list[Json], next_cursor: str) -> Answer:
    """Answers with a page of a list."""
    return Answer(200, {"items": items, "next_cursor": next_cursor or None})


def _check_list(asked: RunsQueryString) -> None:
    """Refuses what does not go together. Runs of a parent, an original or a key are read from what names them."""
    narrow = [name for name in ("parent", "origin", "key") if getattr(asked, name)]
    if "key" in asked.model_fields_set and not asked.key:
        raise InvalidInput("no run has an empty key", code="bad_filter", hint="leave `key` out to list all runs")
    if len(narrow) > 1:
        raise InvalidInput(
            f"`{narrow[0]}` and `{narrow[1]}` do not combine", code="bad_filter", hint="send one of them"
        )
    if asked.key and not asked.workflow:
        raise InvalidInput("a key is one of a workflow's", code="bad_filter", hint="send `workflow` too")
    if asked.before is not None and (beside := [*narrow, *(["sort"] if asked.sort else [])]):
        raise InvalidInput(f"`before` and `{beside[0]}` do not combine", code="bad_filter", hint="leave `before` out")
    if not asked.sort:
        return
    if narrow:
        raise InvalidInput(
            f"`sort` and `{narrow[0]}` do not combine: the store does not list such runs",
            code="bad_sort",
            hint="leave `sort` out, or list by `workflow` or `tag`",
        )
    if asked.status and Status.WAITING not in asked.status:
        raise InvalidInput(
            "`sort=waiting_until` lists waiting runs, and `status` leaves them out",
            code="bad_sort",
            hint="leave `status` out, or send status=waiting",
        )


def tag_of(text: str) -> tuple[str, str] | None:
    """Parses a filter by tag, `name=value`. Raises InvalidInput."""
    if not text:
        return None
    name, found, value = text.partition("=")
    if not found:
        name, found, value = text.partition(":")
    if not found or not name:
        raise InvalidInput(f"{text[:80]!r} is not a tag filter", code="bad_tag", hint="tag=name=value")
    return name, value


_RUN = {404: "no such run"}

ASKING_ROUTES = (
    Route("GET", "/runs", list_runs, "List runs, newest first or by deadline", {200: "a page"}, "RunPage",
          query=RunsQueryString),
    Route("GET", "/failures", list_failures,
          "Group failed runs by their error's fingerprint, those that failed most often first",
          {200: "the groups of a page of failed runs, the newest"}, "FailurePage", query=FailuresQueryString),
    Route("GET", "/runs/{run_id}", get_run, "Show a run",
          {200: "the run as its log has it (with `as=agent`, its keys are in camelCase)", **_RUN},
          "RunView|AgentRunView|MachineRunView", query=RunQueryString),
    Route("GET", "/runs/{run_id}/history", get_history, "List a run's history, oldest first", {200: "a page", **_RUN},
          "HistoryPage", query=HistoryQueryString),
    Route("GET", "/runs/{run_id}/output", get_output, "List what a run's steps emitted in the last hour, oldest first",
          {200: "what follows `after`; `next_cursor` is the `after` of the next call", **_RUN}, "OutputPage",
          query=OutputQueryString),
    Route("GET", "/runs/{run_id}/export", get_export,
          "Export a run for a replay: its facts, and the records of all its tokens", {200: "a page", **_RUN},
          "ExportPage", query=ExportQueryString),
    Route("GET", "/runs/{run_id}/queries/{name}", get_query, "Call a query handler of a durable function",
          {200: "what the query's handler returned", 404: "no such run, or it has no such query",
           409: "the run has not begun, is a graph's, or cannot answer: see `code`",
           501: "this API has no worker that can answer queries"}, "AnswerView"),
    Route("GET", "/runs/{run_id}/branches", list_branches, "List the branches of a fork, by index",
          {200: "a page; empty if the run is at no fork", 404: "no such run, or no such fork"}, "BranchPage",
          query=BranchesQueryString),
    Route("GET", "/runs/{run_id}/state", get_state,
          "Show the state of a run after any record of its log, and what that record changed",
          {200: "the state; `changes` are those of the record", **_RUN}, "StateView", query=StateQueryString),
    Route("GET", "/runs/{run_id}/explain", get_explanation, "Explain why a run is in its state",
          {200: "its waits, and what will wake it", **_RUN}, "Explanation"),
    Route("GET", "/runs/{run_id}/graph", get_graph, "Draw the workflow's graph, coloured by the run's history",
          {200: "the drawing, or nodes, edges and states as JSON", **_RUN}, "RunGraph", query=GraphQueryString,
          media="image/svg+xml"),
)  # fmt: skip
