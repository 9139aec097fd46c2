"""The states that a run of a state machine has entered, in order, as its history tells."""

from __future__ import annotations

from stepwell.definition.graph import PART, Graph, Node
from stepwell.engine.entries import Entry
from stepwell.runtime.calls.service import Service
from stepwell.runtime.log.standing import Standing

MOST = 10_000  # a longer list helps nobody

_BEGINS = frozenset({"step.started", "sleep.started", "children.started"})
_IN_ONE = frozenset({"step.completed", "step.failed", "node.passed"})  # of a state that does nothing but pass data on


async def states_entered(service: Service, at: Standing) -> list[str]:
    """Reads the names of the states of the run and its branches, by the time when each was entered."""
    found: list[str] = []
    again: set[tuple[str, str]] = set()  # what a retrier leads back to has been entered before
    reading: set[tuple[str, str]] = set()  # states whose items are read, before they fork
    async for entry in (await service.node_narrator(at.run_id)).entries():
        node = at.graph.nodes.get(entry.step or "")
        if node is not None and node.is_made and entry.type == "sleep.started":
            again.add((entry.token, node.part_of))
        name = None if node is None or _is_last_part(at.graph, node) else _entered(node, entry)
        if node is not None and name is not None and (entry.token, name) in reading and node.step is None:
            reading.remove((entry.token, name))
            continue
        if node is not None and name is not None and node.is_made and node.step is not None:
            reading.add((entry.token, name))
        if name is not None and (entry.token, name) in again:
            again.remove((entry.token, name))
        elif name is not None:
            found.append(name)
        if len(found) == MOST:
            break
    return found


def _is_last_part(graph: Graph, node: Node) -> bool:
    """Tells whether a state's own node comes after others of it: it writes the results of a Map."""
    return node.step is not None and not node.is_made and f"{node.name}{PART}fork" in graph.nodes


def _entered(node: Node, entry: Entry) -> str | None:
    """Returns the state that this entry tells the beginning of; None if it tells of none."""
    if node.is_made:
        if node.step is not None:  # that reads the items
            return node.part_of if entry.type in _BEGINS else None
        is_unforked = entry.type == "step.failed" and any(rule.foreach for rule in node.rules)  # its items failed
        return node.part_of if is_unforked or entry.type == "fork.opened" else None
    if entry.type in _BEGINS:
        return node.name if entry.attempt in {None, 1} else None
    is_plain = node.step is None and node.wait is None and node.call is None and node.fan_in is None
    return node.name if is_plain and entry.type in _IN_ONE else None
