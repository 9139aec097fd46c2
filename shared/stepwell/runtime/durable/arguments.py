"""Checks the arguments of `ctx` methods: names, limits, functions and workflows, where they are written."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, TypedDict

from stepwell.definition.authoring import WORKFLOW_MARK, Duration
from stepwell.definition.context_options import OPTIONS, meant
from stepwell.definition.context_values import (
    check_name,
    check_need,
    check_tolerate,
    late_heartbeat,
    wrong_need,
    wrong_step,
    wrong_tolerate,
)
from stepwell.definition.durations import parse_duration, show_duration
from stepwell.definition.event_names import OWN_PREFIX
from stepwell.definition.graph import Approvers, Json, Step, Throttle
from stepwell.engine.durable.turns import Given
from stepwell.errors import InvalidInput
from stepwell.limits import APPROVERS, FORK_WIDTH, YEAR_MS
from stepwell.runtime.durable.operations import closed, in_force, input_of, reader_of, result_reader, stored

# Patches, as a record has them; no names that users can give.
_HANDLER, _HEARTBEAT, _KEY = "stepwell:handler", "stepwell:heartbeat", "stepwell:key"
_NAME, _NEED, _STEP, _TOLERATE = "stepwell:name", "stepwell:need", "stepwell:step", "stepwell:tolerate"


def called(
    workflow: str | Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any], hint: Any
) -> tuple[Json, str, Callable[[Json], Any]]:
    """Returns a child run's input, its workflow's name, and the reader of its result. Raises InvalidInput."""
    if isinstance(workflow, str):
        if named or len(args) > 1:
            hint = meant(named, OPTIONS["child"]) or "give it as a dict, or give the workflow's function"
            raise InvalidInput(f"child run {workflow} takes one input", code="step_input", hint=hint)
        return stored(args[0] if args else None, f"the input of {workflow}"), checked_name(workflow), reader_of(hint)
    name = getattr(workflow, WORKFLOW_MARK, None)
    if name is None:
        hint = uncalled("child", workflow) or "mark it with @workflow, or name it"
        raise InvalidInput(f"{workflow!r} is no workflow", code="bad_value", hint=hint)
    return input_of(workflow, args, named, OPTIONS["child"]), name, reader_of(hint) if hint else result_reader(workflow)


@lru_cache(maxsize=1_024)
def reference(function: Callable[..., Any]) -> str:
    """Returns where a worker finds the function, as `python:MODULE.NAME`. Raises InvalidInput if it cannot."""
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if not is_of_module(function):
        raise InvalidInput(f"{function!r} cannot be a step", code="bad_step",
                           hint="a step is a function of a module, by its own name")  # fmt: skip
    if hasattr(function, WORKFLOW_MARK):
        raise InvalidInput(f"{name} is a workflow and no step", code="bad_step", hint="run it with ctx.child")
    return f"python:{module}.{name}"


def uncalled(operation: str, given: object) -> str:
    """Returns what to write in place of a coroutine that the operation got; "" for anything else."""
    name = closed(given)
    return f"give the function itself: ctx.{operation}({name}, …)" if name else ""


def step_of(function: Callable[..., Any]) -> tuple[Step, str]:
    """Returns the function's step, which each call copies, and its name. Raises InvalidInput for what is no step."""
    if not callable(function):
        hint = uncalled("step", function) or "give a function of a module, uncalled, and then its arguments"
        raise InvalidInput(f"{function!r:.80} cannot be a step", code="bad_step", hint=hint)
    return _step_of(function)


@lru_cache(maxsize=1_024)
def _step_of(function: Callable[..., Any]) -> tuple[Step, str]:
    own = getattr(getattr(function, "__stepwell__", None), "name", None)
    return Step(reference(function)), own or function.__name__


def is_of_module(function: Callable[..., Any]) -> bool:
    """Tells whether a worker can find the function by its module and name."""
    name = getattr(function, "__qualname__", "")
    return inspect.isroutine(function) and bool(getattr(function, "__module__", "")) and name.isidentifier()


class Tolerate(TypedDict, total=False):
    """How many of several operations may fail: a number, or a percentage."""

    count: int
    percent: float


