"""Compiles compensation in every format: the step that undoes a node, and the keys that lead to it."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.clauses.computed import is_template
from stepwell.definition.formats.common import Context, step_of
from stepwell.definition.graph import Graph, Json, Node, Step
from stepwell.definition.text import closest


def compensate_of(context: Context, data: Mapping[str, Json], path: str) -> Step | None:
    """Compiles the step in a `compensate:` or in an entry of `compensation:`."""
    if "at_most_once" in data:
        message = "`at_most_once` has no effect on a compensation, which may run more than once"
        context.add("misplaced_key", message, f"{path}/at_most_once", "remove it, and make the function idempotent")
    if is_template(data.get("timeout")):
        message = "the `timeout` of a compensation cannot be a template"
        context.add("bad_value", message, f"{path}/timeout", "write how long, for example 30s")
    if "run" not in data:
        context.add(
            "missing_key",
            "`run` is missing",
            path,
            "name the function that undoes the step: run: python:module.function",
        )
    return step_of(context, data, path)


def listed_compensations(
    context: Context, document: Mapping[str, Json], nodes: Mapping[str, Node]
) -> Mapping[str, Step | None]:
    """Compiles the list `compensation:` of the format `steps`, by the name of the step that each entry undoes."""
    made: dict[str, Step | None] = {}
    for at, entry in _entries(document):
        path, name = f"/compensation/{at}", entry["step"]
        if name not in nodes:
            message = f"`compensation` names `{name}`, which does not exist"
            context.add("unknown_step", message, f"{path}/step", closest(name, nodes))
        elif name in made:
            context.add("conflict", f"`compensation` names `{name}` twice", f"{path}/step", "keep one of them")
        elif nodes[name].compensate is not None:
            message = f"`{name}` already has a `compensate`"
            context.add("conflict", message, f"{path}/step", "keep one of the two")
        made[name] = compensate_of(context, entry, path)
    return made


def check_listed(context: Context, document: Mapping[str, Json], nodes: Mapping[str, Node]) -> None:
    """Checks that each entry of `compensation:` has something to undo. Call it for an error-free document."""
    for at, entry in _entries(document):
        node = nodes[entry["step"]]
        if node.step is None and node.call is None:
            message = f"`{node.name}` runs nothing, so there is nothing to undo"
            context.add("misplaced_key", message, f"/compensation/{at}/step", "remove the compensation")


def compensate_on(context: Context, document: Mapping[str, Json]) -> frozenset[str]:
    """Compiles `compensate_on`: the causes of compensation besides a failure (timeout, cancel)."""
    words: set[str] = set()
    for at, word in enumerate(document.get("compensate_on", ())):
        if word in words:
            place = f"/compensate_on/{at}"
            context.add("duplicate_value", f"`compensate_on` has `{word}` twice", place, "keep one of them")
        words |= {word} - {None}
    return frozenset(words)


def lint_compensation(context: Context, graph: Graph, paths: Mapping[str, str]) -> None:
    """Warns about compensations that never run, and about compensation without any."""
    undone = [name for name, node in graph.nodes.items() if node.compensate is not None]
    asking = _asking(graph, paths)
    if undone and not asking:
        message = f"no key leads to the compensation of `{undone[0]}`"
        hint = "write failure_policy: compensate, compensate_on: [cancel], or on_failure: compensate at a step"
        _warn(context, "compensation_never_runs", message, f"{paths[undone[0]]}/compensate", hint)
    elif asking and not undone:
        message = "the workflow asks for compensation, but no step has one"
        _warn(context, "nothing_to_compensate", message, asking, "add compensate: {run: python:module.undo} to a step")


def _asking(graph: Graph, paths: Mapping[str, str]) -> str:
    """Returns the first place that asks for compensation, or an empty string."""
    if graph.failure_policy == "compensate":
        return "/failure_policy"
    if graph.compensate_on:
        return "/compensate_on"
    for name, node in graph.nodes.items():
        for act in (node.step, node.call, node.wait):
            if act is not None and act.on_failure == "compensate":
                return f"{paths[name]}/on_failure"
    return ""


def _entries(document: Mapping[str, Json]) -> list[tuple[int, Mapping[str, Json]]]:
    return [(at, entry) for at, entry in enumerate(document.get("compensation", ())) if entry is not None]


def _warn(context: Context, code: str, message: str, path: str, hint: str) -> None:
    context.add(code, message, path, hint, severity="warning")
