"""The options of a run that a test starts, checked as the API checks a call's body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from stepwell.definition.text import closest
from stepwell.errors import UserError
from stepwell.runtime.starts.starting import Start

_KINDS: Mapping[str, tuple[type, str]] = {
    "run_id": (str, "text"),
    "key": (str, "text"),
    "version": (str, "text"),
    "tags": (dict, 'a dict of text, such as {"team": "shop"}'),
    "priority": (int, "a whole number"),
    "start_at_ms": (int, "milliseconds since 1970, a whole number"),
    "create_only": (bool, "True or False"),
}


def check_start(given: object, options: Mapping[str, object]) -> None:
    """Raises UserError for an input or an option that no call of the API could have."""
    odd = next((key for key in given if not isinstance(key, str)), None) if isinstance(given, dict) else None
    if odd is not None:
        hint = "the names of JSON are text"
        raise UserError(f"the input has the key {odd!r}, which is no text", code="not_storable", hint=hint)
    known = [one.name for one in fields(Start)][2:]  # without the workflow and its input
    for name, value in options.items():
        if name not in known:
            hint = closest(name, known) or f"it has {', '.join(known)}"
            raise UserError(f"a start has no option {name!r}", code="bad_value", hint=hint)
        if value is None and name == "priority":
            continue
        kind, told = _KINDS.get(name, (object, ""))
        if not _is_a(kind, value) or (name == "tags" and not _is_text(value)):
            raise UserError(f"{name} of a start cannot be {value!r}", code="bad_value", hint=f"give {told}")


def _is_a(kind: type, value: object) -> bool:
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _is_text(tags: Any) -> bool:
    return all(isinstance(one, str) for pair in tags.items() for one in pair)
