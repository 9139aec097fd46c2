"""How much a schedule may do before it is said to come to no end: more than its program can need."""

from __future__ import annotations

from collections import Counter

from stepwell.definition.graph import Node
from tests.sim.child_programs import DEEPEST
from tests.sim.programs import Program

MOST_CALLS = 400_000
MOST_IDLE = 100_000  # calls without a record: copies of old messages and looks make up to about 50,000
MOST_RECORDS = 3_000  # of all logs: a run that goes round for ever writes more and more; few families need as many
OF_A_RUN = 15  # records at most, with those of its branches; families of 90 to 620 runs write 7 to 10
WIDEST = 2  # branches of a fork in a run that starts others

_STARTS = "workflow:"


class Limits:
    """What one schedule may do. A workflow that starts itself, in each branch and at each attempt, needs much."""

    def __init__(self, program: Program) -> None:
        scale = max(1.0, most_runs(program) * OF_A_RUN / MOST_RECORDS)
        self._calls, self._idle, self._records = (int(most * scale) for most in (MOST_CALLS, MOST_IDLE, MOST_RECORDS))
        self._written = self._since = 0

    def are_over(self, calls: int, written: int) -> bool:
        """Whether a schedule with so many calls and records comes to no end, or goes round and records nothing."""
        if written != self._written:
            self._written, self._since = written, calls
        return calls > self._calls or written > self._records or calls - self._since > self._idle


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
