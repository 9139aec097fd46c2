"""The options of the operations of `ctx`: all that each takes by name alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stepwell.definition.text import STEP_OPTIONS, closest

_MANY = ("name", "max_concurrency", "return_exceptions", "tolerate")

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "all": _MANY,
    "approval": ("approvers", "need", "timeout"),
    "callback": ("name", "timeout", "heartbeat", "type"),
    "child": ("timeout", "type", "detached"),
    "event": ("key", "match", "timeout", "type"),
    "first": ("name",),
    "limit": ("key",),
    "lock": (),
    "map": _MANY,  # and those of `step`, for each item
    "run": ("name", "retry", "timeout", "at_most_once"),
    "send": ("key", "run"),
    "sleep": (),
    "start": ("name",),
    "step": STEP_OPTIONS,
    "timer": (),
    "transact": ("name",),
    "until": ("timeout",),
}
PARAMETERS: Mapping[str, tuple[str, ...]] = {  # what may also be given by name
    "approval": ("type", "data"),
    "child": ("workflow",),
    "event": ("name",),
    "limit": ("name",),
    "map": ("function", "items"),
    "run": ("function",),
    "send": ("name", "payload"),
    "sleep": ("duration",),
    "start": ("awaited",),
    "step": ("function",),
    "timer": ("duration",),
    "transact": ("writes",),
    "until": ("condition",),
}
MAP_OPTIONS = tuple(dict.fromkeys((*_MANY, *STEP_OPTIONS)))


def meant(names: Collection[str], options: Collection[str]) -> str:
    """Returns a hint for the first of these names that is close to an option; "" if none is."""
    guesses = (closest(name, options) for name in names)
    return next((guess for guess in guesses if guess.startswith("did")), "")
