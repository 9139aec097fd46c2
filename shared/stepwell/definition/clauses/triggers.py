"""Compiles `triggers:` of any format: the events and the schedules that start a run of the workflow."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.compiled import Expression
from stepwell.definition.formats.common import Context, check_name
from stepwell.definition.graph import EventTrigger, Json, ScheduleTrigger
from stepwell.definition.timetable import parse_schedule
from stepwell.errors import ExpressionError, UserError
from stepwell.limits import TRIGGERS

SCOPE = frozenset({"event", "now"})  # before the run exists there is no input or state to read
DEFAULT_TIMEZONE = "UTC"
DEFAULT_OVERLAP = "skip"
_SOME_TIME = "2026-01-05T02:30:00.000Z"  # of a firing

_KEYS = {
    "event": ("key", "match", "input"),
    "schedule": ("timezone", "overlap", "catch_up", "input"),
}

Triggers = tuple[tuple[EventTrigger, ...], tuple[ScheduleTrigger, ...]]


def triggers_of(context: Context, document: Mapping[str, Json]) -> Triggers:
    """Compiles triggers in the order of the definition, in which an event is matched."""
    events: list[EventTrigger] = []
    schedules: list[ScheduleTrigger] = []
    written = document.get("triggers", ())
    if len(written) > TRIGGERS:
        hint = f"at most {TRIGGERS}: one with `match` may stand for several"
        context.add("too_many_triggers", f"the workflow has {len(written)} triggers", "/triggers", hint)
    if written and document.get("internal"):
        context.add("conflict", "an internal workflow has no triggers", "/triggers", "only another run can start it")
    for at, data in enumerate(written):
        path = f"/triggers/{at}"
        if data is None or not _is_one(context, data, path):
            continue
        if "event" in data:
            events.append(_event(context, data, path))
        else:
            name = f"{document.get('workflow', '')}:{len(schedules) + 1}"
            schedules.append(_schedule(context, data, path, name))
    return tuple(events), tuple(schedules)


def _is_one(context: Context, data: Mapping[str, Json], path: str) -> bool:
    kinds = [kind for kind in _KEYS if kind in data]
    if len(kinds) != 1:
        message = "a trigger has `event` or `schedule`, not both" if kinds else "`event` or `schedule` is missing"
        hint = 'write {event: order.created}, or {schedule: "cron(0 9 * * ? *)"}'
        context.add("conflict" if kinds else "missing_key", message, path, hint)
        return False
    for key in data:
        if key != kinds[0] and key not in _KEYS[kinds[0]]:
            message = f"`{key}` means nothing to a trigger of kind `{kinds[0]}`"
            context.add("misplaced_key", message, f"{path}/{key}", "remove it")
    return True


def _event(context: Context, data: Mapping[str, Json], path: str) -> EventTrigger:
    check_name(context, data["event"], f"{path}/event", "event")
    match = context.condition(data, "match", path)
    _check_scope(context, match, f"{path}/match")
    return EventTrigger(
        event=data["event"],
        key=_template(context, data, "key", path),
        match=match,
        input=_template(context, data, "input", path),
    )


def _schedule(context: Context, data: Mapping[str, Json], path: str, name: str) -> ScheduleTrigger:
    timezone = data.get("timezone", DEFAULT_TIMEZONE)
    try:
        parse_schedule(data["schedule"], timezone)
    except UserError as error:
        context.add_error(error, f"{path}/{'timezone' if error.code == 'bad_timezone' else 'schedule'}")
    given = _template(context, data, "input", path)
    if given is not None and given.names <= SCOPE:
        _try(context, given, name, f"{path}/input")
    return ScheduleTrigger(
        name=name,
        expression=data["schedule"],
        timezone=timezone,
        input=given,
        overlap=data.get("overlap", DEFAULT_OVERLAP),
        catch_up_ms=context.duration_ms(data, "catch_up", path),
    )


def _try(context: Context, given: Expression, name: str, path: str) -> None:
    """Warns of an input that a firing could not compute: it would start nothing, and nobody would see that."""
    try:
        given.evaluate({"event": {"schedule": name, "scheduled_at": _SOME_TIME}, "now": _SOME_TIME})
    except ExpressionError as error:
        hint = "the `event` of a schedule has `schedule` and `scheduled_at`"
        context.add(error.code, f"a firing cannot compute this: {error.message}", path, hint, severity="warning")


def _template(context: Context, data: Mapping[str, Json], key: str, path: str) -> Expression | None:
    made = context.template(data, key, path)
    _check_scope(context, made, f"{path}/{key}")
    return made


def _check_scope(context: Context, made: Expression | None, path: str) -> None:
    for name in sorted(made.names - SCOPE) if made is not None else ():
        message = f"`{name}` does not exist before the run"
        context.add("unknown_name", message, path, "a trigger reads `event` and `now`")
