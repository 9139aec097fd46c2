"""The inputs of the runs that a definition's schedules start, and what is wrong with them before any fires."""

from __future__ import annotations

import time
from collections.abc import Iterator

from stepwell.definition.graph import Graph, Json, ScheduleTrigger
from stepwell.definition.timetable import parse_schedule
from stepwell.engine.names import iso
from stepwell.engine.records import RunInfo
from stepwell.engine.routing import violations
from stepwell.errors import ExpressionError, InvalidInput, Problem
from stepwell.runtime.starts.places import gathering_key


def input_at(trigger: ScheduleTrigger, at_ms: int) -> Json:
    """Returns the input of the run that a definition's schedule starts at this time. Raises ExpressionError."""
    event: Json = {"schedule": trigger.name, "scheduled_at": iso(at_ms)}
    return event if trigger.input is None else trigger.input.evaluate({"event": event, "now": iso(at_ms)})


def schedule_problems(graph: Graph, file: str) -> list[Problem]:
    """Returns what is wrong with a workflow's schedules: an error for a key, a warning for one that is over."""
    now_ms = time.time_ns() // 1_000_000
    return [one for trigger in graph.schedules for one in _problems(graph, trigger, now_ms, file)]


def _problems(graph: Graph, trigger: ScheduleTrigger, now_ms: int, file: str) -> Iterator[Problem]:
    if parse_schedule(trigger.expression, trigger.timezone).after(now_ms, now_ms) is None:  # good once, with a year
        hint = "write * for the year, or one to come"
        yield Problem("bad_schedule", f"the schedule {trigger.expression} never fires again", "/triggers", hint, file,
                      severity="warning", workflow=graph.name)  # fmt: skip
    try:
        given = input_at(trigger, now_ms)
        if graph.input_schema is not None and (found := graph.input_schema.problems(given)):
            message = f"no firing of the schedule {trigger.expression} starts a run: input_schema: {violations(found)}"
            hint = "give the trigger an `input` that the schema allows; `event` has `schedule` and `scheduled_at`"
            yield Problem("unfit_schedule", message, "/triggers", hint, file, severity="warning", workflow=graph.name)
        gathering_key(graph, RunInfo("", graph.name, graph.version, given, now_ms))
    except InvalidInput as refused:
        hint = "give the trigger an `input` that has the key"
        yield Problem("bad_key", f"no firing of the schedule {trigger.expression} starts a run: {refused.message}",
                      "/triggers", hint, file, workflow=graph.name)  # fmt: skip
    except ExpressionError:
        return  # its input cannot be computed now, and may be then
