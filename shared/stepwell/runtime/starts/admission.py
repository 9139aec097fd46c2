"""Checks input: names, ids, keys, JSON. Each check raises InvalidInput with a code of its own."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from stepwell.definition.event_names import OWN_EVENTS, OWN_PREFIXES, is_own
from stepwell.definition.graph import Json
from stepwell.errors import InvalidInput
from stepwell.limits import JSON_DEPTH, KEY_CHARACTERS, NAME_CHARACTERS, TAGS

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*", re.ASCII)
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*", re.ASCII)
_PLACE = re.compile(r"[0-9]{1,19}", re.ASCII)  # more digits than any place has, and few enough for `int`
_LARGEST_INT = 2**63 - 1  # the largest integer of expressions, and of most readers of JSON


def check_name(name: str, what: str) -> None:
    """Checks a workflow, node or event name: letters, digits, `.`, `_`, `-`, `:`; nothing that could be a path."""
    if len(name) > NAME_CHARACTERS or not NAME.fullmatch(name) or ".." in name:
        hint = f"letters, digits and . _ - : are allowed, at most {NAME_CHARACTERS}, and no .."
        raise InvalidInput(f"{name[:80]!r} cannot be the {what}", code="bad_name", hint=hint)


def check_event_name(name: str) -> None:
    """Checks the name of an event from a caller: not one of those that Stepwell itself sends."""
    check_name(name, "event name")
    if is_own(name):
        hint = f"names that begin with {' or '.join(OWN_PREFIXES)}, and {', '.join(sorted(OWN_EVENTS))}, are its own"
        raise InvalidInput(f"only Stepwell itself sends {name!r}", code="reserved_event", hint=hint)


def check_run_id(run_id: str) -> None:
    """Checks a run id, which goes into keys and URLs."""
    if len(run_id) > NAME_CHARACTERS or not RUN_ID.fullmatch(run_id):
        hint = f"letters, digits, _ and - are allowed, at most {NAME_CHARACTERS}"
        raise InvalidInput(f"{run_id[:80]!r} cannot be a run id", code="bad_run_id", hint=hint)


def check_event_key(key: str, what: str = "an event's key or id") -> None:
    """Checks an event's key or id, or what is as free: any printable text within bounds."""
    if len(key) > KEY_CHARACTERS or not (key == "" or key.isprintable()):
        hint = f"printable characters, at most {KEY_CHARACTERS}"
        raise InvalidInput(f"that cannot be {what}", code="bad_key", hint=hint)


def place_in(text: str) -> int | None:
    """Reads a place in a list, from a cursor or a path; None for other text."""
    return int(text) if _PLACE.fullmatch(text) else None


def check_tags(tags: Mapping[str, str]) -> None:
    if len(tags) > TAGS:
        raise InvalidInput(f"a run has at most {TAGS} tags, not {len(tags)}", code="too_many_tags")
    for name, value in tags.items():
        check_name(name, "tag name")
        check_event_key(value, f"the value of the tag {name!r}")


def check_json(value: Json, what: str, depth: int = 0) -> None:
    """Checks that a value has finite numbers, storable text and bounded nesting, as every store and reader needs."""
    if depth > JSON_DEPTH:
        raise InvalidInput(f"the {what} is nested deeper than {JSON_DEPTH} levels", code="too_deep",
                           hint="flatten it, or send it as a string")  # fmt: skip
    match value:
        case dict():
            for key in value:
                if type(key) is not str or not key.isascii():
                    check_json(key, what, depth)
            _check_parts(value.values(), what, depth + 1)
        case list():
            _check_parts(value, what, depth + 1)
        case float() if not math.isfinite(value):
            raise InvalidInput(f"the {what} has a number that is not finite", code="not_finite", hint="use null")
        case int() if abs(value) > _LARGEST_INT:
            raise InvalidInput(f"the {what} has a number beyond 64 bits", code="number_too_large", hint="send a string")
        case str() if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            raise InvalidInput(f"the {what} has half a surrogate pair", code="bad_text",
                               hint="cut text between characters, not within one")  # fmt: skip
        case None | bool() | int() | float() | str():
            return
        case _:
            raise InvalidInput(f"the {what} has a {type(value).__name__}, which is not JSON", code="not_json")


def _check_parts(parts: Iterable[Json], what: str, depth: int) -> None:
    """Checks the parts of a list or an object; of plain text, which most are, without another call."""
    for part in parts:
        if type(part) is not str or depth > JSON_DEPTH or not part.isascii():
            check_json(part, what, depth)
