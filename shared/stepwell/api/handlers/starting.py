"""Handlers that start runs."""

from __future__ import annotations

import math
from dataclasses import replace

from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.requests import NoQuery, RerunBody, StartBody, StartIdleBody, WaitQuery
from stepwell.api.runs.views import RunView, read_run, view_of
from stepwell.errors import InvalidInput
from stepwell.limits import KEY_CHARACTERS, YEAR_MS
from stepwell.runtime.starts.admission import check_run_id
from stepwell.runtime.starts.starting import Signal, Start

KEY_HEADER = "idempotency-key"


async def start_run(call: Call) -> Answer:
    """Creates a run, or finds the run of the same key or id; optionally waits for its end."""
    wait = call.asked(WaitQuery).wait
    body = call.body(StartBody)
    _check(body, call.parts.ports.clock.now_ms())
    service = call.parts.service
    request = Start(
        workflow=call.path["name"],
        input=body.input,
        run_id=body.run_id or "",
        key=key_of(call),
        tags=body.tags or {},
        priority=body.priority,
        start_at_ms=body.start_at or 0,
        version=body.version,
        create_only=body.create_only,
        trace=call.headers.get("traceparent", ""),
        event=Signal(body.event.name, body.event.payload, body.event.id) if body.event else None,
    )
    started = await service.start(request)
    run_id = started.header.run_id
    if wait > 0 and not body.create_only:
        await service.wait_for_end(run_id, math.ceil(wait * 1000))
        at = await service.standing(run_id)
    else:
        at = await service.begun(started)
    answer = _answer(await view_of(service, at), 201 if started.created else 200)
    return replace(answer, body={**answer.body, "folded": started.folded, "warnings": [*started.warnings]})


async def start_idle_run(call: Call) -> Answer:
    call.asked(NoQuery)
    await call.parts.service.start_idle(call.path["run_id"], call.told(call.body(StartIdleBody).by))
    return await shown(call, call.path["run_id"], 200)


async def rerun_run(call: Call) -> Answer:
    """Starts a run anew, or finds the run that an earlier call of the same key started."""
    call.asked(NoQuery)
    version = call.body(RerunBody).version
    started = await call.parts.service.rerun(call.path["run_id"], key_of(call), version)
    return await shown(call, started.header.run_id, 201 if started.created else 200)


async def shown(call: Call, run_id: str, status: int) -> Answer:
    """Answers with the run's current view."""
    return _answer(await read_run(call.parts.service, run_id), status)


def _answer(view: RunView, status: int) -> Answer:
    headers = {"Location": view["links"]["self"]} if status == 201 else {}
    return Answer(status, view, headers=headers)


def _check(body: StartBody, now_ms: int) -> None:
    if body.run_id is not None:
        check_run_id(body.run_id)  # checked here too, because the service treats an empty id as none
    if body.start_at is not None and body.start_at > now_ms + YEAR_MS:
        raise InvalidInput("start_at is more than a year ahead", code="too_far_ahead",
                           hint="start the run later, or from a schedule")  # fmt: skip


def key_of(call: Call) -> str:
    """Returns the call's Idempotency-Key. Raises InvalidInput."""
    key = call.headers.get(KEY_HEADER, "").strip()
    if not key and KEY_HEADER in call.headers:
        raise InvalidInput("the Idempotency-Key is empty: it would make no call repeatable", code="bad_key",
                           hint="send the key, or no such header")  # fmt: skip
    if not (key.isascii() and key.isprintable()):  # what one server reads as UTF-8, another reads as Latin-1
        raise InvalidInput("the Idempotency-Key has characters that an HTTP header cannot carry", code="bad_key",
                           hint="take printable ASCII characters, for example a hash of it")  # fmt: skip
    if len(key) > KEY_CHARACTERS:
        raise InvalidInput(f"the Idempotency-Key has more than {KEY_CHARACTERS} characters", code="bad_key",
                           hint="take a hash of it")  # fmt: skip
    return key


STARTING_ROUTES = (
    Route("POST", "/workflows/{name}/runs", start_run, "Start a run",
          {201: "the run was created",
           200: "the earlier run of the same key or id; with `event`, the run that got it; with `folded`, the run "
                "that the start became part of (`debounce`, `batch`)", 404: "no such workflow or version",
           409: "the key or id was used with another body; with `event`, the run has ended"}, shape="StartedView",
          body=StartBody, query=WaitQuery,
          headers={"Idempotency-Key": "repeated calls with the same key and body start one run",
                   "traceparent": "the trace that the run belongs to, kept with it (W3C trace context)"}),
    Route("POST", "/runs/{run_id}/rerun", rerun_run, "Start a run anew, with the same input and tags",
          {201: "the new run", 200: "the earlier run of the same key",
           404: "no such run, or its workflow is not deployed",
           409: "the key was used with another body, or the workflow is internal"}, shape="RunView", body=RerunBody,
          headers={"Idempotency-Key": "repeated calls with the same key start one run"}),
    Route("POST", "/runs/{run_id}/start", start_idle_run, "Start an idle run",
          {200: "started", 404: "no such run", 409: "the run is not idle"}, shape="RunView", body=StartIdleBody),
)  # fmt: skip
