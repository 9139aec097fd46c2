"""Compiles `wait:` and `sleep:` of any format to the graph's Wait, with the table's defaults and maxima."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from stepwell.definition.clauses.wait_details import approvers_of, check_times, documents_of, heartbeat_of
from stepwell.definition.compiled import Expression
from stepwell.definition.durations import show_duration, without_unit
from stepwell.definition.formats.common import Context, check_name, step_of
from stepwell.definition.graph import Json, Step, Wait
from stepwell.definition.wait_schemas import SCHEMAS, SEVERAL, keys_of, written_kinds
from stepwell.limits import HOUR_MS, WAIT_ARMS, WAIT_RETRIES

ArmMaker = Callable[[Context, Mapping[str, Json], str, str], Wait | None]  # from its data, `any` or `all`, its place
ANY_TIMEOUT_MS = 24 * HOUR_MS  # an `any` none of whose arms has a timeout of its own


def wait_of(context: Context, node: Mapping[str, Json], path: str) -> Wait | None:
    """The wait of a node that has `wait` or `sleep`; None where it has neither, or none that could be compiled."""
    output = context.template(node, "output", path)
    if "sleep" in node:
        timeout, timeout_ms = timeout_of(context, node, "sleep", path, "sleep")
        return Wait("sleep", timeout=timeout, timeout_ms=timeout_ms, output=output)
    if "wait" not in node:
        return None
    data, place = node["wait"], f"{path}/wait"
    made = wait_at(context, data, place, output, node.get("on_failure", "abort"))
    if made is not None and len(made.arms) == len(data.get(made.kind, ())):  # none was left out
        arms = {f"{place}/{made.kind}/{at}": arm for at, arm in enumerate(made.arms)}
        check_times(context, made, arms, place)
    return made


def wait_at(
    context: Context,
    data: Mapping[str, Json],
    path: str,
    output: Expression | None = None,
    on_failure: str = "abort",
    arm: ArmMaker | None = None,
) -> Wait | None:
    """The wait that `data` describes; None where it does not say for what. `arm` compiles one of several."""
    kind = _kind(context, data, path)
    if kind is None:
        return None
    _check_keys(context, data, kind, path)
    arms = tuple(_arms(context, data, kind, path, arm or arm_of)) if kind in SEVERAL else ()
    timeout, timeout_ms = timeout_of(context, data, "timeout", path, kind, arms)
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
        timeout_actions=timeout_actions_of(context, data, path),
        on_reject=data.get("on_reject", "fail"),
        on_failure=on_failure,
        output=output,
        arms=arms,
        documents=documents_of(context, data, path),
        approvers=approvers_of(context, data, path),
        heartbeat_ms=heartbeat_of(context, data, path),
    )


def timeout_actions_of(context: Context, data: Mapping[str, Json], path: str) -> tuple[Step, ...]:
    """The steps that run, in order, when the time is up."""
    actions = [step_of(context, one, f"{path}/timeout_actions/{at}") for at, one in _each(data, "timeout_actions")]
    return tuple(action for action in actions if action is not None)


def check_retries(context: Context, data: Mapping[str, Json], path: str) -> None:
    if "max_retries" in data and data.get("on_timeout") != "retry":
        context.add("misplaced_key", "`max_retries` needs `on_timeout: retry`", f"{path}/max_retries", "add it")


def _kind(context: Context, data: Mapping[str, Json], path: str) -> str | None:
    written = [key for key in ("for", *SEVERAL) if key in data]
    if len(written) == 1:
        kind: str = data["for"] if written == ["for"] else written[0]
        return kind
    kinds = written_kinds()
    hint = f"for: {', '.join(kinds[:-1])} or {kinds[-1]}; or any: or all: with a list of waits"
    if written:
        context.add("conflict", f"a wait has one of `for`, `any` and `all`, not {' and '.join(written)}", path, hint)
    else:
        context.add("missing_key", "`for` is missing", path, hint)
    return None


def _check_keys(context: Context, data: Mapping[str, Json], kind: str, path: str) -> None:
    for key in data:
        if key != "for" and key not in keys_of(kind):
            takers = [other for other in (*written_kinds(), *SEVERAL) if key in keys_of(other)]
            hint = f"it belongs to a wait for {', '.join(takers)}; remove it"
            context.add("misplaced_key", f"`{key}` means nothing to a wait for `{kind}`", f"{path}/{key}", hint)
    check_retries(context, data, path)


def _arms(context: Context, data: Mapping[str, Json], kind: str, path: str, make: ArmMaker) -> list[Wait]:
    place = f"{path}/{kind}"
    if not data[kind]:
        context.add("missing_key", f"`{kind}` is empty", place, f"list the waits, {SEVERAL[kind].ends}")
    if len(data[kind]) > WAIT_ARMS:
        message = f"`{kind}` has {len(data[kind])} waits"
        context.add("too_many_waits", message, place, f"at most {WAIT_ARMS}; a fork has a branch for each of more")
        return []
    arms = [make(context, one, kind, f"{place}/{at}") for at, one in _each(data, kind)]
    _check_callbacks(context, arms, kind, place)
    return [arm for arm in arms if arm is not None]


def _check_callbacks(context: Context, arms: Sequence[Wait | None], kind: str, place: str) -> None:
    """Reports a second callback: it has the first one's URL. What is deployed already is left alone."""
    callbacks = [at for at, arm in enumerate(arms) if arm is not None and SCHEMAS[arm.kind].has_url]
    for at in () if context.trusted else callbacks[1:]:
        message = f"`{kind}` has a second callback, with the URL of the first"
        context.add("duplicate_value", message, f"{place}/{at}", "a fork has a branch, and so a URL, for each")


