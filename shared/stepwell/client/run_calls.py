"""The calls of the HTTP API on one run, one function each, which takes the run's id first."""

from __future__ import annotations

from operator import itemgetter
from typing import Any, TypedDict
from uuid import uuid4

import httpx
from typing_extensions import Unpack

from stepwell.client.errors import JsonObject
from stepwell.client.requests import Page, Request, event, filled, get, keyed, listed, object_of, once, part, post
from stepwell.limits import WAIT_ANSWER_SECONDS


def view(run_id: str) -> Request[JsonObject]:
    """Shows the run: its status, steps, waits, result or error."""
    return get(_run(run_id))


def status(run_id: str) -> Request[str]:
    """Returns the run's status."""
    return view(run_id).then(lambda found: str(found["status"]))


def explain(run_id: str) -> Request[JsonObject]:
    """Explains why the run is in its state, and what will wake it."""
    return get(_run(run_id, "explain"))


def graph(run_id: str, form: str = "mermaid") -> Request[str]:
    """Draws the run: `svg`, `mermaid`, `dot` or `json`."""
    return Request("GET", _run(run_id, "graph"), lambda answer: answer.text, {"format": form})


def history(run_id: str, *, after: str = "", token: str = "", phases: bool = False) -> Request[Page]:
    """Lists the history, oldest first. `token`: of one branch. `phases`: the changes of phase too."""
    return listed(_run(run_id, "history"), after=after, token=token, phases="true" if phases else "")


def output(run_id: str, *, after: str = "") -> Request[JsonObject]:
    """Reads what the run's steps emitted in the last hour: `items`, and the `next_cursor` to go on `after`."""
    return get(_run(run_id, "output"), after=after)


def logs(run_id: str, *, since: str = "") -> Request[Page]:
    """Lists what the run's steps logged and printed. `since`: logged at or after this time, in RFC 3339."""
    return listed(_run(run_id, "logs"), since=since)


def export(run_id: str) -> Request[Page]:
    """Lists what a replay reads, line by line."""
    return listed(_run(run_id, "export"))


def branches(run_id: str, *, fork: str = "", status: str = "") -> Request[Page]:
    """Lists the branches of a fork. A page may have fewer than asked for, if there is a status."""
    return listed(_run(run_id, "branches"), status=status, fork=fork)


def query_answer(run_id: str, name: str) -> Request[JsonObject]:
    """Calls a query handler of a durable function; returns the whole answer."""
    return get(_run(run_id, "queries", name))


def send_update(
    run_id: str,
    name: str,
    given: Any = None,
    *,
    id: str | None = None,  # noqa: A002 - the API's own word
    wait: float = WAIT_ANSWER_SECONDS,
) -> Request[JsonObject]:
    """Sends an update; returns its answer, or `pending` when the time is up."""
    body = {"input": given, "id": once(id, "update's id") or str(uuid4())}
    return post(_run(run_id, "updates", name), body, repeatable=True, query={"wait": wait})


def update_answer(run_id: str, name: str, update_id: str) -> Request[JsonObject]:
    """Waits for the answer to an update that was sent; returns it, or `pending` when the time is up."""
    return Request("GET", _run(run_id, "updates", name, update_id), object_of, {"wait": WAIT_ANSWER_SECONDS})


def signal(run_id: str, name: str, payload: Any = None, *, id: str | None = None) -> Request[JsonObject]:  # noqa: A002 - as above
    """Sends an event to this run alone."""
    return event(_run(run_id, "events"), name, payload, {}, id)


def approve(run_id: str, data: Any = None, *, by: str = "", wait: str = "") -> Request[JsonObject]:
    """Approves. `wait`: the node, if the run waits for several approvals."""
    return post(_run(run_id, "approve"), {"data": data, **filled({"by": by, "wait": wait})})


def reject(run_id: str, reason: str = "", *, by: str = "", wait: str = "") -> Request[JsonObject]:
    """Rejects. `wait`: the node, if the run waits for several approvals."""
    return post(_run(run_id, "reject"), {"reason": reason, **filled({"by": by, "wait": wait})})


def delegate(run_id: str, to: str, *, by: str = "", wait: str = "") -> Request[JsonObject]:
    """Has another person asked for the approval."""
    return post(_run(run_id, "delegate"), {"to": to, **filled({"by": by, "wait": wait})})


def cancel(run_id: str, reason: str = "", *, by: str = "") -> Request[JsonObject]:
    """Cancels the run. `cancelled` is false if it had ended."""
    return post(_run(run_id, "cancel"), {"reason": reason, **filled({"by": by})}, repeatable=True)


