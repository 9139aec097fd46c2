"""Agents (the format `actions`): how their variables accumulate, and the conversation that their state keeps.

What a function returns as an object is written key by key, as if each were a variable of its own. What comes from
outside, an event's payload, is not: whoever sends one could otherwise set any variable.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.graph import Call, Graph, Json, Wait
from stepwell.engine.actions import RunStep
from stepwell.engine.names import Moment, iso
from stepwell.engine.token import Token

HISTORY = "conversationHistory"
SAYS = "send_message"  # the function whose message is a part of the conversation
_TEXT_KEYS = ("message", "text", "content")  # of what was said: where its text is
_OF_CHILD = ("triggeredExecutionId", "childExecutionStatus", "childExecutionSuccess")
_DETACHED = "workflow:"


def is_agent(graph: Graph) -> bool:
    return graph.format == "actions"


def of_step(moment: Moment, token: Token, action: RunStep, result: Json) -> Mapping[str, Json]:
    """What an action's function writes: its result under the action's id; of an agent also key by key."""
    if not is_agent(moment.graph):
        return {action.node: result}
    if action.step.run.startswith(_DETACHED):
        return {_OF_CHILD[0]: result, action.node: result}
    said = _said(moment, token, "assistant", action.node, action.input) if action.step.run == SAYS else {}
    return {**_spread(result), action.node: result, **said}


def of_pause(moment: Moment, node: str, result: Json) -> Mapping[str, Json]:
    """What a function writes that has asked to wait, when the wait is over."""
    return {**(_spread(result) if is_agent(moment.graph) else {}), node: result}


def of_timeout_action(moment: Moment, token: Token, action: RunStep) -> Mapping[str, Json] | None:
    """What it says is a part of the conversation; its result goes nowhere."""
    if not is_agent(moment.graph) or action.step.run != SAYS:
        return None
    return _said(moment, token, "assistant", action.node, action.input) or None


def of_wait(moment: Moment, token: Token, wait: Wait, node: str, writes: Mapping[str, Json]) -> Mapping[str, Json]:
    """What a wait writes: its row's names. A response is a part of the conversation, and of it the text is kept."""
    if not is_agent(moment.graph) or wait.kind != "response":
        return writes
    came = writes[node]
    return {**writes, "lastResponse": _text_of(came), **_said(moment, token, "user", node, came)}


def of_children(call: Call, node: str, payload: Json) -> tuple[Json, Mapping[str, Json]]:
    """(result, writes) of child runs. Another agent's variables become this one's, and are not kept twice."""
    if call.kind != "agent":
        return payload, {node: payload}
    result = {key: value for key, value in payload.items() if key != "variables"}
    facts = {name: payload[name] for name in _OF_CHILD}
    return result, {**payload.get("variables", {}), **facts, node: result}


def brought(child: Token) -> dict[str, Json]:
    """The variables that an agent takes over from another: not its conversation, nor its results by action."""
    return {name: value for name, value in child.scope.items() if name != HISTORY and name not in child.steps}


def _spread(result: Json) -> dict[str, Json]:
    """The keys of a function's result. The conversation is the run's own: no function writes it."""
    return {name: value for name, value in result.items() if name != HISTORY} if isinstance(result, dict) else {}


def _said(moment: Moment, token: Token, role: str, action: str, what: Json) -> dict[str, Json]:
    """The conversation with one message more, and no more of it than the definition keeps."""
    window = moment.graph.history_window
    before = token.scope.get(HISTORY)
    message = {"role": role, "content": _text_of(what), "action": action, "at": iso(moment.now_ms)}
    kept = [*(before if isinstance(before, list) else ()), message]
    return {HISTORY: kept[-window:]} if window else {}


def _text_of(what: Json) -> Json:
    """The text of a message that is an object; else the whole."""
    if not isinstance(what, dict):
        return what
    return next((what[key] for key in _TEXT_KEYS if isinstance(what.get(key), str)), what)
