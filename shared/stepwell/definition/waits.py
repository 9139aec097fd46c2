"""Compiles `wait:` and `sleep:` of any format to the graph's Wait, with the table's defaults and maxima."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stepwell.definition.common import Context, check_name, step_of
from stepwell.definition.durations import show_duration
from stepwell.definition.graph import Expression, Json, Wait
from stepwell.limits import HOUR_MS, WAIT_RETRIES, WAIT_TIMEOUTS_MS

ANY_TIMEOUT_MS = 24 * HOUR_MS  # an `any` none of whose arms has a timeout of its own
RESPONSE_EVENT = "MESSAGE_RECEIVED"

_OUTCOME = ("on_timeout", "max_retries", "timeout_actions")
# The keys that mean something to each kind, besides `for`.
_KEYS: dict[str, tuple[str, ...]] = {
    "approval": ("type", "data", "timeout", "on_reject", *_OUTCOME),
    "response": ("key", "match", "data", "timeout", *_OUTCOME),
    "event": ("name", "key", "match", "data", "timeout", *_OUTCOME),
    "delay": ("timeout", "data"),
    "any": ("any", "data", "timeout", *_OUTCOME),
}


def wait_of(context: Context, node: Mapping[str, Json], path: str) -> Wait | None:
    """The wait of a node that has `wait` or `sleep`; None where it has neither, or none that could be compiled."""
    output = context.template(node, "output", path)
    if "sleep" in node:
        timeout, timeout_ms = timeout_of(context, node, "sleep", path, "sleep")
        return Wait("sleep", timeout=timeout, timeout_ms=timeout_ms, output=output)
    if "wait" not in node:
        return None
    return _wait(context, node["wait"], f"{path}/wait", output)


def _wait(context: Context, data: Mapping[str, Json], path: str, output: Expression | None = None) -> Wait | None:
    kind = _kind(context, data, path)
    if kind is None:
        return None
    _check_keys(context, data, kind, path)
    arms = tuple(_arms(context, data, path)) if kind == "any" else ()
    timeout, timeout_ms = timeout_of(context, data, "timeout", path, kind, arms)
    actions = [step_of(context, one, f"{path}/timeout_actions/{at}") for at, one in _each(data, "timeout_actions")]
    return Wait(
        kind=kind,
        event=_event(context, data, kind, path),
        key=context.template(data, "key", path),
        match=context.condition(data, "match", path),
        data=_data(context, data, path),
        timeout=timeout,
        timeout_ms=timeout_ms,
        on_timeout=data.get("on_timeout", "fail"),
        max_retries=data.get("max_retries", WAIT_RETRIES),
        timeout_actions=tuple(action for action in actions if action is not None),
        on_reject=data.get("on_reject", "fail"),
        output=output,
        arms=arms,
    )


def _kind(context: Context, data: Mapping[str, Json], path: str) -> str | None:
    if ("for" in data) == ("any" in data):
        message = "a wait has `for` or `any`, not both" if "for" in data else "`for` is missing"
        hint = "for: approval, response, event or delay; or any: with a list of waits"
        context.add("missing_key" if "for" not in data else "conflict", message, path, hint)
        return None
    kind: str = data.get("for", "any")
    return kind


def _check_keys(context: Context, data: Mapping[str, Json], kind: str, path: str) -> None:
    for key in data:
        if key != "for" and key not in _KEYS[kind]:
            takers = [other for other, keys in _KEYS.items() if key in keys]
            hint = f"it belongs to a wait for {', '.join(takers)}; remove it"
            context.add("misplaced_key", f"`{key}` means nothing to a wait for `{kind}`", f"{path}/{key}", hint)
    if "max_retries" in data and data.get("on_timeout") != "retry":
        context.add("misplaced_key", "`max_retries` needs `on_timeout: retry`", f"{path}/max_retries", "add it")


def _arms(context: Context, data: Mapping[str, Json], path: str) -> list[Wait]:
    arms = []
    if not data["any"]:
        context.add("missing_key", "`any` is empty", f"{path}/any", "list the waits, the first that ends wins")
    for at, one in _each(data, "any"):
        place = f"{path}/any/{at}"
        if "any" in one:
            context.add(
                "misplaced_key", "an `any` inside an `any`", f"{place}/any", "put its waits into the outer list"
            )
            continue
        for key in _OUTCOME:
            if key in one:
                context.add(
                    "misplaced_key", f"`{key}` belongs to the whole wait", f"{place}/{key}", "move it beside `any`"
                )
        if (arm := _wait(context, one, place)) is not None:
            arms.append(_without_default(arm, one))
    return arms


def _without_default(arm: Wait, data: Mapping[str, Json]) -> Wait:
    """An arm ends by a time only if it says so; the default is the whole wait's."""
    return arm if "timeout" in data else replace(arm, timeout_ms=None)


def timeout_of(
    context: Context, data: Mapping[str, Json], key: str, path: str, kind: str, arms: tuple[Wait, ...] = ()
) -> tuple[Expression | None, int | None]:
    """A template, or milliseconds: those written, else the table's default."""
    default, longest = _bounds(kind, arms)
    if key not in data:
        if kind == "delay":
            context.add("missing_key", "`timeout` is missing", path, "say how long: {for: delay, timeout: 2h}")
        return None, default
    if isinstance(data[key], str) and "{{" in data[key]:
        return context.template(data, key, path), None
    timeout_ms = context.duration_ms(data, key, path)
    if timeout_ms is not None and timeout_ms > longest:
        message = f"`{key}` of {show_duration(timeout_ms)} is over the maximum of a wait for `{kind}`"
        context.add("timeout_too_long", message, f"{path}/{key}", f"at most {show_duration(longest)}")
    return None, timeout_ms


def _bounds(kind: str, arms: tuple[Wait, ...]) -> tuple[int | None, int]:
    if kind != "any":
        return WAIT_TIMEOUTS_MS[kind]
    timed = any(arm.timeout is not None or arm.timeout_ms is not None for arm in arms)
    longest = max((WAIT_TIMEOUTS_MS[arm.kind][1] for arm in arms), default=WAIT_TIMEOUTS_MS["event"][1])
    return None if timed else ANY_TIMEOUT_MS, longest


def _event(context: Context, data: Mapping[str, Json], kind: str, path: str) -> str | None:
    if kind == "response":
        return RESPONSE_EVENT
    if kind != "event":
        return None
    if "name" not in data:
        context.add("missing_key", "`name` is missing", path, "say which event: {for: event, name: paid}")
        return None
    check_name(context, data["name"], f"{path}/name", "event")
    name: str = data["name"]
    return name


def _data(context: Context, data: Mapping[str, Json], path: str) -> Expression | None:
    """`data`, with the type of an approval among it."""
    if "type" not in data:
        return context.template(data, "data", path)
    shown = data.get("data", {})
    if not isinstance(shown, dict):
        context.add(
            "wrong_type", "`data` must be a mapping where `type` is given", f"{path}/data", "put it under a key"
        )
        return None
    return context.template_of({**shown, "type": data["type"]}, f"{path}/data" if "data" in data else f"{path}/type")


def _each(data: Mapping[str, Json], key: str) -> list[tuple[int, Mapping[str, Json]]]:
    """The items of a list that have the right shape."""
    return [(at, item) for at, item in enumerate(data.get(key, ())) if item is not None]
