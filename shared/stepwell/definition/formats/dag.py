"""Compiles the format `steps`, a DAG: a step begins when all its dependencies have ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from stepwell.definition.clauses.compensation import listed_compensations
from stepwell.definition.formats.common import Context, check_name, check_start
from stepwell.definition.formats.places import node_of
from stepwell.definition.graph import Json, Node, Retry
from stepwell.definition.text import closest

Dag = Mapping[str, tuple[str, ...]]

DEFAULT_RETRY = Retry(on=frozenset({"transient"}))


def compile_steps(context: Context, document: Mapping[str, Json]) -> dict[str, Node]:
    """Compiles each step to a node without rules, because `start_node` has the dependencies."""
    nodes: dict[str, Node] = {}
    dag = dag_of(document)
    context.default_retry = context.default_retry or DEFAULT_RETRY
    for at, entry in enumerate(document.get("steps", ())):
        if entry is None:
            continue
        name, path = entry["name"], f"/steps/{at}"
        check_name(context, name, f"{path}/name", "node")
        if name in nodes:
            message = f"two steps are named `{name}`"
            context.add("duplicate_name", message, f"{path}/name", "rename one, because results are stored by name")
        _check_dependencies(context, dag, entry, path)
        node = node_of(context, name, entry, path, ())
        nodes.setdefault(name, node)
    listed = listed_compensations(context, document, nodes)
    check_start(context, document, "a run starts with the steps that depend on none; `start` is auto or manual")
    return {name: replace(node, compensate=node.compensate or listed.get(name)) for name, node in nodes.items()}


def start_node(dag: Dag) -> dict[str, Node]:
    """Returns the node with a branch for each step. Neither it nor its records have a name."""
    return {"": Node("", members=dag, is_made=True)}


def dag_of(document: Mapping[str, Json]) -> dict[str, tuple[str, ...]]:
    """Returns each step's dependencies in the order of the definition."""
    steps = [step for step in document.get("steps", ()) if step is not None]
    return {step["name"]: tuple(one for one in step.get("depends_on", ()) if one is not None) for step in steps}


def check_dag(context: Context, dag: Dag, paths: Mapping[str, str]) -> None:
    """Reports cycles, and warns about a step that reads another that may not have ended."""
    if dag and all(dag.values()):
        context.add(
            "no_root",
            "every step depends on another, so none can begin",
            "/steps",
            "remove the dependencies of one step",
        )
    try:
        order = tuple(TopologicalSorter(dag).static_order())
    except CycleError as error:
        circle = _circle(error.args[1], dag)
        message = f"`{' -> '.join(circle)}`: each of these steps depends on the next"
        context.add("cycle", message, f"{paths[circle[0]]}/depends_on", "remove one of these dependencies")
    else:
        _check_read(context, dag, order, paths)


def _circle(found: list[str], dag: Dag) -> list[str]:
    """Reverses graphlib's cycle, so that each step depends on the next, and starts it at the first step."""
    steps = found[:0:-1]
    at = steps.index(min(steps, key=list(dag).index))
    return [*steps[at:], *steps[:at], steps[at]]


def _check_read(context: Context, dag: Dag, order: tuple[str, ...], paths: Mapping[str, str]) -> None:
    before: dict[str, set[str]] = {}  # for each step, the steps that have ended when it begins
    for name in order:
        before[name] = {*dag[name]}.union(*(before[one] for one in dag[name]))
    names = {path: name for name, path in paths.items()}
    for read, path in context.steps_read:
        list_key, at, key = path.split("/")[1:4]
        if list_key == "compensation" or key == "compensate":
            continue  # it runs during a rollback, when dependencies do not tell which steps have ended
        reader = names[f"/{list_key}/{at}"]
        if read not in before[reader]:
            message = f"`{reader}` reads `steps.{read}`, which may not have ended"
            hint = f"add `{read}` to its depends_on" if read != reader else "its own result is `result`"
            context.add("not_a_dependency", message, path, hint, severity="warning")


def _check_dependencies(context: Context, dag: Dag, entry: Mapping[str, Json], path: str) -> None:
    seen = set()
    for at, name in enumerate(entry.get("depends_on", ())):
        place = f"{path}/depends_on/{at}"
        if name is None:
            continue
        if name not in dag:
            message = f"`depends_on` names `{name}`, which does not exist"
            context.add("unknown_dependency", message, place, closest(name, dag))
        if name in seen:
            context.add("duplicate_dependency", f"`depends_on` names `{name}` twice", place, "remove one")
        seen.add(name)
