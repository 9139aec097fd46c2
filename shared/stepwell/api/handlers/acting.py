"""Handlers that act on runs: end them, answer approvals, send events."""

from __future__ import annotations

import math
from collections.abc import Awaitable
from dataclasses import replace

from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.handlers.starting import key_of, shown
from stepwell.api.large import result_of
from stepwell.api.requests import (
    ApproveBody,
    DelegateBody,
    EndBody,
    EventBody,
    ForkBody,
    NoQuery,
    RedriveBody,
    RejectBody,
    RunEventBody,
    StartIdleBody,
    UpdateBody,
    UpdateWaitQuery,
)
from stepwell.api.runs.states import status_of
from stepwell.definition.graph import Json
from stepwell.engine.names import iso
from stepwell.errors import Conflict
from stepwell.runtime.calls.run_forks import RunFork
from stepwell.runtime.waits.sending import Sent

_KNOWN = ("your credentials say who you are here; `by`, or --by, does not. Somebody answers whom `approvers` names "
          "as the API knows its callers, or who has one of the links that POST /runs/{id}/links makes")  # fmt: skip


async def cancel_run(call: Call) -> Answer:
    call.asked(NoQuery)
    body = call.body(EndBody)
    done = await call.parts.service.cancel(call.path["run_id"], body.reason, call.told(body.by))
    return await _ended(call, "cancelled", done)


async def terminate_run(call: Call) -> Answer:
    call.asked(NoQuery)
    body = call.body(EndBody)
    done = await call.parts.service.terminate(call.path["run_id"], body.reason, call.told(body.by))
    return await _ended(call, "terminated", done)


async def pause_run(call: Call) -> Answer:
    call.asked(NoQuery)
    body = call.body(EndBody)
    before = await call.parts.service.pause(call.path["run_id"], body.reason, call.who(body.by))
    answer = await shown(call, call.path["run_id"], 200)
    return replace(answer, body={**answer.body, "paused_before": before})


async def unpause_run(call: Call) -> Answer:
    call.asked(NoQuery)
    call.body(StartIdleBody)
    await call.parts.service.unpause(call.path["run_id"])
    return await shown(call, call.path["run_id"], 200)


async def redrive_run(call: Call) -> Answer:
    call.asked(NoQuery)
    body = call.body(RedriveBody)
    run_id, who = call.path["run_id"], call.told(body.by)
    if body.dry_run:
        return Answer(200, await call.parts.service.redrive_foretold(run_id, body.from_, body.version))
    started = await call.parts.service.redrive(run_id, body.from_, body.version, who)
    answer = await shown(call, started.header.run_id, 201 if started.created else 200)
    return replace(answer, body={**answer.body, "dropped": [*started.dropped]})


async def fork_run(call: Call) -> Answer:
    call.asked(NoQuery)
    body = call.body(ForkBody)
    there = body.model_fields_set
    asked = RunFork(
        body.at,
        (body.input,) if "input" in there else (),
        body.state,
        (body.result,) if "result" in there else (),
        body.workflow,
        body.version,
        key_of(call),
        call.told(body.by),
    )
    service = call.parts.service
    old = await service.header(call.path["run_id"])
    if body.dry_run:
        return Answer(200, await service.forker.foretold(old, asked))
    started = await service.forker.fork(old, asked)
    return await shown(call, started.header.run_id, 201 if started.created else 200)


async def _ended(call: Call, word: str, done: bool) -> Answer:
    run_id = call.path["run_id"]
    at = await call.parts.service.standing(run_id)
    return Answer(200, {"run_id": run_id, word: done, "status": status_of(at).value})


async def approve(call: Call) -> Answer:
    call.asked(NoQuery)
    body = call.body(ApproveBody)
    who, named = call.who(body.by), call.also_named(body.by)
    return await _given(call, call.parts.service.approve(call.path["run_id"], body.data, who, body.wait, named))


async def reject(call: Call) -> Answer:
    call.asked(NoQuery)
    body = call.body(RejectBody)
    who, named = call.who(body.by), call.also_named(body.by)
    return await _given(call, call.parts.service.reject(call.path["run_id"], body.reason, who, body.wait, named))


async def delegate(call: Call) -> Answer:
    call.asked(NoQuery)
    body = call.body(DelegateBody)
    return await _given(call, call.parts.service.delegate(call.path["run_id"], call.who(body.by), body.to, body.wait))


async def _given(call: Call, giving: Awaitable[None]) -> Answer:
    """Raises Conflict: of a caller whom the credentials name, with a hint that does not ask for another `by`."""
    try:
        await giving
    except Conflict as refused:
        if refused.code == "not_an_approver" and call.identity.name:
            raise Conflict(refused.message, code=refused.code, hint=_KNOWN) from refused
        raise
    return await shown(call, call.path["run_id"], 200)


async def send_run_event(call: Call) -> Answer:
    call.asked(NoQuery)
    body = call.body(RunEventBody)
    run_id = call.path["run_id"]
    return _sent(await call.parts.service.send(body.name, body.payload, run_id=run_id, event_id=body.id, counts=True))


