"""The calls of the HTTP API, one function each; those on one run are in `run_calls`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Required, TypedDict
from urllib.parse import unquote
from uuid import uuid4

import httpx
from typing_extensions import Unpack

from stepwell.client.errors import JsonObject
from stepwell.client.requests import (
    Moment,
    Page,
    Request,
    event,
    filled,
    get,
    headed,
    is_carried,
    keyed,
    listed,
    moment,
    object_of,
    object_with,
    once,
    part,
    post,
    several,
    tagged,
)
from stepwell.definition.webhook_schemes import ID_HEADERS, MARK_HEADERS
from stepwell.errors import UserError
from stepwell.limits import PAGE_ITEMS_MAX


class EventOptions(TypedDict, total=False):
    """An event that a start brings."""

    name: Required[str]
    payload: Any
    id: str  # an event of the same id is taken once


class StartOptions(TypedDict, total=False):
    """What a start can say beside its input."""

    id: str | None  # the run's id; a second start with it gets the first run
    key: str | None  # the Idempotency-Key; without an id or a key, each start has a new one
    tags: Mapping[str, str]
    priority: int
    start_at: Moment  # not before this time
    version: str  # latest, pin, its hash or the beginning of it, its number, or an alias
    create_only: bool  # leaves the run idle until `begin`
    trace: str  # the caller's `traceparent`: the run's spans belong to that trace
    event: EventOptions  # with an id: the run that is started gets it, or the one that runs already


class BatchOptions(TypedDict, total=False):
    """How a batch acts."""

    rate: float  # runs a second; 0: as fast as they go
    canary: bool  # redrives 1, then 10, then the rest; stops if one fails as before
    dry_run: bool  # counts the runs, and does nothing
    force: bool  # purge: terminates runs that have not ended, which are refused else
    reason: str
    by: str


def start(workflow: str, given: Any = None, **options: Unpack[StartOptions]) -> Request[tuple[JsonObject, bool]]:
    """Starts a run. False: the key or id was used before, and this is the earlier run."""
    run_id, trace = once(options.pop("id", None), "run's id"), options.pop("trace", "")
    key = once(options.pop("key", None), "key") or ("" if run_id else str(uuid4()))
    body: JsonObject = {"input": given, **({"run_id": run_id} if run_id else {}), **options}
    if "start_at" in options:
        body["start_at"] = moment(options["start_at"])
    if isinstance(options.get("event"), Mapping):  # the API refuses another type
        body["event"] = {"id": str(uuid4()), **options["event"]}  # the same when the start is sent again
    path = f"/workflows/{part(workflow)}/runs"
    sent = post(path, body, repeatable=True, headers=keyed(key) | headed("traceparent", trace or "", "trace"))
    return sent.reading(lambda answer: (object_with(answer, "run_id"), answer.status_code == httpx.codes.CREATED))


def runs(
    *,
    workflow: str = "",
    status: str | Sequence[str] = (),
    tag: str | Mapping[str, str] = "",
    since: Moment = "",
    before: Moment = "",
    waiting_for: str | Sequence[str] = (),
    failure: str = "",
    parent: str = "",
    origin: str = "",
    key: str = "",
    overdue: bool = False,
    sort: str = "",
) -> Request[Page]:
    """Lists runs, newest first. `tag`: "team=shop", or {"team": "shop"}.

    `since`: created at or after this time. `before`: created before this time.

    `origin`: made of this run. `key`: the Idempotency-Key of a start.

    `sort`: `waiting_until` lists the runs that wait, by their deadlines.
    """
    return listed(
        "/runs",
        workflow=workflow,
        status=several(status, "status"),
        tag=tagged(tag),
        since=moment(since),
        before=moment(before),
        waiting_for=several(waiting_for, "waiting_for"),
        failure=failure,
        parent=parent,
        origin=origin,
        key=key,
        overdue="true" if overdue else "",
        sort=sort,
    )


def failures(*, workflow: str = "", since: Moment = "") -> Request[Page]:
    """Groups failed runs by their error's fingerprint, page by page of failed runs, the newest first."""
    return listed("/failures", workflow=workflow, since=moment(since))


