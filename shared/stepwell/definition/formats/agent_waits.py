"""Compiles the actions of an agent that wait: for one thing, or for the first of several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stepwell.definition.clauses.waits import arm_of, wait_at
from stepwell.definition.durations import show_duration
from stepwell.definition.expressions import template_errors
from stepwell.definition.formats.agent_steps import OF_A_PLACE, OF_A_STEP, TRIGGER, WAIT_FOR_ANY, WAITS, timeout_actions
from stepwell.definition.formats.common import Context
from stepwell.definition.graph import Json, Wait
from stepwell.definition.wait_schemas import SCHEMAS

SAYS = "send_message"  # the function whose message becomes part of the conversation
_SHOWN = {  # parameters that waiting_data shows, with their names there
    "key": "threadId",
    "expected_from": "expectedFrom",
    "documents": "documents",
    "document": "document",
    "test": "test",
}
_AS_ELSEWHERE = ("key", "match", "timeout", "on_timeout", "max_retries", "documents", "name", "any", "data")


def action_wait(context: Context, kind: str, parameters: Mapping[str, Json], path: str) -> Wait | None:
    """Compiles the parameters of an action that waits."""
    if kind == WAIT_FOR_ANY:
        return wait_at(context, {"any": [], **_as_elsewhere(context, parameters, path)}, path, arm=_arm)
    return _wait(context, kind, parameters, path)


def _arm(context: Context, action: Mapping[str, Json], outer: str, path: str) -> Wait | None:
    """Compiles one of several actions, the first of which ends the wait."""
    kind: str = action["action_type"]
    for key in (*OF_A_PLACE, *OF_A_STEP):
        if key in action:
            hint = "put it into `parameters`" if key == "timeout" else f"write it on the `{WAIT_FOR_ANY}`"
            context.add("misplaced_key", f"`{key}` has no effect inside `{outer}`", f"{path}/{key}", hint)
    if kind in WAITS:
        return _wait(context, kind, action.get("parameters", {}), f"{path}/parameters", outer)
    hint = f"write one of {', '.join(WAITS)}"
    if kind == TRIGGER:
        hint = "trigger it before, with waitForCompletion: false, and wait for the event AGENT_COMPLETED here"
    context.add("misplaced_action", f"`{kind[:80]}` cannot be inside `{outer}`", f"{path}/action_type", hint)
    return None


def _wait(context: Context, kind: str, parameters: Mapping[str, Json], path: str, outer: str = "") -> Wait | None:
    """Compiles a wait for one thing. `outer`: it is one of several."""
    row = WAITS[kind]
    schema, data = SCHEMAS[row], {**_as_elsewhere(context, parameters, path), "for": row}
    if schema.is_timer and "duration" not in parameters:
        hint = f"give the time: {{actionType: {kind}, parameters: {{duration: 2h}}}}"
        context.add("missing_key", "`duration` is missing", path, hint)
        return None
    if schema.is_timer:
        data["timeout"] = parameters["duration"]
    default = None if outer or schema.timeout_ms is None else show_duration(schema.timeout_ms)
    data["data"] = _waiting_data(parameters, default)
    made = arm_of(context, data, outer, path) if outer else wait_at(context, data, path)
    sender = context.template(parameters, "expected_from", path)
    window = context.windows[SAYS] if row == "response" else None
    return made if made is None else replace(made, sender=sender, window=window)


def _as_elsewhere(context: Context, parameters: Mapping[str, Json], path: str) -> dict[str, Json]:
    """Returns the parameters that a wait of the other formats has as well."""
    data = {key: parameters[key] for key in _AS_ELSEWHERE if key in parameters}
    if "timeout_actions" in parameters:
        data["timeout_actions"] = timeout_actions(context, parameters, path)
    return data


def _waiting_data(parameters: Mapping[str, Json], default: str | None) -> dict[str, Json]:
    """Builds waiting_data: `data`, the subject of the wait, and its time limit."""
    shown = {name: parameters[key] for key, name in _SHOWN.items() if key in parameters}
    limit = parameters.get("timeout", parameters.get("duration", default))
    shown |= {} if limit is None else {"timeout": limit}
    flawed = {place for place, _ in template_errors(shown, variables=True)}  # reported at the parameter itself
    shown = {name: value for name, value in shown.items() if not any(one.startswith(f"/{name}") for one in flawed)}
    return {**(parameters.get("data") or {}), **shown}
