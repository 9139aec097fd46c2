"""A durable function's run as a graph: its operations and what followed what, made from its log.

    a, ctx.all(b, c), ctx.map(d), a        start ─ a ─┬─ b ─┬─ d 200x ─ a (2)
                                                    └─ c ─┘

One after the other is a chain. The branches of a fork stand side by side. What tasks begin follows what ended just
before it. Where several had ended, the log does not tell which of them it awaited: edges from all but the last one are
of stage `after`. A map is one node with counts, and so is a name that stands side by side
more than BESIDE times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias

from stepwell.api.graphs import EdgeView, GraphView, NodeView, graph_view, node_states
from stepwell.api.ran import steps_of, summed, taken_edges, views_in
from stepwell.api.states import wait_of
from stepwell.api.steps import StepResult, step_result
from stepwell.api.trying import tried_at, tried_in
from stepwell.definition.graph import END, Graph, Json
from stepwell.engine.durable.tasks import place_of
from stepwell.engine.fold import apply
from stepwell.engine.forks.branches import fork_id
from stepwell.engine.records import ENDED, TASKS, Fork, Kind, Parked, Place, Record, Status
from stepwell.engine.token import StepView, Token
from stepwell.limits import SURVEY_RECORDS
from stepwell.runtime.calls.service import Service
from stepwell.runtime.calls.survey import Surveyed
from stepwell.runtime.log.conditions import UNTIL, own_wait
from stepwell.runtime.log.standing import Standing
from stepwell.values import dataclass

BESIDE = 6  # operations of one name that stand side by side; more are one node
DRAWN = 200  # nodes; of a longer log, the newest

AFTER = "after"  # the stage of an edge from what ended, before another end made the tasks go on

_UNDER_WAY = frozenset({"running", "waiting"})
_OVER = frozenset({"completed", "failed", "cancelled", "compensated"})
_Tips: TypeAlias = tuple[int, ...]  # of operations, by index: those that the next one follows


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


@dataclass(slots=True)
class _Operation:
    """`alike`: the same number for those of one name that follow the same ones. `counts`: of a map, by status.

    `unsure`: those of `after` that ended before another one did.
    """

    name: str
    view: StepView
    after: _Tips
    alike: int = 0
    wait: str | None = None
    unsure: frozenset[int] = frozenset()
    counts: Counter[str] | None = None
    views: list[StepView] = field(default_factory=list)  # of a map, those that were read


def flow_of(at: Standing, begun: Token, records: Iterable[Record], forks: Iterable[Surveyed], status: str) -> Flow:
    """Builds the graph of a run from its forks and its own log: `begun`, and the records since then.

    `status`: how the run itself is drawn.
    """
    reading = _Reading(at.graph, begun, {fork.id: fork for fork in forks})
    for record in records:
        reading.take(record)
    reading.end(at.token)
    return _drawn(at.graph, reading, status)


class _Reading:
    """Reads a log into operations, and `tips`: the last ones, which the next one follows."""

    def __init__(self, graph: Graph, begun: Token, forks: Mapping[str, Surveyed]) -> None:
        self.operations: list[_Operation] = []
        self.tips: _Tips = ()
        self._graph, self._token, self._forks = graph, begun, forks
        self._alike: dict[tuple[str, frozenset[int]], int] = {}
        self._open: int | None = None  # the operation that the last record left under way
        self._own_wait: int | None = None  # the wait for a condition that is under way
        self._places: dict[Place, _Tips] = {}  # of what tasks began: its last operations
        self._ended: _Tips = ()  # what the tasks go on from
        self._latest: _Tips = ()  # what ended last
        self._have_gone_on = True  # the next end is the first one since then

    def take(self, record: Record) -> None:
        """Takes the next record of the run's own log."""
        before, self._token = self._token, apply(self._token, record)
        self._waited(record)
        if record.resumption is not None and record.resumption.kind == ENDED:
            place = place_of(record.resumption.part)
            ended = self._places.get(place, ())
            self._latest = ended
            self._ended = ended if self._have_gone_on else (*self._ended, *ended)
            self._have_gone_on = False
            if not self._token.has_open_tasks:
                self._ended = ()
        elif record.parked is not None and record.parked.of_tasks:
            self._begin(record)
        elif isinstance(record.next, Fork) and record.next.is_awaited:
            self._fork(record)
        elif record.kind is not Kind.JOINED:
            self._own(record, before)

        if record.parked is not None and own_wait(self._token) is record.parked:
            self._wait(record, wait_of(self._graph, self._token))

    def _waited(self, record: Record) -> None:
        """Ends the function's wait for itself, if the function went on with this record, or was ended by it."""
        now = own_wait(self._token)
        if self._own_wait is None or (now is not None and now is not record.parked):
            return
        operation, self._own_wait = self.operations[self._own_wait], None
        status = "cancelled" if record.kind is Kind.ENDED else "completed"
        operation.view = replace(operation.view, status=status, ended_ms=record.at_ms)

    def _wait(self, record: Record, shown: tuple[Parked, str] | None) -> None:
        """Adds a wait of the function for itself, after all that came before."""
        view = StepView("waiting", started_ms=record.at_ms)
        self._own_wait = self._add(_Operation(UNTIL, view, self.tips, wait=shown[0].kind if shown else TASKS))
        self.tips, self._ended, self._latest = (self._own_wait,), (), ()

    def _begin(self, record: Record) -> None:
        """What tasks begin follows what ended since they went on; with nothing under way, all that came before.

        It follows what they cancelled with it, too.
        """
        cancelled = record.parked.cancelled if record.parked is not None else ()
        stopped = [one for place in cancelled for one in self._places.get(place_of(place), ())]
        before = _each_once((*self._ended, *stopped)) or self.tips
        self._ended, self._have_gone_on = before, True
        known = {*self._latest, *stopped}
        unsure = frozenset(before) - known if known.intersection(before) else frozenset[int]()
        fork = self._forks.get(fork_id(self._token.id, record.slot))
        if fork is None:
            return
        added: list[int] = []
        first = len(self.operations)
        for index, branch in enumerate(fork.branches):
            ends = self._branch(fork, index, branch, before)
            self._places[record.slot, index] = ends
            added.extend(ends)
        if fork.counts:  # so wide that its branches were not read
            name = next(iter(fork.counts)) if len(fork.counts) == 1 else "tasks"
            ends = self._counted(fork, name, before, [])
            self._places |= {(record.slot, index): ends for index in range(fork.fork.width)}
            added.extend(ends)
        for index in range(first, len(self.operations)):
            self.operations[index].unsure = unsure.intersection(self.operations[index].after)
        self.tips = _each_once((*(one for one in self.tips if one not in before), *added))

    def _fork(self, record: Record) -> None:
        fork = self._forks.get(fork_id(self._token.id, record.slot))
        if fork is not None:  # else it is so old that it was not read, or it was reopened
            self.tips = self._forked(fork, self.tips) or self.tips
            self._ended = self._latest = ()

    def _forked(self, fork: Surveyed, before: _Tips) -> _Tips:
        branches = [self._views(fork, index, one) for index, one in enumerate(fork.branches)]
        own = {name for views in branches for name, _ in views}
        if fork.counts or (not fork.inner and own == {fork.node}):
            return self._counted(fork, fork.node, before, [view for found in branches for _, view in found])
        ends = [self._branch(fork, index, one, before) for index, one in enumerate(fork.branches)]
        return _each_once(one for found in ends for one in found)

    def _counted(self, fork: Surveyed, name: str, before: _Tips, views: list[StepView]) -> _Tips:
        """Adds all branches of a fork as one."""
        counts = Counter(view.status for view in views)
        for by_status in fork.counts.values():
            counts.update(by_status)
        return (self._add(_Operation(name, StepView("pending"), before, counts=counts, views=views)),)

    def _views(self, fork: Surveyed, index: int, branch: Token) -> list[tuple[str, StepView]]:
        """Returns a branch's steps. If it was cancelled before its first record, it has its name from its fork."""
        views = [*views_in(self._graph, fork, index, branch)]
        if not views and branch.end is not None and branch.end.status is Status.CANCELLED:
            return [(fork.names[index] if fork.names else fork.node, StepView("cancelled"))]
        return views

    def _branch(self, fork: Surveyed, index: int, branch: Token, before: _Tips) -> _Tips:
        """Adds what a branch did: one operation, or the fork that it is itself."""
        tips = before
        for name, view in self._views(fork, index, branch):
            wait = branch.parked.kind if branch.parked is not None else None
            tips = (self._add(_Operation(name, view, tips, wait=wait)),)
        for inner in fork.inner:
            if inner.id.rpartition("/")[0] == branch.id:
                tips = self._forked(inner, tips) or tips
        return tips

    def _own(self, record: Record, before: Token) -> None:
        """Takes what a record tells of one operation: its tries, and the records of its wait, are one."""
        view = self._token.steps.get(record.node)
        if view is None or view is before.steps.get(record.node):
            return
        if self._open is None or self.operations[self._open].name != record.node:
            self._open = self._add(_Operation(record.node, view, self.tips))
            self.tips, self._ended, self._latest = (self._open,), (), ()
        operation = self.operations[self._open]
        operation.view = view
        if record.parked is not None:
            operation.wait = record.parked.kind
        if view.status not in _UNDER_WAY:
            self._open = None

    def end(self, token: Token) -> None:
        """Shows what is under way as it is now."""
        if self._open is not None:
            operation = self.operations[self._open]
            operation.view = token.steps.get(operation.name, operation.view)

    def _add(self, one: _Operation) -> int:
        key = one.name, frozenset(self.operations[index].alike for index in one.after)
        one.alike = self._alike.setdefault(key, len(self._alike) + 1)
        self.operations.append(one)
        return len(self.operations) - 1


