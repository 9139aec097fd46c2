"""Results: what a node writes into the scope when its step, its wait or its child runs have ended.

By default, it writes the result under the node's name. A definition can also write an object key by key, as if
each were a variable, and add a message to the conversation. Data from outside, such as an event's
payload, is never written by its keys, because its sender could then set any variable.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.graph import Call, Json, Step, Wait
from stepwell.engine.actions import RunStep
from stepwell.engine.names import Moment, iso
from stepwell.engine.token import Token

HISTORY = "conversationHistory"
_TEXT_KEYS = ("message", "text", "content")  # of what was said: where its text is
_OF_CHILD = ("triggeredExecutionId", "childExecutionStatus", "childExecutionSuccess")


def of_step(moment: Moment, token: Token, action: RunStep, result: Json) -> Mapping[str, Json]:
    """Returns the writes of an ended step."""
    writes = of_pause(action.node, action.step, result)
    return {**writes, **_said(moment, token, action)} if action.step.window else writes


def of_pause(node: str, step: Step, result: Json) -> Mapping[str, Json]:
    """Returns the writes of a step whose wait is over."""
    match step.writes:
        case "keys" if isinstance(result, dict):  # the conversation is the run's own: no function writes it
            return {**{name: value for name, value in result.items() if name != HISTORY}, node: result}
        case "run_id":
            return {_OF_CHILD[0]: result, node: result}
        case _:
            return {node: result}


def of_timeout_action(moment: Moment, token: Token, action: RunStep) -> Mapping[str, Json] | None:
    """Adds the action's message to the conversation; its result is not written."""
    return _said(moment, token, action) or None


def of_wait(moment: Moment, token: Token, wait: Wait, node: str, writes: Mapping[str, Json]) -> Mapping[str, Json]:
    """Returns the writes of a wait: the names of its kind. The conversation keeps the text of a message."""
    answer: Json = writes.get(node)
    if any(arm.window is not None for arm in wait.arms):  # of the first of several
        wait, answer = wait.arms[answer["index"]], answer["result"]
    if wait.window is None:
        return writes
    return {
        **writes,
        "lastResponse": _text_of(answer),
        **_with_message(moment, token, "user", node, answer, wait.window),
    }


def of_children(call: Call, node: str, payload: Json) -> tuple[Json, Mapping[str, Json]]:
    """(result, writes) of child runs. Another agent's variables become this one's, and are not kept twice."""
    if not call.brings_variables:
        return payload, {node: payload}
    result = {key: value for key, value in payload.items() if key != "variables"}
    facts = {name: payload[name] for name in _OF_CHILD}
    return result, {**payload.get("variables", {}), **facts, node: result}


def brought(child: Token) -> dict[str, Json]:
    """The variables that an agent takes over from another: not its conversation, nor its results by action."""
    return {name: value for name, value in child.scope.items() if name != HISTORY and name not in child.steps}


def _said(moment: Moment, token: Token, action: RunStep) -> dict[str, Json]:
    """Returns the conversation with this step's message, if it has one."""
    return _with_message(moment, token, "assistant", action.node, action.input, action.step.window or 0)


def _with_message(moment: Moment, token: Token, role: str, node: str, what: Json, window: int) -> dict[str, Json]:
    """Returns the conversation with one more message, cut to the length that the definition keeps."""
    if not window:
        return {}
    before = token.scope.get(HISTORY)
    message = {"role": role, "content": _text_of(what), "action": node, "at": iso(moment.now_ms)}
    kept = [*(before if isinstance(before, list) else ()), message]
    return {HISTORY: kept[-window:]}


def _text_of(what: Json) -> Json:
    """Returns the text of a message that is an object; otherwise the whole message."""
    if not isinstance(what, dict):
        return what
    return next((what[key] for key in _TEXT_KEYS if isinstance(what.get(key), str)), what)
