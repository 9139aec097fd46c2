"""Leads the ways of a graph past the nodes that the compiler added: from each shown node to the next ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from stepwell.definition.graph import Graph, Node, Rule


def shown_rules(graph: Graph, node: Node) -> Iterator[Rule]:
    """Yields the node's rules. A rule to an added node is yielded once for each node behind it."""
    for rule in node.rules:
        if rule.to is None:
            yield rule
        else:
            yield from (replace(rule, to=name) for name in led_past(graph, rule.to))


def led_past(graph: Graph, name: str) -> list[str]:
    """Returns the node itself, or the shown ones to which an added node leads."""
    found: dict[str, None] = {}
    waiting, seen = [name], {name}
    while waiting:
        at = waiting.pop(0)
        node = graph.nodes.get(at)
        if node is None or not node.is_made or not node.rules:
            found[at] = None
            continue
        # an added node's ways for errors are those of the node that it is a part of
        behind = dict.fromkeys(rule.to for rule in node.rules if rule.to is not None and not rule.reads_error)
        waiting.extend(to for to in behind if to not in seen)
        seen.update(behind)
    return list(found)
