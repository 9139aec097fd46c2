"""A run as it is drawn. That of a durable function is made from its operations, that of others from their graph.

    a, ctx.all(b, c), ctx.map(d), a        start ─ a ─┬─ b ─┬─ d 200x ─ a (2)
                                                    └─ c ─┘

Edges from all that ended before an operation are drawn; those from all but the last one are of stage `after`. A map is
one node with counts, and so is a name that stands side by side more than BESIDE times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from stepwell.api.graphs import EdgeView, GraphView, NodeView, graph_view, node_states
from stepwell.api.runs.operations import Operation, Reading
from stepwell.api.runs.ran import steps_of, summed, taken_edges
from stepwell.api.runs.steps import StepResult, step_result
from stepwell.api.runs.trying import tried_at, tried_in
from stepwell.definition.graph import END, Graph, Json
from stepwell.engine.records import Record
from stepwell.engine.token import Token
from stepwell.limits import SURVEY_RECORDS
from stepwell.runtime.calls.service import Service
from stepwell.runtime.calls.survey import Surveyed
from stepwell.runtime.log.standing import Standing
from stepwell.values import dataclass

BESIDE = 6  # operations of one name that stand side by side; more are one node
DRAWN = 200  # nodes; of a longer log, the newest

AFTER = "after"  # the stage of an edge from what ended, before another end made the tasks go on

_OVER = frozenset({"completed", "failed", "cancelled", "compensated"})


@dataclass(frozen=True, slots=True)
class Flow:
    """A run as it is drawn: a graph, and the status and the step of each node that the run came to.

    `taken`: how often each edge was.
    """

    name: str
    view: GraphView
    states: Mapping[str, str]
    steps: Mapping[str, StepResult]
    taken: Mapping[str, int]

    def json(self) -> dict[str, Json]:
        """Returns the graph as the API answers with it."""
        return {**self.view, "states": self.states, "steps": self.steps, "taken": self.taken}


def flow_of(at: Standing, begun: Token, records: Iterable[Record], forks: Iterable[Surveyed], status: str) -> Flow:
    """Builds the graph of a run from its forks and its own log: `begun`, and the records since then.

    `status`: how the run itself is drawn.
    """
    reading = Reading(at.graph, begun, {fork.id: fork for fork in forks})
    for record in records:
        reading.take(record)
    reading.end(at.token)
    return _drawn(at.graph, reading, status)


def _drawn(graph: Graph, reading: Reading, status: str) -> Flow:
    """Puts operations that are alike into one node, names the nodes, and draws the edges between them."""
    operations = reading.operations
    widths = Counter(one.alike for one in operations)
    at_node = [-one.alike if widths[one.alike] > BESIDE else index for index, one in enumerate(operations)]
    members: dict[int, list[Operation]] = {}
    for node, one in zip(at_node, operations, strict=True):
        members.setdefault(node, []).append(one)
    left_out = f"{len(members) - DRAWN} nodes before" if len(members) > DRAWN else None
    used = Counter({graph.start: 1, END: 1})
    numbered = {node: _numbered(same[0].name, used) for node, same in members.items()}  # also what is not drawn
    names = dict(list(numbered.items())[-DRAWN:])
    steps = {name: _step(members[node]) for node, name in names.items()}
    came = dict(_edges(graph.start, reading, [names.get(node, "") for node in at_node], steps, is_over=status in _OVER))
    return Flow(
        name=graph.name,
        view=GraphView(
            start=graph.start,
            nodes=[_node(graph.start, "function"), *(_operation(name, members[node]) for node, name in names.items())],
            edges=[
                _edge(*ends, left_out if ends[0] == graph.start else None, is_sure=is_sure)
                for ends, (_, is_sure) in came.items()
            ],
        ),
        states={graph.start: status, **{name: step["status"] for name, step in steps.items()}},
        steps=steps,
        taken={_edge_id(*ends): 1 for ends, (is_taken, _) in came.items() if is_taken},
    )


def _edges(
    start: str, reading: Reading, names: Sequence[str], steps: Mapping[str, StepResult], *, is_over: bool
) -> Iterator[tuple[tuple[str, str], tuple[bool, bool]]]:
    """Yields the ends of each edge, whether the run went that way, and whether it is from what ended last.

    `names`: each operation's node, if it is drawn.

    What follows something that was cancelled and something that was not went on from the latter.
    """
    came: dict[tuple[str, str], tuple[bool, bool]] = {}
    for name, one in zip(names, reading.operations, strict=True):
        if name:
            ways = list(dict.fromkeys(names[index] or start for index in one.after)) or [start]
            sure = {names[index] or start for index in one.after if index not in one.unsure} or {start}
            left = [before for before in ways if _is_left(steps.get(before))] or ways
            for before in ways:
                is_taken, is_sure = came.get((before, name), (False, False))
                is_taken = is_taken or (_has_begun(one) and before in left)
                came[before, name] = is_taken, is_sure or before in sure
    yield from came.items()
    for name in dict.fromkeys(names[index] for index in reading.tips if is_over):
        if name:
            yield (name, END), (_is_left(steps[name]), True)


def _is_left(before: StepResult | None) -> bool:
    return before is None or before["status"] != "cancelled"


def _has_begun(one: Operation) -> bool:
    counts = one.counts or Counter((one.view.status,))
    return counts.total() > counts["pending"]


def _step(found: Sequence[Operation]) -> StepResult:
    if len(found) == 1 and found[0].counts is None:
        return step_result(found[0].view)
    counts = Counter[str]()
    for one in found:
        counts.update(Counter((one.view.status,)) if one.counts is None else one.counts)
    return summed([view for one in found for view in (one.views if one.counts is not None else [one.view])], counts)


def _numbered(name: str, used: Counter[str]) -> str:
    """Returns the name of a node: the operation's, with a number where that is taken."""
    free = name
    while used[free]:
        used[name] += 1
        free = f"{name} ({used[name]})"
    used[free] += 1
    return free