def arm_of(context: Context, data: Mapping[str, Json], outer: str, path: str) -> Wait | None:
    """One of the waits of `outer`, any or all."""
    for inner in SEVERAL:
        if inner in data:
            hint = "put its waits into the outer list" if inner == outer else "make it two nodes, one after the other"
            context.add("misplaced_key", f"`{inner}` inside `{outer}`", f"{path}/{inner}", hint)
            return None
    inner_schema = SCHEMAS.get(data.get("for", ""))
    if SEVERAL[outer].needs_each and inner_schema is not None and inner_schema.is_timer:
        hint = "write `sleep:` in a node after it"
        context.add("misplaced_key", f"a {data['for']} inside `{outer}`: nothing comes of it", f"{path}/for", hint)
        return None
    for key in SEVERAL[outer].of_the_whole:
        if key in data:
            message = f"`{key}` belongs to the whole wait"
            context.add("misplaced_key", message, f"{path}/{key}", f"move it beside `{outer}`")
    arm = wait_at(context, data, path)
    return None if arm is None else _without_default(arm, data)


def _without_default(arm: Wait, data: Mapping[str, Json]) -> Wait:
    """An arm ends by a time only if it says so; the default is the whole wait's."""
    return arm if "timeout" in data else replace(arm, timeout_ms=None)


def timeout_of(
    context: Context, data: Mapping[str, Json], key: str, path: str, kind: str, arms: tuple[Wait, ...] = ()
) -> tuple[Expression | None, int | None]:
    """A template, or milliseconds: those written, else the table's default."""
    default, longest = _bounds(kind, arms)
    is_timer = kind in SCHEMAS and SCHEMAS[kind].is_timer  # it may last no time at all
    if key not in data:
        if is_timer:
            context.add("missing_key", "`timeout` is missing", path, f"say how long: {{for: {kind}, timeout: 2h}}")
        return None, default
    if isinstance(data[key], str) and "{{" in data[key]:
        return context.template(data, key, path), None
    timeout_ms = (context.duration_ms if is_timer else context.limit_ms)(data, key, path)
    if timeout_ms is not None and timeout_ms > longest:
        message = f"`{key}` of {show_duration(timeout_ms)} is over the maximum of a wait for `{kind}`"
        context.add("timeout_too_long", message, f"{path}/{key}", f"at most {show_duration(longest)}")
    elif key == "timeout" and not is_timer:
        _warn_without_unit(context, data[key], kind, f"{path}/{key}")
    return None, timeout_ms


def _warn_without_unit(context: Context, written: Json, kind: str, path: str) -> None:
    """Warns of 8 where 8h may be meant. A program may well call back within seconds."""
    is_of_program = kind in SCHEMAS and (SCHEMAS[kind].has_url or not SCHEMAS[kind].keys)
    if not is_of_program and not context.trusted and (doubt := without_unit(written, path)):
        context.problems.append(doubt)


def _bounds(kind: str, arms: tuple[Wait, ...]) -> tuple[int | None, int]:
    """The default and the maximum. A wait for all lasts as long as the most patient of its arms would."""
    if kind not in SEVERAL:
        return SCHEMAS[kind].timeout_ms, SCHEMAS[kind].longest_ms
    rows = [SCHEMAS[arm.kind] for arm in arms] or [SCHEMAS["event"]]
    longest = max(row.longest_ms for row in rows)
    if SEVERAL[kind].needs_each:
        return max((row.timeout_ms for row in rows if row.timeout_ms is not None), default=ANY_TIMEOUT_MS), longest
    timed = any(arm.timeout is not None or arm.timeout_ms is not None for arm in arms)
    return None if timed else ANY_TIMEOUT_MS, longest


def _event(context: Context, data: Mapping[str, Json], kind: str, path: str) -> str | None:
    """Returns the name of the event that ends the wait: its own, else its kind's."""
    schema = SCHEMAS.get(kind)
    if schema is None or not schema.is_event_named or "name" not in data:
        return schema.event or None if schema else None
    name: str = data["name"]
    check_name(context, name, f"{path}/name", "event")
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
