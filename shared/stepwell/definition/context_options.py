"""The options of the operations of `ctx`: all that each takes by name alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stepwell.definition.text import STEP_OPTIONS, closest

_MANY = ("name", "max_concurrency", "return_exceptions", "tolerate")

_METHODS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    # its name, what may be given by position or by name, what is given by name alone
    ("all", (), _MANY),
    ("approval", ("type", "data"), ("approvers", "need", "timeout")),
    ("callback", (), ("name", "timeout", "heartbeat", "type")),
    ("child", ("workflow",), ("timeout", "type", "detached")),
    ("event", ("name",), ("key", "match", "timeout", "type")),
    ("first", (), ("name",)),
    ("limit", ("name",), ("key",)),
    ("lock", (), ()),
    ("map", ("function", "items"), _MANY),  # and the options of `step`, for each item
    ("run", ("function",), ("name", "retry", "timeout", "at_most_once")),
    ("send", ("name", "payload"), ("key", "run")),
    ("sleep", ("duration",), ()),
    ("start", ("awaited",), ("name",)),
    ("step", ("function",), STEP_OPTIONS),
    ("timer", ("duration",), ()),
    ("transact", ("writes",), ("name",)),
    ("until", ("condition",), ("timeout",)),
)
OPTIONS: Mapping[str, tuple[str, ...]] = {name: options for name, _, options in _METHODS}
PARAMETERS: Mapping[str, tuple[str, ...]] = {name: parameters for name, parameters, _ in _METHODS}
MAP_OPTIONS = tuple(dict.fromkeys((*_MANY, *STEP_OPTIONS)))


def meant(names: Collection[str], options: Collection[str]) -> str:
    """Returns a hint for the first of these names that is close to an option; "" if none is."""
    guesses = (closest(name, options) for name in names)
    return next((guess for guess in guesses if guess.startswith("did")), "")
