"""What type of state each node of a workflow is: of a state machine as written, else Task, Wait or Pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stepwell.api.step_functions.machines import FORMAT
from stepwell.definition.graph import Graph, Json, Node
from stepwell.engine.waits.kind import kind_named

_OWN = "stepwell"  # the type of a resource that is no integration of Step Functions
_INTEGRATION = ":states:::"


class Kinds:
    """The states of one graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.is_machine = graph.format == FORMAT
        self._states = dict(_states(graph.document)) if self.is_machine else {}

    def of(self, state: str) -> str:
        """Returns the type of a state. An operation of a durable function, which is no node, is a Task."""
        if state in self._states:
            return str(self._states[state].get("Type", "Pass"))
        node = self._graph.nodes.get(state)
        return "Task" if node is None else _kind(node)

    def is_made(self, name: str) -> bool:
        node = self._graph.nodes.get(name)
        return node is not None and node.is_made

    def is_step(self, name: str) -> bool:
        """Tells whether the node runs a step: of those that the compiler made, one that reads a Map's items."""
        node = self._graph.nodes.get(name)
        return node is not None and node.step is not None

    def is_between(self, name: str) -> bool:
        """Tells whether the compiler made a node that its state goes on from.

        It reads the items there, forks, keeps the results to write them, or pauses before it is tried again.
        """
        node = self._graph.nodes.get(name)
        if node is None or not node.is_made:
            return False
        is_plain = not (node.step or node.wait or node.fan_in) and node.fan_out != "all"
        return not is_plain or any(rule.foreach for rule in node.rules)

    def is_sleep(self, name: str) -> bool:
        """Tells whether the node is a Wait state as written. A node of its own makes its output, if it has any."""
        return self._states.get(name, {}).get("Type") == "Wait"

    def state_of(self, name: str) -> str:
        """Returns the state that a node is part of, or is."""
        node = self._graph.nodes.get(name)
        return name if node is None else node.part_of or name

    def resource(self, state: str) -> dict[str, Json]:
        """Returns what a task runs: the resource as written, else the step."""
        written = str(self._states.get(state, {}).get("Resource", ""))
        if _INTEGRATION in written:
            service, _, action = written.partition(_INTEGRATION)[2].partition(":")
            return {"resourceType": service, "resource": action}
        node = self._graph.nodes.get(state)
        run = node.step.run if node is not None and node.step is not None else state
        return {"resourceType": _OWN, "resource": written or run}


def _states(machine: Mapping[str, Json]) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """Yields the states of a machine and of those inside it. Their names are unique."""
    for name, state in machine["States"].items():
        yield name, state
        inner = [*state.get("Branches", ()), *(state[key] for key in ("ItemProcessor", "Iterator") if key in state)]
        for one in inner:
            yield from _states(one)


def _kind(node: Node) -> str:
    if node.wait is not None and kind_named(node.wait.kind).is_timed:
        return "Wait"
    return "Task" if node.step or node.call or node.wait else "Pass"
