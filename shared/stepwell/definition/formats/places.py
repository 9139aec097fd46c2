"""Compiles an entry of a timeline, a node of a graph, or a step of a DAG to a Node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stepwell.definition.clauses.calls import call_of, check_step_failure, detached_of, runs_workflow
from stepwell.definition.clauses.compensation import compensate_of
from stepwell.definition.clauses.throttles import throttle_of
from stepwell.definition.clauses.waits import wait_of
from stepwell.definition.formats.common import Context, step_of
from stepwell.definition.graph import Call, Json, Node, Rule, Step
from stepwell.limits import MAX_VISITS

KINDS = ("run", "wait", "sleep", "children")

_BOTH = ("output", "retry", "on_failure", "compensate")
_CHILD = (*_BOTH, "inherit_artifacts")
_HELD = ("lock",)
# The keys that each action of a node takes, besides the key of the action itself.
_KEYS: dict[str, tuple[str, ...]] = {
    "step": ("input", "timeout", "at_most_once", "pool", "http", "throttle", *_BOTH, *_HELD),
    "child run": ("input", "timeout", "parent_close", "detached", *_CHILD, *_HELD),
    "detached run": ("input", "detached", *_CHILD),
    "list of children": ("timeout", "siblings", "parent_close", *_CHILD, *_HELD),
    "wait": ("output", "on_failure", *_HELD),
    "sleep": ("output", *_HELD),
    "node that does nothing": (),
}
_ALL_KEYS = tuple(dict.fromkeys(key for keys in _KEYS.values() for key in keys))
_HINTS = {
    ("list of children", "input"): "put it inside each child",
    ("child run", "throttle"): "limit the workflow that it runs: `concurrency` in its own definition",
    ("child run", "siblings"): "it is for several `children`; remove it",
    ("detached run", "siblings"): "it is for several `children`; remove it",
    ("child run", "at_most_once"): "a child run always starts once; remove it",
    ("detached run", "timeout"): "an independent run has the `timeout` of its own definition",
    ("detached run", "lock"): "put it into the workflow's own definition",
    ("node that does nothing", "lock"): "put it on a node that runs, waits or sleeps",
    ("wait", "timeout"): "put it inside `wait`",
}

_HARMLESS = {("child run", "siblings"), ("detached run", "siblings")}  # one child has none, so that nothing is lost


def node_of(context: Context, name: str, data: Mapping[str, Json], path: str, rules: tuple[Rule, ...]) -> Node:
    kinds = [kind for kind in KINDS if kind in data]
    if len(kinds) > 1:
        message = f"`{name}` has {' and '.join(kinds)}"
        context.add("conflict", message, f"{path}/{kinds[1]}", "a node has one of them: split it into two nodes")
    else:
        _check_keys(context, name, data, path)
    step, call = _act(context, name, data, path)
    return Node(
        name=name,
        step=step,
        wait=wait_of(context, data, path) if step is None and call is None else None,
        call=call,
        compensate=compensate_of(context, data["compensate"], f"{path}/compensate") if "compensate" in data else None,
        rules=rules,
        max_visits=data.get("max_visits", MAX_VISITS),
        lock=context.template(data, "lock", path),
    )


def _act(context: Context, name: str, data: Mapping[str, Json], path: str) -> tuple[Step | None, Call | None]:
    """Compiles the step or the child runs of a node."""
    if data.get("inherit_artifacts"):
        message = "`inherit_artifacts: true` is not supported in this version"
        context.add("unsupported", message, f"{path}/inherit_artifacts", "pass the data in the child's `input`")
    if runs_workflow(data) and data.get("detached"):
        return detached_of(context, data, path), None
    if runs_workflow(data) or "children" in data:
        return None, call_of(context, name, data, path)
    check_step_failure(context, data, path)
    step = step_of(context, data, path)
    return (step and replace(step, throttle=throttle_of(context, data, path))), None


def _check_keys(context: Context, name: str, data: Mapping[str, Json], path: str) -> None:
    """Reports keys that would have no effect."""
    what = _what(data)
    for key in _ALL_KEYS:
        if key not in data or key in _KEYS[what]:
            continue
        takers = [other for other, keys in _KEYS.items() if key in keys]
        if what in ("wait", "sleep", "node that does nothing") and "step" in takers:
            message, hint = (
                f"`{key}` needs a `run`, and `{name}` has none",
                f"add run: python:module.function, or remove `{key}`",
            )
        else:
            message, hint = f"`{key}` means nothing to a {what}", f"it belongs to a {' or a '.join(takers)}; remove it"
        severity = "warning" if (what, key) in _HARMLESS else "error"
        context.add("misplaced_key", message, f"{path}/{key}", _HINTS.get((what, key), hint), severity)


def _what(data: Mapping[str, Json]) -> str:
    if runs_workflow(data):
        return "detached run" if data.get("detached") else "child run"
    words = {"run": "step", "children": "list of children", "wait": "wait", "sleep": "sleep"}
    return next((what for kind, what in words.items() if kind in data), "node that does nothing")
