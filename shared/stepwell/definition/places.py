"""Compiles what the formats with places share: an entry of a timeline or a node of a graph to a Node."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.common import STEP_KEYS, Context, step_of
from stepwell.definition.graph import Json, Node, Rule
from stepwell.definition.waits import wait_of
from stepwell.limits import MAX_VISITS

KINDS = ("run", "wait", "sleep")


def node_of(context: Context, name: str, data: Mapping[str, Json], path: str, rules: tuple[Rule, ...]) -> Node:
    kinds = [kind for kind in KINDS if kind in data]
    if len(kinds) > 1:
        message = f"`{name}` has {' and '.join(kinds)}"
        context.add("conflict", message, f"{path}/{kinds[1]}", "one of them per node: make it two nodes")
    if "run" not in data:
        _check_step_keys(context, name, data, path, kinds)
    return Node(
        name=name,
        step=step_of(context, data, path),
        wait=wait_of(context, data, path) if "run" not in data else None,
        rules=rules,
        max_visits=data.get("max_visits", MAX_VISITS),
    )


def _check_step_keys(context: Context, name: str, data: Mapping[str, Json], path: str, kinds: list[str]) -> None:
    """A key that would have no effect is a mistake, not a decoration."""
    for key in STEP_KEYS if kinds else (*STEP_KEYS, "output"):
        if key in data:
            hint = "put it inside `wait`" if key == "timeout" and "wait" in data else "add `run`, or remove it"
            context.add("misplaced_key", f"`{key}` needs a `run`, and `{name}` has none", f"{path}/{key}", hint)