def terminate(run_id: str, reason: str = "", *, by: str = "") -> Request[JsonObject]:
    """Ends the run now, without compensation. `terminated` is false if it had ended."""
    return post(_run(run_id, "terminate"), {"reason": reason, **filled({"by": by})}, repeatable=True)


def delete(run_id: str, *, force: bool = False) -> Request[JsonObject]:
    """Deletes the run, its child runs and all their data. `force`: terminates those that have not ended.

    The counts are None if the run was gone when the call was sent again.
    """
    gone = {"run_id": run_id, "deleted_runs": None, "deleted_items": None}
    return Request("DELETE", _run(run_id), object_of, {"force": "true"} if force else {}, gone=gone)


def pause(run_id: str, reason: str = "", *, by: str = "") -> Request[JsonObject]:
    """Stops the run before its next step."""
    return post(_run(run_id, "pause"), {"reason": reason, **filled({"by": by})}, repeatable=True)


def unpause(run_id: str, *, by: str = "") -> Request[JsonObject]:
    """Has a paused run go on."""
    return post(_run(run_id, "unpause"), filled({"by": by}))


def redrive(run_id: str, since: str = "", *, version: str = "", by: str = "") -> Request[JsonObject]:
    """Goes on from where the run failed, or from the step `since`, as a new run, which is returned."""
    body = filled({"from": since, "version": version, "by": by})
    return post(_run(run_id, "redrive"), body, repeatable=True)


def redrive_foretold(run_id: str, since: str = "", *, version: str = "") -> Request[JsonObject]:
    """Returns what such a redrive would keep and run again. Nothing is done."""
    body = {**filled({"from": since, "version": version}), "dry_run": True}
    return post(_run(run_id, "redrive"), body, repeatable=True)


class ForkOptions(TypedDict, total=False):
    """What is other in a fork of a run."""

    input: Any
    state: JsonObject  # names to set
    result: Any  # of the step in that slot, which does not run
    workflow: str
    version: str
    by: str


def fork(run_id: str, at: int, *, key: str | None = None, **changes: Unpack[ForkOptions]) -> Request[JsonObject]:
    """Goes on from the slot `at`, as a new run with changes, which is returned. Equal calls without `key` make one run.

    `key`: the Idempotency-Key.
    """
    return post(_run(run_id, "fork"), {"at": at, **changes}, repeatable=True, headers=keyed(once(key, "key")))


def foretell(run_id: str, at: int, **changes: Unpack[ForkOptions]) -> Request[JsonObject]:
    """Returns the way that such a fork would take, as far as the run's log has the results. Nothing is done."""
    return post(_run(run_id, "fork"), {"at": at, "dry_run": True, **changes}, repeatable=True)


def rerun(run_id: str, *, key: str | None = None, version: str = "") -> Request[JsonObject]:
    """Starts the run anew, with the same input and tags. `key`: the Idempotency-Key; without one, each call has one."""
    headers = keyed(once(key, "key") or str(uuid4()))
    return post(_run(run_id, "rerun"), filled({"version": version}), repeatable=True, headers=headers)


def begin(run_id: str, *, by: str = "") -> Request[JsonObject]:
    """Starts an idle run."""
    return post(_run(run_id, "start"), filled({"by": by}))


def result_answer(run_id: str, wait: float, until: float | None = None) -> Request[tuple[JsonObject, bool]]:
    """Asks for the result, and whether the run has ended. Raises RunFailed if it ended without one."""
    asked = Request("GET", _run(run_id, "result"), object_of, {"wait": wait}, until=until)
    return asked.reading(lambda answer: (object_of(answer), answer.status_code == httpx.codes.OK))


def value_answer(run_id: str, path: str, within: JsonObject) -> Request[Any]:
    """Asks for one value of the run. `within`: of what, if it is not of the run's view."""
    asked = Request("GET", _run(run_id, "value"), object_of, {"path": path, **filled(within)})
    return asked.then(itemgetter("value"))


def route_answer(link: str) -> Request[Any]:
    """Asks for a value at the route that an answer gives in its place."""
    name = "value" if "/value?" in link else "result"
    return Request("GET", link, object_of).then(itemgetter(name))


def linked(url: str) -> Request[Any]:
    """Reads a large result from the link that the API gave for it."""
    return Request("GET", url, lambda answer: answer.json(), is_open=True)


def _run(run_id: str, *parts: str) -> str:
    return "/".join(("/runs", *(part(one) for one in (run_id, *parts))))
