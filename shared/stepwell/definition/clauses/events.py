"""Compiles `events:`, the settings of events by name, and finds conflicts between definitions of a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

from stepwell.definition.durations import show_duration
from stepwell.definition.event_names import OWN_EVENTS, OWN_PREFIXES, is_own
from stepwell.definition.formats.common import Context, check_name
from stepwell.definition.graph import EventSettings, Json
from stepwell.definition.text import pointer_part
from stepwell.definition.wait_schemas import SCHEMAS
from stepwell.errors import Problem
from stepwell.limits import EVENT_KEPT_MAX_MS
from stepwell.values import dataclass

MOST_PLACES = 100  # reported for one folder: more than anybody reads

# `consume_on_read` for the kinds of delivery that determine it.
_CONSUMES = {"first": True, "broadcast": False}


@dataclass(frozen=True, slots=True)
class Setting:
    """One definition's settings of one event, and the problem to report if another definition differs."""

    event: str
    settings: EventSettings
    differs: Problem


def events_of(context: Context, document: Mapping[str, Json]) -> dict[str, EventSettings]:
    """Compiles the settings by event name."""
    made = {}
    for name, data in document.get("events", {}).items():
        path = f"/events/{pointer_part(name)}"
        _check_event(context, name, path)
        made[name] = _settings(context, data, path)
    return made


def settings_at(events: Mapping[str, EventSettings]) -> tuple[Setting, ...]:
    """Returns the settings with their places, for comparison with other definitions."""
    hint = "they hold for all workflows: write the same in all, or keep them in one definition"

    def differs(name: str) -> Problem:
        message = f"the settings of the event `{name}` differ from those in"
        return Problem("event_settings_differ", message, f"/events/{pointer_part(name)}", hint)

    return tuple(Setting(name, settings, differs(name)) for name, settings in events.items())


def differing_settings(told: Mapping[str, tuple[Setting, ...]]) -> dict[str, tuple[Problem, ...]]:
    """Returns conflicts with other workflows by workflow, at most MOST_PLACES each."""
    said: dict[str, dict[EventSettings, str]] = {}  # for each event, its settings and the first workflow with them
    for workflow, settings in told.items():
        for one in settings:
            said.setdefault(one.event, {}).setdefault(one.settings, workflow)

    def problem(one: Setting) -> Problem | None:
        other = next((workflow for settings, workflow in said[one.event].items() if settings != one.settings), None)
        return None if other is None else replace(one.differs, message=f"{one.differs.message} `{other}`")

    found = {workflow: [problem(one) for one in settings] for workflow, settings in told.items()}
    return {
        workflow: tuple(islice((one for one in several if one is not None), MOST_PLACES))
        for workflow, several in found.items()
    }


def _check_event(context: Context, name: str, path: str) -> None:
    if not check_name(context, name, path, "event"):
        return
    if is_own(name):
        message = f"only Stepwell itself sends `{name}`"
        hint = f"names that begin with {' or '.join(OWN_PREFIXES)}, and {', '.join(sorted(OWN_EVENTS))}, are its own"
        context.add("reserved_event", message, path, hint)
    elif name == SCHEMAS["callback"].event:
        message = f"`{name}` takes no settings: each callback has its own URL and one waiter"
        context.add("reserved_event", message, path, "remove it")


def _settings(context: Context, data: Mapping[str, Json], path: str) -> EventSettings:
    default = EventSettings()
    delivery = data.get("delivery", default.delivery)
    consumes = data.get("consume_on_read", _CONSUMES.get(delivery, default.consume_on_read))
    if consumes != _CONSUMES.get(delivery, consumes):
        one = "every waiter gets it" if delivery == "broadcast" else "the oldest waiter alone gets it"
        message = f"`delivery: {delivery}` means that {one}: it contradicts `consume_on_read: {str(consumes).lower()}`"
        context.add("conflict", message, f"{path}/consume_on_read", "keep one of the two")
    expire_after_ms = context.duration_ms(data, "expire_after", path)
    if expire_after_ms is not None and expire_after_ms > EVENT_KEPT_MAX_MS:
        message = f"`expire_after` of {show_duration(expire_after_ms)} is over the maximum"
        hint = f"at most {show_duration(EVENT_KEPT_MAX_MS)}"
        context.add("bad_value", message, f"{path}/expire_after", hint)
    return EventSettings(
        consume_on_read=consumes,
        delivery=delivery,
        expire_after_ms=default.expire_after_ms if expire_after_ms is None else expire_after_ms,
        max_pending=data.get("max_pending", default.max_pending),
    )
