"""Compiles the format `actions`, an agent: actions in order, whose results accumulate as variables.

Bare names in templates are variables. An unknown type is the name of a function, called with the action's parameters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from stepwell.definition.clauses.calls import SCHEME, check_workflow
from stepwell.definition.clauses.compensation import compensate_of
from stepwell.definition.clauses.waits import check_retries, timeout_actions_of, timeout_of
from stepwell.definition.formats.agent_steps import BUILT_IN, OF_A_STEP, TRIGGER, as_step, timeout_actions
from stepwell.definition.formats.agent_waits import SAYS, action_wait
from stepwell.definition.formats.common import Context, check_name, check_start, step_of
from stepwell.definition.graph import END, Call, Child, Json, Node, Rule, Step
from stepwell.definition.text import closest
from stepwell.limits import HISTORY_WINDOW, MAX_VISITS, WAIT_RETRIES

_OF_WAITING = ("on_timeout", "max_retries", "timeout_actions", "timeout", "on_failure", "parent_close")


def compile_actions(context: Context, document: Mapping[str, Json]) -> dict[str, Node]:
    """Compiles each action to a node."""
    context.variables = True
    context.windows = {SAYS: document.get("history_window", HISTORY_WINDOW)}
    actions = [(at, one) for at, one in enumerate(document.get("actions", ())) if one is not None]
    names = {at: _name(one, at) for at, one in actions}
    nodes: dict[str, Node] = {}
    for (at, action), (name, following) in zip(actions, pairwise([*names.values(), END]), strict=True):
        path = f"/actions/{at}"
        check_name(context, name, f"{path}/id", "node")
        if name in nodes:
            message = f"two actions have the id `{name}`"
            context.add("duplicate_name", message, f"{path}/id", "change one, because results are stored by id")
        rules = _rules(context, names, name, action, following, path)
        label = len(nodes) + 1, action["action_type"]
        nodes.setdefault(name, replace(_node(context, name, action, path, rules), label=label))
    context.variables = False
    check_start(context, document, "an agent starts with its first action; `start` is auto or manual")
    return nodes


def _name(action: Mapping[str, Json], at: int) -> str:
    """Returns an action's id, by default its number and type."""
    if "id" in action:
        return str(action["id"])
    return f"{at + 1}-{re.sub('[^A-Za-z0-9._-]+', '-', action['action_type'])}"


def _rules(
    context: Context, names: Mapping[int, str], name: str, action: Mapping[str, Json], following: str, path: str
) -> tuple[Rule, ...]:
    when = context.condition(action, "next_when", path, variables=True)
    if "next_action_id" not in action:
        if "next_when" in action:
            hint = "add `next_action_id`, the next action"
            context.add("misplaced_key", "`next_when` needs `next_action_id`", f"{path}/next_when", hint)
        return (Rule(f"{name}.next", "next", to=following),)
    target = _target(context, names, str(action["next_action_id"]), f"{path}/next_action_id")
    if "next_when" not in action:
        return (Rule(f"{name}.next", "next", to=target),)
    return (Rule(f"{name}.branch[0]", "branch", when=when, to=target), Rule(f"{name}.next", "next", to=following))


def _target(context: Context, names: Mapping[int, str], written: str, path: str) -> str:
    """Finds an action by its id or its number."""
    if written == END or written in names.values():
        return written
    numbered = {str(at + 1): name for at, name in names.items()}
    if written in numbered:
        return numbered[written]
    message = f"`next_action_id` names `{written}`, which does not exist"
    context.add("unknown_target", message, path, closest(written, [*names.values(), END]))
    return END


def _node(context: Context, name: str, action: Mapping[str, Json], path: str, rules: tuple[Rule, ...]) -> Node:
    kind: str = action["action_type"]
    parameters = action.get("parameters", {})
    if kind in BUILT_IN:
        _check_own_keys(context, kind, action, path)
    step, wait, call = None, None, None
    if kind == TRIGGER and parameters.get("wait_for_completion") is False:
        step = _detached(context, parameters, f"{path}/parameters")
    elif kind == TRIGGER:
        call = _call(context, action, path)
    elif kind in BUILT_IN:
        wait = action_wait(context, kind, parameters, f"{path}/parameters")
    else:
        step = step_of(context, as_step(context, action, path), path)
    undo = compensate_of(context, action["compensate"], f"{path}/compensate") if "compensate" in action else None
    return Node(
        name=name,
        step=step,
        wait=wait,
        call=call,
        compensate=undo,
        rules=rules,
        max_visits=action.get("max_visits", MAX_VISITS),
    )


def _check_own_keys(context: Context, kind: str, action: Mapping[str, Json], path: str) -> None:
    for key in OF_A_STEP:
        if key in action:
            hint = "put it into `parameters`" if key == "timeout" else "it belongs to an action that runs a function"
            context.add("misplaced_key", f"`{key}` has no effect beside `{kind}`", f"{path}/{key}", hint)


# -- other agents


def _call(context: Context, action: Mapping[str, Json], path: str) -> Call | None:
    place = f"{path}/parameters"
    parameters = action.get("parameters", {})
    child = _child(context, parameters, place)
    if child is None:
        return None
    check_retries(context, parameters, place)
    timeout, timeout_ms = timeout_of(context, parameters, "timeout", place, "agent")
    actions = {"timeout_actions": timeout_actions(context, parameters, place)}
    return Call(
        children=(child,),
        single=True,
        timeout=timeout,
        timeout_ms=timeout_ms,
        failed_child=parameters.get("on_failure", "return"),
        parent_close=parameters.get("parent_close", "cancel"),
        kind="agent",
        brings_variables=True,
        on_timeout=parameters.get("on_timeout", "fail"),
        max_retries=parameters.get("max_retries", WAIT_RETRIES),
        timeout_actions=timeout_actions_of(context, actions, place),
    )


def _detached(context: Context, parameters: Mapping[str, Json], path: str) -> Step | None:
    for key in _OF_WAITING:
        if key in parameters:
            hint = "it belongs to `wait_for_completion: true`; remove it"
            context.add("misplaced_key", f"`{key}` has no effect without a wait", f"{path}/{key}", hint)
    child = _child(context, parameters, path)
    return None if child is None else Step(f"{SCHEME}{child.workflow}", input=child.input, writes="run_id")


def _child(context: Context, parameters: Mapping[str, Json], path: str) -> Child | None:
    if "agent" not in parameters:
        context.add("missing_key", "`agent` is missing", path, "name the agent: parameters: {agent: screening}")
        return None
    agent: str = parameters["agent"]
    check_workflow(context, agent, f"{path}/agent")
    return Child(agent, agent, context.template(parameters, "input", path))
