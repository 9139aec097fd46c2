"""Compiles the actions of an agent that call a function: the action itself, and the actions of a time-out."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.clauses.calls import SCHEME
from stepwell.definition.formats.common import Context
from stepwell.definition.graph import Json
from stepwell.definition.text import did_you_mean

WAITS = {  # the types that wait, with their rows in the table of waits
    "wait_for_response": "response",
    "request_document": "document",
    "request_signature": "signature",
    "assign_test": "test",
    "wait_for_event": "event",
    "delay": "delay",
}
WAIT_FOR_ANY = "wait_for_any"  # the first of several of them
TRIGGER = "trigger_agent"
BUILT_IN = (*WAITS, WAIT_FOR_ANY, TRIGGER)
OF_A_STEP = ("timeout", "retry", "at_most_once", "pool", "on_failure", "compensate")
OF_A_PLACE = ("id", "next_action_id", "next_when", "max_visits")  # of an action with a place in the agent's order


def as_step(context: Context, action: Mapping[str, Json], path: str) -> dict[str, Json]:
    """Translates an action that calls a function to the keys of a step."""
    kind: str = action["action_type"]
    if kind.startswith(("http:", SCHEME)):
        hint = "write trigger_agent" if kind.startswith(SCHEME) else "write a function that makes the request"
        context.add("bad_action_type", f"`{kind[:80]}` cannot be an action", f"{path}/action_type", hint)
        return {}
    if hint := did_you_mean(kind, BUILT_IN, 0.85):
        message = f"`{kind}` is not a known type, so it names a function"
        context.add("unknown_action_type", message, f"{path}/action_type", hint, "warning")
    step = {key: action[key] for key in OF_A_STEP if key in action and key != "compensate"}
    given = {"input": action["parameters"]} if "parameters" in action else {}
    return {"run": kind, **given, **step}


def timeout_actions(context: Context, parameters: Mapping[str, Json], path: str) -> list[Json]:
    """Translates timeout actions to the other formats. They run during a wait, so none of them can wait."""
    made: list[Json] = []
    for at, action in enumerate(parameters.get("timeout_actions", ())):
        place = f"{path}/timeout_actions/{at}"
        if action is None:
            made.append(None)
            continue
        for key in (*OF_A_PLACE, "compensate", "on_failure"):
            if key in action:
                hint = "they run in order, then `on_timeout` applies"
                context.add("misplaced_key", f"`{key}` has no effect on a timeout action", f"{place}/{key}", hint)
        if action["action_type"] in BUILT_IN:
            message = f"`{action['action_type']}` cannot be a timeout action"
            context.add("misplaced_action", message, f"{place}/action_type", "write it as an action of the agent")
            made.append(None)
        else:
            made.append(as_step(context, action, place) or None)
    return made