def batch(
    action: str,
    *,
    workflow: str | None = None,
    status: str | Sequence[str] | None = None,
    tag: str | Mapping[str, str] | None = None,
    since: Moment | None = None,
    before: Moment | None = None,
    failure: str | None = None,
    key: str | None = None,
    **options: Unpack[BatchOptions],
) -> Request[JsonObject]:
    """Acts on all runs of a filter: cancel, terminate, pause, unpause, redrive or purge. Returns the run that does it.

    `tag`: "team=shop", or {"team": "shop"}.
    `key`: the Idempotency-Key; without one, each call has one.

    Raises UserError for a part of the filter that is empty, such as tag="": without it, other runs would match too.
    """
    chosen = {
        "workflow": workflow,
        "status": None if status is None else several(status, "status"),
        "tag": None if tag is None else tagged(tag),
        "since": None if since is None else moment(since),
        "before": None if before is None else moment(before),
        "failure": failure,
    }
    chosen = {name: value for name, value in chosen.items() if value is not None}
    if (empty := next((name for name, value in chosen.items() if not value), None)) is not None:
        raise UserError(f"the filter's `{empty}` is empty, so it would leave no run out", code="empty_filter",
                        hint="give it a value, or leave it out if all runs are meant")  # fmt: skip
    body = {"filter": chosen, "action": action, **options}
    return post("/runs:batch", body, repeatable=True, headers=keyed(once(key, "key") or str(uuid4())))


def recover(*, all: bool = False, cursor: str = "") -> Request[JsonObject]:  # noqa: A002 - the API's word
    """Wakes runs that stand still; `all`: arms every open run again. Call again with `next_cursor` until it is None."""
    return post("/recover", {**filled({"cursor": cursor}), **({"all": True} if all else {})}, repeatable=True)


def dead_letters() -> Request[list[JsonObject]]:
    """Lists messages that nobody could take, and why: some, if they are more than 500."""
    return listed("/dlq", limit=PAGE_ITEMS_MAX).then(attrgetter("items"))


def dead_letter(letter_id: str) -> Request[JsonObject]:
    """Shows one of them."""
    return get(f"/dlq/{part(letter_id)}")


def redrive_dead_letters(ids: str | Sequence[str] = ()) -> Request[JsonObject]:
    """Sends dead letters back to their queues; without ids, all of them.

    A deployed API sends up to 500 of them: if `sent` and `left` of the answer are not empty, call again.
    """
    return post("/dlq:redrive", _letters(ids) or {"all": True}, repeatable=True)


def delete_dead_letters(ids: str | Sequence[str] = ()) -> Request[JsonObject]:
    """Deletes dead letters; without ids, all that cannot be read."""
    return post("/dlq:delete", _letters(ids) or {"unreadable": True}, repeatable=True)


def _letters(ids: str | Sequence[str]) -> JsonObject:
    """The chosen dead letters; {} for all. An empty text is none: a caller's empty variable must not mean all."""
    chosen = several(once(ids, "id") if isinstance(ids, str) else ids, "ids")
    return {"ids": chosen} if chosen else {}


def workflows() -> Request[list[JsonObject]]:
    """Lists the workflows that are deployed."""
    return listed("/workflows").then(attrgetter("items"))


def workflow(name: str) -> Request[JsonObject]:
    """Shows a workflow: its definition and its graph."""
    return get(f"/workflows/{part(name)}")


def versions(workflow: str, *, most: int = 0) -> Request[JsonObject]:
    """The workflow's versions: the deployed one, those with open runs, and those with an alias."""
    return Request("GET", f"/workflows/{part(workflow)}/versions", object_of, {"most": str(most)} if most else {})


def alias(workflow: str, name: str, version: str = "") -> Request[JsonObject]:
    """Has an alias name a version: its hash, its number, another alias, or by default the deployed one."""
    return post(
        f"/workflows/{part(workflow)}/aliases", {"alias": name, **filled({"version": version})}, repeatable=True
    )


def delete_alias(workflow: str, name: str) -> Request[None]:
    """Deletes an alias."""
    return Request("DELETE", f"/workflows/{part(workflow)}/aliases/{part(name)}", lambda answer: None)


def pause_workflow(workflow: str = "", reason: str = "", *, by: str = "") -> Request[JsonObject]:
    """Stops the workflow's runs before their next step; without a name, those of all workflows."""
    body = {"reason": reason, **filled({"by": by})}
    return post(_paused(workflow, "pause"), body, repeatable=True)


def unpause_workflow(workflow: str = "", *, by: str = "") -> Request[JsonObject]:
    """Has the runs of a paused workflow go on; without a name, ends the pause of all workflows."""
    return post(_paused(workflow, "unpause"), filled({"by": by}))


def _paused(workflow: str, verb: str) -> str:
    return f"/workflows/{part(workflow)}/{verb}" if workflow else f"/workflows:{verb}"


def send_event(name: str, payload: Any = None, *, key: str = "", id: str | None = None) -> Request[JsonObject]:  # noqa: A002 - the API's own word
    """Sends an event to the runs that wait for its name and key, now or later."""
    return event("/events", name, payload, {"key": key} if key else {}, id)


