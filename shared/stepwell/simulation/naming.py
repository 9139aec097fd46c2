"""The names that assumptions may have: those of the steps, waits, rules and lists of workflows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from stepwell.definition.graph import Graph, Node
from stepwell.definition.text import closest
from stepwell.errors import InvalidInput
from stepwell.simulation.assumptions import Assumptions

KINDS = {"steps": "step", "waits": "wait", "rules": "rule", "items": "foreach"}  # what each key of assumptions is about


def names_of(graphs: Iterable[Graph]) -> Mapping[str, Sequence[str]]:
    """Returns the names by the key of assumptions; of durable functions, whose code gives the names, none."""
    nodes = {name: node for graph in graphs for name, node in graph.nodes.items() if node.durable is None}
    return {
        "steps": list(_steps(nodes)),
        "waits": [name for name, node in nodes.items() if node.wait is not None or _is_answered(node)],
        "rules": [rule.id for node in nodes.values() for rule in node.rules],
        "items": [node.part_of or name for name, node in nodes.items() if any(rule.foreach for rule in node.rules)],
    }


def refuse_unnamed(given: Assumptions, graphs: Iterable[Graph]) -> None:
    """Raises InvalidInput for an assumption about a name that no graph has: it would change nothing."""
    wanted = {"steps": given.steps, "waits": given.waits, "rules": given.rules, "items": given.items}
    for key, names in names_of(graphs).items():
        for name in wanted[key]:
            if name not in names:
                hint = closest(name, names) or f"there is no {KINDS[key]} to name"
                raise InvalidInput(f"{key}: no {KINDS[key]} is called {name!r}", code="no_such_name", hint=hint)


def _is_answered(node: Node) -> bool:
    return node.step is not None and node.step.callback is not None


def _steps(nodes: Mapping[str, Node]) -> Iterator[str]:
    """The nodes that attempts are made at. A child of another folder is simulated as one."""
    for name, node in nodes.items():
        waiting = node.wait or node.call
        if node.step is not None or node.call is not None or (waiting is not None and waiting.timeout_actions):
            yield node.part_of or name
        if node.compensate is not None:
            yield from (name, f"{name}.compensate")
