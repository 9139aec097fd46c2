"""Compiles the format `nodes`: a graph whose transitions are evaluated by priority."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stepwell.definition.clauses.computed import branches_at_once, is_template
from stepwell.definition.clauses.fan_in import fan_in_of
from stepwell.definition.formats.common import MODES, Context, check_name
from stepwell.definition.formats.places import node_of
from stepwell.definition.graph import END, Json, Node, Rule
from stepwell.definition.text import closest, pointer_part


def compile_nodes(context: Context, document: Mapping[str, Json]) -> dict[str, Node]:
    named = document.get("nodes", {})
    nodes: dict[str, Node] = {}
    for name, data in named.items():
        path = f"/nodes/{pointer_part(name)}"
        if _is_the_end(document, name, data):
            continue
        check_name(context, name, path, "node")
        if data.get("fan_out") == "all" and not data.get("transitions"):
            hint = "add transitions: each that applies gets a branch"
            context.add("misplaced_key", f"`fan_out: all` of `{name}` has nothing to fork", f"{path}/fan_out", hint)
        rules = _transitions(context, named, name, data, path)
        nodes[name] = replace(
            node_of(context, name, data, path, rules),
            fan_out=data.get("fan_out", "first_match"),
            fan_in=fan_in_of(context, name, data["fan_in"], f"{path}/fan_in") if "fan_in" in data else None,
        )
    return nodes


def _is_the_end(document: Mapping[str, Json], name: str, data: Mapping[str, Json]) -> bool:
    """Tells whether the node only writes down the end, which rules reach under this name without it: `end: {}`."""
    named = document["nodes"]
    start = document["start"] if document.get("start") in named else next(iter(named))
    return name == END != start and not data.keys() - {"description"}


def start_of(context: Context, document: Mapping[str, Json]) -> str:
    """Returns the node of `start`, or the first. `start` may also be the run's mode, unless a node has that name."""
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
        _check_branch_keys(context, transition, place)
        most = transition.get("max_concurrency")
        rule = Rule(
            id=f"{name}.transitions[{at}]",
            stage="transition",
            when=context.condition(transition, "when", place),
            to=target,
            max_uses=transition.get("max"),
            foreach=context.condition(transition, "foreach", place),
            item_name=transition.get("as"),
            max_concurrency=None if is_template(most) else most,
            bounds=context.computed(transition, "max_concurrency", place, "concurrency", branches_at_once),
        )
        # The default priority is the position from 1, so a list without priorities keeps its order.
        ranked.append((transition.get("priority", at + 1), at, rule))
    return tuple(rule for _, _, rule in sorted(ranked, key=lambda one: one[:2]))


def _check_branch_keys(context: Context, transition: Mapping[str, Json], path: str) -> None:
    for key in ("as", "max_concurrency"):
        if key in transition and "foreach" not in transition:
            context.add("misplaced_key", f"`{key}` needs a `foreach`", f"{path}/{key}", "add `foreach`, or remove it")
    if "as" in transition:
        check_name(context, transition["as"], f"{path}/as", "item")
