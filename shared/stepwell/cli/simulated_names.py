"""Refuses assumptions about a step, a wait or a rule that the workflow does not have: they would change nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from stepwell.definition.graph import Graph, Node
from stepwell.simulation.assumptions import Assumptions
from stepwell.testing.names import Names


def refuse_unknown(
    given: Assumptions, graphs: Iterable[Graph], folder: Path, met: Collection[str] | None = None
) -> None:
    """Raises UserError for a name that nothing has. `met`: the names of what ran; None: nothing has run yet.

    What a durable function names is known for certain only afterwards.
    """
    known = tuple(graphs)
    nodes = {name: node for graph in known for name, node in graph.nodes.items() if node.durable is None}
    code = folder if any(graph.replays for graph in known) else None
    waits = [name for name, node in nodes.items() if node.wait is not None]
    rules = [rule for node in nodes.values() for rule in node.rules]
    lists = [name for name, node in nodes.items() if any(rule.foreach for rule in node.rules)]
    for names, wanted, said in (
        (Names("step", _steps(nodes), (), code), given.steps, "steps"),
        (Names("wait", waits, (), code), given.waits, "waits"),
        (Names("rule", [rule.id for rule in rules], (), None), given.rules, "rules"),
        (Names("foreach", lists, (), None), given.items, "items"),
    ):
        if met is None:
            names.refuse(wanted, said)
        else:
            names.refuse_unmet(wanted, met, said)


def _steps(nodes: Mapping[str, Node]) -> Iterable[str]:
    """The nodes that attempts are made at. A child of another folder is simulated as one."""
    for name, node in nodes.items():
        waiting = node.wait or node.call
        if node.step is not None or node.call is not None or (waiting is not None and waiting.timeout_actions):
            yield name
        if node.compensate is not None:
            yield from (name, f"{name}.compensate")
