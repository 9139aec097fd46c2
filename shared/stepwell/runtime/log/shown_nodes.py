"""Tells a history in the nodes of the definition: a node that the compiler added is a part of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stepwell.definition.graph import END, Graph, Json, Node
from stepwell.engine.entries import Entry
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class ShownNodes:
    """The nodes of one graph as people see them."""

    graph: Graph

    def told(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Returns a record's entries under the names of the definition. An added node without a step is passed."""
        return [self._entry(one) for one in entries]

    def _entry(self, entry: Entry) -> Entry:
        node = self.graph.nodes.get(entry.step)
        kind, data = entry.type, self._data(entry.data)
        if node is not None and node.part_of and entry.type == "step.completed":
            if node.step is None:
                kind = "node.passed"
            elif isinstance(data, dict):  # it reads the items of a fork, beside the result before it
                data = {name: value for name, value in data.items() if name != "output"}
        return replace(entry, type=kind, step=self.graph.seen_as(entry.step), data=data)

    def _data(self, data: Json) -> Json:
        if not isinstance(data, dict):
            return data
        data = dict(data)
        if isinstance(data.get("next"), str):
            data["next"] = self._led_to(data["next"])
        if isinstance(data.get("join"), str):
            data["join"] = self.graph.seen_as(data["join"])
        if isinstance(data.get("groups"), list):
            data["groups"] = [{**one, "node": self._led_to(one["node"])} for one in data["groups"]]
        if isinstance(error := data.get("error"), dict) and "step" in error:
            data["error"] = {**error, "step": self.graph.seen_as(error["step"])}
        return data

    def _led_to(self, name: str) -> str | None:
        """Returns the node to which a way leads; None for the end."""
        node = self.graph.nodes.get(name)
        while node is not None and node.part_of:
            if _is_between(node):
                return node.part_of
            name = node.rules[0].to or END
            node = self.graph.nodes.get(name)
        return None if name == END else name


def shown_nodes(graph: Graph) -> ShownNodes | None:
    """Returns None for a graph whose compiler added no part of a node."""
    return ShownNodes(graph) if any(node.part_of for node in graph.nodes.values()) else None


def _is_between(node: Node) -> bool:
    """Tells whether its own node goes on from an added one: where it forks, or pauses before it is tried again."""
    return node.wait is not None or node.fan_out == "all" or len(node.rules) != 1
