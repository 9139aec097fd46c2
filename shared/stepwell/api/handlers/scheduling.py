"""Handlers of schedules: list, pause and fire all of them, create and delete those outside definitions."""

from __future__ import annotations

from stepwell.api.exchange import Answer, Call, Route
from stepwell.api.handlers.asking import page_of_all
from stepwell.api.handlers.starting import shown
from stepwell.api.requests import EndBody, FireBody, NoQuery, ScheduleBody, StartIdleBody, WholeListQueryString
from stepwell.api.schedules import schedule_view
from stepwell.runtime.loop.pauses import stopping
from stepwell.runtime.ports import Schedule


async def list_schedules(call: Call) -> Answer:
    asked = call.asked(WholeListQueryString)
    now_ms, scheduling = call.parts.ports.clock.now_ms(), call.parts.scheduling
    found = await scheduling.all()
    pauses = await call.parts.workflow_pauses.all() if found else {}
    views = []
    for known in found:
        pause = stopping(pauses, known.schedule.workflow)
        views.append(schedule_view(known, now_ms, await scheduling.trouble(known), pause))
    return page_of_all(views, asked)


async def create_schedule(call: Call) -> Answer:
    call.asked(NoQuery)
    body = call.body(ScheduleBody)
    schedule = Schedule(
        name=body.name,
        workflow=body.workflow,
        expression=body.schedule,
        timezone=body.timezone,
        input=body.input,
        overlap=body.overlap,
        catch_up_ms=body.catch_up,
        version=body.version,
    )
    made, is_new = await call.parts.scheduling.create(schedule)
    return Answer(201 if is_new else 200, schedule_view(made, call.parts.ports.clock.now_ms()))


async def delete_schedule(call: Call) -> Answer:
    call.asked(NoQuery)
    await call.parts.scheduling.remove(call.path["name"])
    return Answer(204, "")


async def pause_schedule(call: Call) -> Answer:
    call.asked(NoQuery)
    body = call.body(EndBody)
    known, before = await call.parts.scheduling.pause(call.path["name"], body.reason, call.who(body.by))
    return Answer(200, {**schedule_view(known, call.parts.ports.clock.now_ms()), "paused_before": before})


async def unpause_schedule(call: Call) -> Answer:
    call.asked(NoQuery)
    call.body(StartIdleBody)
    known = await call.parts.scheduling.unpause(call.path["name"])
    return Answer(200, schedule_view(known, call.parts.ports.clock.now_ms()))


async def fire_schedule(call: Call) -> Answer:
    call.asked(NoQuery)
    at_ms = call.body(FireBody).at
    started = await call.parts.triggers.fire_now(call.path["name"], 0 if at_ms is None else max(at_ms, 1))
    return await shown(call, started.header.run_id, 201 if started.created else 200)


_UNKNOWN = {404: "no such schedule"}
SCHEDULING_ROUTES = (
    Route("GET", "/schedules", list_schedules, "List the schedules", {200: "all of them, by name, or a page"},
          "SchedulePage", query=WholeListQueryString),
    Route("POST", "/schedules", create_schedule, "Create a schedule that starts runs of a workflow",
          {201: "created", 200: "it exists, with the same body", 404: "no such workflow or version",
           409: "the name is another schedule's, or there are too many"}, "ScheduleView", ScheduleBody),
    Route("DELETE", "/schedules/{name}", delete_schedule, "Delete a schedule; its runs continue",
          {204: "deleted", 409: "the schedule belongs to a definition", **_UNKNOWN}),
    Route("POST", "/schedules/{name}/pause", pause_schedule, "Have a schedule start no runs until its pause is ended",
          {200: "it is paused, now or before", **_UNKNOWN}, "SchedulePausedView", EndBody),
    Route("POST", "/schedules/{name}/unpause", unpause_schedule, "End the pause of a schedule",
          {200: "it fires at its next time", 409: "it is not paused", **_UNKNOWN}, "ScheduleView", StartIdleBody),
    Route("POST", "/schedules/{name}/fire", fire_schedule, "Start a schedule's run now, or for a time that has passed",
          {201: "the run is created", 200: "the run of that time is there already", 409: "it was deleted", **_UNKNOWN},
          "RunView", FireBody),
)  # fmt: skip
