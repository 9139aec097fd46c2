"""A durable function's log as operations, and which of them each one follows.

    a, ctx.all(b, c), ctx.map(d), a        a ─┬─ b ─┬─ d ─ a
                                             └─ c ─┘

One after the other is a chain. The branches of a fork stand side by side. What tasks begin follows what ended just
before it. Where several had ended, the log does not tell which of them it awaited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import TypeAlias

from stepwell.api.runs.ran import views_in
from stepwell.api.runs.states import wait_of
from stepwell.definition.graph import Graph
from stepwell.engine.durable.tasks import place_of
from stepwell.engine.fold import apply
from stepwell.engine.forks.branches import fork_id
from stepwell.engine.records import ENDED, TASKS, Fork, Kind, Parked, Place, Record, Status
from stepwell.engine.token import StepView, Token
from stepwell.runtime.calls.survey import Surveyed
from stepwell.runtime.log.conditions import UNTIL, own_wait
from stepwell.values import dataclass

_UNDER_WAY = frozenset({"running", "waiting"})
Tips: TypeAlias = tuple[int, ...]  # of operations, by index: those that the next one follows


@dataclass(slots=True)
class Operation:
    """`alike`: the same number for those of one name that follow the same ones. `counts`: of a map, by status.

    `unsure`: those of `after` that ended before another one did.
    """

    name: str
    view: StepView
    after: Tips
    alike: int = 0
    wait: str | None = None
    unsure: frozenset[int] = frozenset()
    counts: Counter[str] | None = None
    views: list[StepView] = field(default_factory=list)  # of a map, those that were read


class Reading:
    """Reads a log into operations, and `tips`: the last ones, which the next one follows."""

    def __init__(self, graph: Graph, begun: Token, forks: Mapping[str, Surveyed]) -> None:
        self.operations: list[Operation] = []
        self.tips: Tips = ()
        self._graph, self._token, self._forks = graph, begun, forks
        self._alike: dict[tuple[str, frozenset[int]], int] = {}
        self._open: int | None = None  # the operation that the last record left under way
        self._own_wait: int | None = None  # the wait for a condition that is under way
        self._places: dict[Place, Tips] = {}  # of what tasks began: its last operations
        self._ended: Tips = ()  # what the tasks go on from
        self._latest: Tips = ()  # what ended last
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
        self._own_wait = self._add(Operation(UNTIL, view, self.tips, wait=shown[0].kind if shown else TASKS))
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

    def _forked(self, fork: Surveyed, before: Tips) -> Tips:
        branches = [self._views(fork, index, one) for index, one in enumerate(fork.branches)]
        own = {name for views in branches for name, _ in views}
        if fork.counts or (not fork.inner and own == {fork.node}):
            return self._counted(fork, fork.node, before, [view for found in branches for _, view in found])
        ends = [self._branch(fork, index, one, before) for index, one in enumerate(fork.branches)]
        return _each_once(one for found in ends for one in found)

    def _counted(self, fork: Surveyed, name: str, before: Tips, views: list[StepView]) -> Tips:
        """Adds all branches of a fork as one."""
        counts = Counter(view.status for view in views)
        for by_status in fork.counts.values():
            counts.update(by_status)
        return (self._add(Operation(name, StepView("pending"), before, counts=counts, views=views)),)

    def _views(self, fork: Surveyed, index: int, branch: Token) -> list[tuple[str, StepView]]:
        """Returns a branch's steps. If it was cancelled before its first record, it has its name from its fork."""
        views = [*views_in(self._graph, fork, index, branch)]
        if not views and branch.end is not None and branch.end.status is Status.CANCELLED:
            return [(fork.names[index] if fork.names else fork.node, StepView("cancelled"))]
        return views

    def _branch(self, fork: Surveyed, index: int, branch: Token, before: Tips) -> Tips:
        """Adds what a branch did: one operation, or the fork that it is itself."""
        tips = before
        for name, view in self._views(fork, index, branch):
            wait = branch.parked.kind if branch.parked is not None else None
            tips = (self._add(Operation(name, view, tips, wait=wait)),)
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
            self._open = self._add(Operation(record.node, view, self.tips))
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

    def _add(self, one: Operation) -> int:
        key = one.name, frozenset(self.operations[index].alike for index in one.after)
        one.alike = self._alike.setdefault(key, len(self._alike) + 1)
        self.operations.append(one)
        return len(self.operations) - 1


def _each_once(found: Iterable[int]) -> Tips:
    return tuple(dict.fromkeys(found))