def _each_once(found: Iterable[int]) -> _Tips:
    return tuple(dict.fromkeys(found))


def _drawn(graph: Graph, reading: _Reading, status: str) -> Flow:
    """Puts operations that are alike into one node, names the nodes, and draws the edges between them."""
    operations = reading.operations
    widths = Counter(one.alike for one in operations)
    at_node = [-one.alike if widths[one.alike] > BESIDE else index for index, one in enumerate(operations)]
    members: dict[int, list[_Operation]] = {}
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
    start: str, reading: _Reading, names: Sequence[str], steps: Mapping[str, StepResult], *, is_over: bool
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


def _has_begun(one: _Operation) -> bool:
    counts = one.counts or Counter((one.view.status,))
    return counts.total() > counts["pending"]


def _step(found: Sequence[_Operation]) -> StepResult:
    if len(found) == 1 and found[0].counts is None:
        return step_result(found[0].view)
    counts = Counter[str]()
    for one in found:
        counts.update(Counter((one.view.status,)) if one.counts is None else one.counts)
    return summed([view for one in found for view in (one.views if one.counts is not None else [one.view])], counts)


def _numbered(name: str, used: Counter[str]) -> str:
    """Returns the name of a node: the operation's, with a number where that is taken."""
    used[name] += 1
    return name if used[name] == 1 else _numbered_again(name, used)


def _numbered_again(name: str, used: Counter[str]) -> str:
    numbered = f"{name} ({used[name]})"
    return _numbered(name, used) if used[numbered] else _numbered(numbered, used)


def _operation(name: str, found: Sequence[_Operation]) -> NodeView:
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
