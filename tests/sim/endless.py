"""How much a schedule may do before it is said to come to no end: more than its program can need."""

from __future__ import annotations

from collections import Counter

from stepwell.definition.graph import Node
from tests.sim.child_programs import DEEPEST
from tests.sim.programs import Program

MOST_CALLS = 150_000
MOST_RECORDS = 3_000  # of all logs: a run that goes round for ever writes more and more; few families need as many
OF_A_RUN = 15  # records at most, with those of its branches; families of 90 to 620 runs write 7 to 10
WIDEST = 2  # branches of a fork in a run that starts others

_STARTS = "workflow:"


def most_of(program: Program) -> tuple[int, int]:
    """The most calls and records. A workflow that starts itself, in each branch and at each attempt, needs many."""
    scale = max(1.0, most_runs(program) * OF_A_RUN / MOST_RECORDS)
    return int(MOST_CALLS * scale), int(MOST_RECORDS * scale)


def most_runs(program: Program) -> int:
    """How many runs there are at most of the program's run and all that it starts."""
    started = {one.graph.name: _started(one) for one in (program, *program.callees)}

    def of(name: str, depth: int) -> int:
        if name not in started or depth > DEEPEST:
            return 0
        return 1 + sum(times * of(child, depth + 1) for child, times in started[name].items())

    return of(program.graph.name, 0)


def _started(program: Program) -> Counter[str]:
    """How often one run starts each workflow, where every attempt of every branch fails."""
    nodes = program.graph.nodes.values()
    width = WIDEST if any(rule.foreach for node in nodes for rule in node.rules) else 1
    return Counter(name for node in nodes for name in _started_by(program, node) for _ in range(width))


def _started_by(program: Program, node: Node) -> list[str]:
    if node.call is not None:
        attempts = 1 + (node.call.retry.max_retries if node.call.retry else 0)
        return [child.workflow for child in node.call.children] * attempts
    if node.step is not None and node.step.run.startswith(_STARTS):
        return [node.step.run.removeprefix(_STARTS)]
    pause = program.directives.get(node.name)
    if pause is None or pause.kind != "children" or not isinstance(pause.data, list):
        return []
    return [asked["workflow"] for asked in pause.data]