def stats(*, costs: bool = False) -> Request[JsonObject]:
    """Counts runs by status, workflow and wait. `costs`: with what the newest ended runs of each workflow cost."""
    return get("/stats", costs="true" if costs else "")


def health() -> Request[JsonObject]:
    """Shows the version, and whether everything that the API needs can be reached."""
    return Request("GET", "/health", lambda answer: object_with(answer, "version", "dependencies"))


def limits() -> Request[list[JsonObject]]:
    """Lists the limits of steps and of runs."""
    return listed("/limits").then(attrgetter("items"))


def limit(name: str, *, key: str = "", of: str = "", cursor: str = "") -> Request[JsonObject]:
    """Shows who holds the permits of a limit, and a page of those who wait. `of`: steps or runs."""
    return get(f"/limits/{part(name)}", key=key, of=of, cursor=cursor)


def schedules() -> Request[list[JsonObject]]:
    """Lists the schedules."""
    return listed("/schedules").then(attrgetter("items"))


def create_schedule(
    name: str,
    workflow: str,
    schedule: str,
    *,
    given: Any = None,
    timezone: str = "UTC",
    overlap: str = "skip",
    catch_up: str | float | None = None,
    version: str = "",
) -> Request[JsonObject]:
    """Creates a schedule: `cron(0 9 * * ? *)`, `rate(5 minutes)`, or five fields of a crontab.

    `catch_up`: how late a time is made up for, such as `1h`, or in seconds; None: the last one, however late.
    """
    body = {"name": name, "workflow": workflow, "schedule": schedule, "timezone": timezone, "overlap": overlap}
    body |= filled({"version": version}) | ({} if catch_up is None else {"catch_up": catch_up})
    return post("/schedules", body | ({} if given is None else {"input": given}), repeatable=True)


def pause_schedule(name: str, reason: str = "", *, by: str = "") -> Request[JsonObject]:
    """Has a schedule start no runs until its pause is ended. Times that pass meanwhile are not made up for."""
    return post(f"/schedules/{part(name)}/pause", {"reason": reason, **filled({"by": by})}, repeatable=True)


def unpause_schedule(name: str, *, by: str = "") -> Request[JsonObject]:
    """Ends the pause of a schedule."""
    return post(f"/schedules/{part(name)}/unpause", filled({"by": by}))


def fire_schedule(name: str, at: str = "") -> Request[JsonObject]:
    """Starts a schedule's run now, or for a time that has passed; if the run of that time is there, returns that."""
    return post(f"/schedules/{part(name)}/fire", filled({"at": at}), repeatable=bool(at))


def delete_schedule(name: str) -> Request[None]:
    """Deletes a schedule that was created by a call."""
    return Request("DELETE", f"/schedules/{part(name)}", lambda answer: None)


def deliveries(*, source: str = "", since: Moment = "") -> Request[Page]:
    """Lists the stored webhook deliveries, newest first."""
    return listed("/deliveries", source=source, since=moment(since))


def replay_delivery(source: str, delivery: str, *, again: bool = False) -> Request[JsonObject]:
    """Maps a stored delivery again. `again`: even if it became an event or a run."""
    return post("/deliveries:replay", {"source": source, "delivery": delivery, "again": again})


def deliver(source: str, content: bytes, headers: Mapping[str, str], query: str = "") -> Request[JsonObject]:
    """Sends a signed webhook; returns the id of its event or run, or the answered challenge.

    `duplicate` and `ignored` are present if true. Raises UserError for a header that HTTP cannot carry.
    """
    for name, value in headers.items():  # the message leaves out the value, which may be a secret
        if not (is_carried(value) and is_carried(name) and name):
            raise UserError(f"the header {name!r} has characters that HTTP cannot carry", code="bad_header",
                            hint="give it in printable ASCII characters, without line breaks")  # fmt: skip
    path = f"/webhooks/{part(source)}" + (f"?{query}" if query else "")
    return Request("POST", path, _delivered, content=content, headers=headers, repeatable=False, is_open=True)


def _delivered(answer: httpx.Response) -> JsonObject:
    if answer.headers.get("content-type", "").startswith("application/json"):
        return object_of(answer)
    made = {what: unquote(answer.headers[header]) for what, header in ID_HEADERS.items() if header in answer.headers}
    return {**made, **{mark: True for mark, header in MARK_HEADERS.items() if header in answer.headers}}


def at(request: Request[Page], limit: int, cursor: str) -> Request[Page]:
    """The same list from another place. A cursor includes where the first page began."""
    kept = {name: value for name, value in request.query.items() if name != "after" or not cursor}
    return replace(request, query=kept | {"limit": limit} | ({"cursor": cursor} if cursor else {}))