def _operation(name: str, found: Sequence[Operation]) -> NodeView:
    one = found[0]
    calls = [child.workflow for child in one.view.children]
    return _node(name, "call" if calls else "operation", one.name, one.wait, calls)


def _node(
    name: str, kind: str, operation: str | None = None, wait: str | None = None, calls: Sequence[str] = ()
) -> NodeView:
    return NodeView(
        name=name,
        kind=kind,
        operation=operation,
        run=None,
        wait=wait,
        calls=list(calls),
        compensate=None,
        terminal=False,
        forks_to=None,
        joins=None,
    )


def _edge(before: str, name: str, when: str | None, *, is_sure: bool) -> EdgeView:
    return EdgeView(
        {
            "id": _edge_id(before, name),
            "from": before,
            "to": name,
            "stage": "" if is_sure else AFTER,
            "when": when,
            "foreach": None,
            "fail": None,
        }
    )


def _edge_id(before: str, name: str) -> str:
    return f"{before}>{name}"


async def read_flow(service: Service, at: Standing, forks: Iterable[Surveyed], status: str) -> Flow:
    """Reads the newest records of the run's own log, and builds the run's graph from them."""
    logbook = (await service.narrator(at.run_id)).logbook
    first = max(at.token.slot - SURVEY_RECORDS, 0)
    begun = await logbook.token_before(at.run_id, first) or Token()
    records = await logbook.history(at.run_id, at.token.id, begun.slot, None)
    return flow_of(at, begun, records, forks, status)


async def read_drawn(service: Service, at: Standing) -> Flow:
    """Reads a run as it is drawn, and what became of each node."""
    now_ms = service.ports.clock.now_ms()
    forks, at = tried_in(at, await service.survey(at), now_ms), tried_at(at, now_ms)
    steps = steps_of(at, forks)
    states = node_states(at, steps)
    if at.graph.replays:
        return await read_flow(service, at, forks, states[at.graph.start])
    return Flow(at.graph.name, graph_view(at.graph), states, steps, taken_edges(at, forks))
