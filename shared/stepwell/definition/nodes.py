"""Compiles the format `nodes`: a graph whose transitions are tried by priority."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.common import Context, check_name
from stepwell.definition.graph import END, Json, Node, Rule
from stepwell.definition.places import node_of
from stepwell.definition.text import closest, pointer_part

MODES = ("auto", "manual")


def compile_nodes(context: Context, document: Mapping[str, Json]) -> dict[str, Node]:
    named = document.get("nodes", {})
    nodes: dict[str, Node] = {}
    for name, data in named.items():
        path = f"/nodes/{pointer_part(name)}"
        check_name(context, name, path, "node")
        nodes[name] = node_of(context, name, data, path, _transitions(context, named, name, data, path))
    return nodes


def start_of(context: Context, document: Mapping[str, Json]) -> str:
    """The first node, or the one that `start` names. `start` is also the run's mode, unless a node has that name."""
    named = document.get("nodes", {})
    start = document.get("start")
    if start in named:
        return str(start)
    if start is not None and start not in MODES:
        hint = closest(start, named)
        context.add("unknown_start", f"`start` names `{start}`, which does not exist", "/start", hint)
    return next(iter(named), "")


def _transitions(
    context: Context, named: Mapping[str, Json], name: str, data: Mapping[str, Json], path: str
) -> tuple[Rule, ...]:
    ranked: list[tuple[int, int, Rule]] = []
    for at, transition in enumerate(data.get("transitions", ())):
        if transition is None:
            continue
        place = f"{path}/transitions/{at}"
        target = transition["to"]
        if target != END and target not in named:
            context.add(
                "unknown_target", f"`to` names `{target}`, which does not exist", f"{place}/to", closest(target, named)
            )
        rule = Rule(
            id=f"{name}.transitions[{at}]",
            stage="transition",
            when=context.condition(transition, "when", place),
            to=target,
            max_uses=transition.get("max"),
        )
        # Without a priority: the order written, from 1, so that a list without any is tried as it stands.
        ranked.append((transition.get("priority", at + 1), at, rule))
    return tuple(rule for _, _, rule in sorted(ranked, key=lambda one: one[:2]))