def tolerated_of(tolerate: Tolerate | None, width: int, *, is_every: bool) -> int:
    """Returns how many of `width` operations may fail; all with `is_every`. Raises InvalidInput.

    Runs of earlier releases may have begun operations with a percentage above 100, or with a count and a percentage.
    """
    if is_every:
        return width
    given = check_tolerate(tolerate)
    error = wrong_tolerate(given)
    if error is not None and in_force(_TOLERATE):
        raise error
    return max(int(given.get("count", 0)), int(width * given.get("percent", 0) // 100))


def limit_ms_of(what: str, given: Duration | timedelta) -> int:
    """Returns the duration in ms. Raises InvalidInput above a year, UserError if it is no duration."""
    limit_ms = parse_duration(given.total_seconds() if isinstance(given, timedelta) else given)
    if limit_ms > YEAR_MS:
        raise InvalidInput(f"{show_duration(limit_ms)} is over the maximum of {what}: {show_duration(YEAR_MS)}",
                           code="timeout_too_long")  # fmt: skip
    return limit_ms


def time_left(until: datetime, now: datetime) -> timedelta:
    """Returns how long it is until a time, 0 if it has passed. Raises InvalidInput for a time without a zone."""
    if until.utcoffset() is None:
        hint = 'give it one: when.replace(tzinfo=UTC), or tzinfo=ZoneInfo("Europe/Madrid")'
        raise InvalidInput(f"the time {until.isoformat()} has no time zone", code="bad_value", hint=hint)
    return max(until - now, timedelta())


def timeout_ms_of(what: str, given: Duration | timedelta | None) -> int | None:
    """Returns a wait's time limit in ms; None if it has none. Raises as `limit_ms_of` does."""
    return None if given is None else limit_ms_of(what, given)


def check_heartbeat(beat_ms: int | None, limit_ms: int | None) -> None:
    """Raises InvalidInput for a heartbeat at once or after its wait. Runs of earlier releases may wait with one."""
    error = late_heartbeat(beat_ms, limit_ms)
    if error is not None and in_force(_HEARTBEAT):
        raise error


def check_step(at_most_once: object, pool: object = None, limit_ms: int | None = None) -> None:
    """Raises InvalidInput for a wrong option of a step. Runs of earlier releases may have begun such a step."""
    error = wrong_step(at_most_once, pool, limit_ms)
    if error is not None and in_force(_STEP):
        raise error


def check_width(awaited: Sequence[Awaitable[Any]], what: str) -> None:
    if len(awaited) > FORK_WIDTH:
        raise InvalidInput(f"`{what}` of {len(awaited)}; at most {FORK_WIDTH}", code="bad_value")
    for one in awaited:
        if not inspect.isawaitable(one):
            hint = f"write an asterisk: ctx.{what}(*…)" if isinstance(one, Iterable) else None
            raise InvalidInput(f"`{what}` takes what can be awaited, not {one!r:.80}", code="bad_value", hint=hint)


def event_name(name: str) -> str:
    """Returns a checked event name. Raises InvalidInput for a reserved name, such as that of a run's updates."""
    if checked_name(name).startswith(OWN_PREFIX):
        raise InvalidInput(f"nobody sends an event {name!r}", code="bad_name",
                           hint=f"names that begin with {OWN_PREFIX} are Stepwell's own")  # fmt: skip
    return name


def checked_name(name: str) -> str:
    return check_name(name)


def given_name(name: str | None) -> str:
    """Returns the checked name that an operation was given; "" for none. Raises InvalidInput.

    Runs of earlier releases may have taken 0, and all else that is false, for none.
    """
    if name:
        return check_name(name)
    return check_name(name) if name is not None and name != "" and in_force(_NAME) else ""


def check_handler_name(kind: str, name: object) -> None:
    """Raises InvalidInput for `@ctx.query` without a name: nothing would be registered, as in earlier releases."""
    if callable(name) and in_force(_HANDLER):
        raise InvalidInput(f"ctx.{kind} takes the name of the {kind}, not a function", code=f"bad_{kind}_handler",
                           hint=f'@ctx.{kind}("{getattr(name, "__name__", kind)}")')  # fmt: skip


def check_plain_key(what: str, *keys: object) -> None:
    """Raises InvalidInput for a dict or a list as a key. Earlier releases took its text, which fits no event."""
    for key in keys:
        if isinstance(key, Mapping | list | tuple | set) and in_force(_KEY):
            raise InvalidInput(f"{what} cannot be {key!r:.80}", code="bad_key", hint="give a text or a number of it")


def check_awaited_key(key: object) -> None:
    """Raises InvalidInput for a key that no event can have."""
    check_plain_key("the key of an event", key)
    if isinstance(key, str) and not key.isprintable() and in_force(_KEY):
        raise InvalidInput(f"the key of an event cannot be {key!r:.80}", code="bad_key",
                           hint="a key has printable characters")  # fmt: skip


def approvers_of(names: Sequence[str] | None, need: int) -> Approvers | None:
    """Returns who may approve, and how many must; None if anybody alone may. Raises InvalidInput for too few names.

    Runs of earlier releases may wait for an approval by 1.5 persons.
    """
    if names is None:
        most, of = APPROVERS, None
    elif (
        isinstance(names, str)
        or not isinstance(names, Iterable)
        or not all(isinstance(name, str) and name for name in names)
    ):
        raise InvalidInput("approvers is a list of names", code="bad_value", hint=f"approvers=[{names!r:.80}]")
    else:
        of = list(dict.fromkeys(names))
        most = len(of)
    check_need(need)
    error = wrong_need(need)
    if error is not None and in_force(_NEED):
        raise error
    if most > APPROVERS or not 1 <= need <= most:
        who = "approvers" if of is None else f"{most} approvers"
        raise InvalidInput(f"{need} of {who} cannot be asked for", code="bad_value",
                           hint=f"name at least as many as must agree, and at most {APPROVERS}")  # fmt: skip
    if of is None:
        return None if need == 1 else Approvers(need)
    return Approvers(need, Given(of, "approvers"))


def throttle_of(given: str | Mapping[str, Json]) -> Throttle:
    """Returns the throttle of a step. Raises InvalidInput."""
    parts = given if isinstance(given, Mapping) else {"limit": given}
    key = parts.get("key")
    is_key = key is None or (isinstance(key, str | int) and not isinstance(key, bool))
    if not is_key or "limit" not in parts or parts.keys() - {"limit", "key"}:
        raise InvalidInput(f"{given!r:.80} cannot be a throttle", code="bad_throttle",
                           hint='write "stripe", or {"limit": "stripe", "key": customer}')  # fmt: skip
    return Throttle(checked_name(parts["limit"]), None if key is None else Given(key))