async def send_event(call: Call) -> Answer:
    call.asked(NoQuery)
    body = call.body(EventBody)
    return _sent(await call.parts.service.send(body.name, body.payload, key=body.key, event_id=body.id, counts=True))


def _sent(sent: Sent) -> Answer:
    kept_until = iso(sent.kept_until_ms) if sent.kept_until_ms else None
    return Answer(202, {"event_id": sent.id, "duplicate": not sent.is_new, "waits": sent.waits,
                        "starts": list(sent.starts), "kept_until": kept_until})  # fmt: skip


async def send_update(call: Call) -> Answer:
    wait, body = call.asked(UpdateWaitQuery).wait, call.body(UpdateBody)
    run_id, name = call.path["run_id"], call.path["name"]
    return await _updated(call, await call.parts.service.update(run_id, name, body.input, body.id), wait)


async def get_update(call: Call) -> Answer:
    return await _updated(call, call.path["update_id"], call.asked(UpdateWaitQuery).wait)


async def _updated(call: Call, update_id: str, wait: float) -> Answer:
    run_id, name = call.path["run_id"], call.path["name"]
    found = await call.parts.service.update_answer(run_id, update_id, math.ceil(wait * 1000))
    update: dict[str, Json] = {"run_id": run_id, "name": name, "update_id": update_id, "pending": found is None}
    if found is None:
        return Answer(202, {**update, "output": None, "error": None}, headers={"Retry-After": "1"})
    output = await result_of(run_id, found.output, call.parts.ports.blobs)
    return Answer(200, {**update, "output": output, "error": None if found.error is None else {**found.error}})


_RUN = {404: "no such run"}

ACTING_ROUTES = (
    Route("POST", "/runs/{run_id}/cancel", cancel_run, "Cancel a run",
          {200: "`cancelled` is false if the run had already ended", 409: "the run compensates; only terminate ends it",
           **_RUN}, "EndedView", EndBody),
    Route("POST", "/runs/{run_id}/terminate", terminate_run, "End a run now, without compensation",
          {200: "`terminated` is false if the run had already ended", **_RUN}, "EndedView", EndBody),
    Route("POST", "/runs/{run_id}/pause", pause_run, "Stop a run before its next step",
          {200: "it is paused, now or before", 409: "the run has ended, compensates, or was not started", **_RUN},
          "PausedView", EndBody),
    Route("POST", "/runs/{run_id}/unpause", unpause_run, "Have a paused run go on",
          {200: "it goes on, unless its workflow is paused", 409: "not paused, or by its workflow's pause", **_RUN},
          "RunView", StartIdleBody),
    Route("POST", "/runs/{run_id}/redrive", redrive_run, "Go on from where an ended run failed, as a new run",
          {201: "the new run", 200: "the run that an earlier call made, or with `dry_run` what the new run would keep",
           404: "no such run, workflow or version",
           409: "the run has not ended, completed, was compensated, or failed where it cannot go on: see `code`",
           422: "the run did not come to the step `from`"}, "RedrivenView|RedriveView", RedriveBody),
    Route("POST", "/runs/{run_id}/fork", fork_run, "Go on from any slot of a run, as a new run with changes",
          {201: "the new run",
           200: "the run that the same call made, or with `dry_run` the way that the new run would take",
           404: "no such run, workflow or version", 409: "the run was compensated, or cannot go on there: see `code`",
           422: "the run has no such slot, or the change means nothing there"}, "RunView|ForetoldView", ForkBody,
          headers={"Idempotency-Key": "calls with different keys make different runs, else equal calls make one"}),
    Route("POST", "/runs/{run_id}/approve", approve, "Approve the approval that a run waits for",
          {200: "approved", 409: "the run waits for no approval", **_RUN}, "RunView", ApproveBody),
    Route("POST", "/runs/{run_id}/reject", reject, "Reject the approval that a run waits for",
          {200: "rejected", 409: "the run waits for no approval", **_RUN}, "RunView", RejectBody),
    Route("POST", "/runs/{run_id}/delegate", delegate, "Delegate an approval to another person",
          {200: "delegated", 403: "`by` is not an approver", 409: "the run waits for no approval", **_RUN}, "RunView",
          DelegateBody),
    Route("POST", "/runs/{run_id}/events", send_run_event, "Send an event to one run",
          {202: "accepted", 409: "the run has ended", **_RUN}, "SentView", RunEventBody),
    Route("POST", "/events", send_event, "Send an event to the waits for its name and key, now or later",
          {202: "accepted"}, "SentView", EventBody),
    Route("POST", "/runs/{run_id}/updates/{name}", send_update,
          "Call an update handler of a durable function, when it waits",
          {200: "applied: `output` is the handler's result, `error` its error", 202: "pending",
           409: "the run has ended, or is a graph's: see `code`", **_RUN}, "UpdateView", UpdateBody,
          query=UpdateWaitQuery),
    Route("GET", "/runs/{run_id}/updates/{name}/{update_id}", get_update, "Show the answer of an update",
          {200: "applied: `output` is the handler's result, `error` its error", 202: "pending",
           404: "no such run, or it has no such update", 409: "the run ended before the update"}, "UpdateView",
          query=UpdateWaitQuery),
)  # fmt: skip
