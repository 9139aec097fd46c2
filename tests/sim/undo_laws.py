"""The invariants of compensation: what is undone, once each, in which order, and what may not happen beside it.

What there is to undo and what follows from what is read off the logs and the definition, not off any clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from stepwell.definition.graph import Graph
from stepwell.engine.records import ROOT, Compensate, End, Goto, Kind, Pause, Record, RetryAt, Status
from stepwell.engine.waits.aside import is_aside
from stepwell.engine.waits.code import is_for_code
from tests.sim.programs import SUFFIX
from tests.sim.tree import RUN, Opened, all_forks, ancestry, is_cancel
from tests.sim.world import World

Place = tuple[str, int]  # a record: token, slot
Logs = dict[str, list[Record]]


@dataclass(frozen=True, slots=True)
class Commit:
    """A record that completed a node with a compensation."""

    record: Record
    call: tuple[str, int]  # key and attempt of the call that did it


def commits(graph: Graph, logs: Logs) -> dict[Place, Commit]:
    """All that a run has done and that can be undone."""
    found: dict[Place, Commit] = {}
    for token, log in logs.items():
        entered, shift, call, before = 0, 0, ("", 0), None
        for record in log:
            node = graph.nodes.get(record.node)
            if record.kind is Kind.STEP and record.error is None:
                call = f"{RUN}:{token}:{entered}", record.attempt
            if node is not None and node.compensate is not None and _completes(record, before):
                found[token, record.slot] = Commit(record, call)
            if isinstance(record.next, Goto) or record.kind is Kind.STARTED or _calls_again(log, record):
                entered = record.slot + 1 - shift
            shift += 2 * (graph.is_batched and is_for_code(record))
            before = record
    return found


def _completes(record: Record, before: Record | None) -> bool:
    """A step's result, or the end of the wait that it asked for."""
    if record.error is not None or record.skipped or isinstance(record.next, RetryAt | Pause):
        return False
    is_wait_over = record.kind is Kind.MOVED and before is not None and before.kind is Kind.RESUMED
    return record.kind is Kind.STEP or is_wait_over


def _calls_again(log: list[Record], record: Record) -> bool:
    """After this wait the step runs once more, under another key."""
    if record.kind is not Kind.RESUMED:
        return False
    parked = next(one.parked for one in reversed(log[: record.slot]) if one.kind is Kind.WAITING)
    return parked is not None and parked.asked_by_step is not None and parked.asked_by_step.then == "again"


class Causes:
    """Which commits come before which, by the logs, the forks, the joins and what waited for what."""

    def __init__(self, world: World, logs: Logs, found: dict[Place, Commit]) -> None:
        self._world, self._logs = world, logs
        self._bits = {place: 1 << number for number, place in enumerate(found)}
        self._forks = {(opened.parent, opened.slot): opened for opened in all_forks(logs)}
        self.before: dict[Place, int] = {}  # of each record, all commits before it, as bits
        for place in world.seen.order:  # what causes a record was written before it
            mask = 0
            for cause in self._of(*place):
                mask |= self.before.get(cause, 0) | self._bits.get(cause, 0)
            self.before[place] = mask

    def comes_before(self, first: Place, second: Place) -> bool:
        return bool(self.before.get(second, 0) & self._bits[first])

    def _of(self, token: str, slot: int) -> Iterator[Place]:
        if slot > 0:
            yield token, slot - 1
        elif token != ROOT:
            yield from self._of_branch(token)
        opened = self._forks.get((token, slot - 1))
        if opened is not None and self._logs[token][slot].kind is Kind.JOINED:
            read = self._world.seen.joined_on.get((token, slot), {})
            for branch in opened.branches:
                count = read.get(branch, 0)
                if count and isinstance(self._logs[branch][count - 1].next, End):
                    yield branch, count - 1

    def _of_branch(self, token: str) -> Iterator[Place]:
        """A branch comes after its fork, and after those that had to end before it could begin."""
        fork = next(ancestry(token))
        yield fork
        if is_cancel(self._logs[token][0]):
            return
        opened, index = self._forks[fork], int(token.rpartition(".")[2])
        for before in self._awaited(opened, index):
            yield before, len(self._logs.get(before, ())) - 1

    def _awaited(self, opened: Opened, index: int) -> Iterator[str]:
        (in_line, _), dag = opened.before_in_line(index, 0), self._world.program.graph.dependencies
        if not opened.fork.by_arrival:  # else any of them may have been the one
            yield from in_line
        for need in dag.get(opened.group_of(index)[0].node, ()):
            yield opened.branches[list(dag).index(need)]


# -- the laws


def laws_of_undoing(world: World, logs: Logs) -> Iterator[str]:
    """All of them, of a run that is to be undone or was."""
    yield from _refusals(world)
    yield from _begun_if_asked(world, logs)
    log = logs.get(ROOT, [])
    begun = next((record.slot for record in log if isinstance(record.next, Compensate)), None)
    undone = [record for record in log if record.kind is Kind.UNDONE]
    if begun is None:
        if undone:
            yield "law 7: something was undone in a run that has not failed"
        return
    yield from _nothing_beside(world, logs, begun)
    found = commits(world.program.graph, logs)
    order = [_place(record.undid) for record in undone if record.undid and record.error is None]
    yield from _once_each(logs, found, order)
    yield from _reversed(world, logs, found, order)
    yield from _keys(world)
    yield from _inputs(world, found)
    yield from _done(world, undone)


def _place(undid: str) -> Place:
    token, _, slot = undid.partition("@")
    return token, int(slot)


def _refusals(world: World) -> Iterator[str]:
    for operation, answer in world.seen.while_undone:
        if operation == "cancel" and answer != "compensating":
            yield f"law 7: a cancel of a run that was being undone was answered {answer}"
        if operation == "terminate":
            yield f"law 7: terminate was answered {answer}, and the run is still being undone"


def _begun_if_asked(world: World, logs: Logs) -> Iterator[str]:
    """What leads to compensation: the policy, the failed step, or what `compensate_on` names."""
    graph, log = world.program.graph, logs.get(ROOT, [])
    said = next((record for record in log if isinstance(record.next, Compensate)), None)
    last = said or log[-1]
    end = last.next
    if not isinstance(end, Compensate | End) or end.status is Status.COMPLETED:
        return
    error = end.error or last.error
    if last.kind is Kind.ENDED and all(_is_before_first(log, record) for record in log[: last.slot]):
        is_asked = False  # it had not begun
    elif end.status is Status.CANCELLED:
        is_asked = "cancel" in graph.compensate_on
    elif error is not None and error.type == "terminated":
        is_asked = False
    else:
        name = (error.step if error else "") or last.node
        failed = None if last.kind is Kind.ENDED else graph.nodes.get(name)
        steps_own = failed is not None and failed.step is not None and failed.step.on_failure == "compensate"
        late = error is not None and error.type == "workflow_timeout" and "timeout" in graph.compensate_on
        is_asked = graph.failure_policy == "compensate" or steps_own or late
    if is_asked != (said is not None):
        yield f"law 7: the run {'is' if said else 'is not'} undone after {end.status}, and {error} in {last.node!r}"


def _is_before_first(log: list[Record], record: Record) -> bool:
    """Whether nothing has begun with it: the start, or the run's own locks that it asks for, or gets."""
    return record.kind is Kind.STARTED or _is_of_own_locks(log, record)


def _is_of_own_locks(log: list[Record], record: Record) -> bool:
    asked = log[record.slot - 1] if record.kind is Kind.RESUMED else record
    return asked.parked is not None and bool(asked.parked.locks) and not asked.node


def _nothing_beside(world: World, logs: Logs, begun: int) -> Iterator[str]:
    """Once the first compensation is told of, no branch has another record; once all are, there are no live ones."""
    order, log = world.seen.order, logs[ROOT]
    for record in log[begun + 1 :]:
        is_terminated = record.kind is Kind.ENDED and isinstance(record.next, End)
        is_beside = is_aside(record) or (record.kind is Kind.RESUMED and is_aside(log[record.slot - 1]))
        if record.kind is not Kind.UNDONE and not is_terminated and not is_beside:
            yield f"law 7: a {record.kind} follows in slot {record.slot}, after compensation had begun"
    first = next((order[ROOT, record.slot] for record in log if record.kind is Kind.UNDONE), None)
    if first is None:
        return
    for (token, slot), written in order.items():
        if token != ROOT and written > first:
            yield f"law 7: {token} has a {logs[token][slot].kind} in slot {slot}, after the first compensation"
    for token, records in logs.items():
        if token != ROOT and not isinstance(records[-1].next, End):
            yield f"law 7: the run was undone, and {token} has not ended"


def _once_each(logs: Logs, found: dict[Place, Commit], order: list[Place]) -> Iterator[str]:
    """Each commit has one compensation that succeeded; after one that failed for good, nothing more is undone."""
    for place, count in Counter(order).items():
        if count > 1:
            yield f"law 7: {place} was undone {count} times"
        if place not in found:
            yield f"law 7: {place} was undone, and was never committed"
    last = logs[ROOT][-1]
    status = last.next.status if isinstance(last.next, End) else None
    left = found.keys() - order
    if status is Status.COMPENSATED and left:
        yield f"law 7: the run is compensated, and {sorted(left)} are not undone"
    if last.kind is Kind.UNDONE and status is Status.FAILED and (last.error is None or not left):
        yield f"law 7: the run ended {status} in slot {last.slot}, with {last.error} and {sorted(left)} left"
    if status not in {Status.COMPENSATED, Status.FAILED}:
        yield f"law 7: a run that is undone ended {status}"


def _reversed(world: World, logs: Logs, found: dict[Place, Commit], order: list[Place]) -> Iterator[str]:
    """Nothing is undone before all that followed from it."""
    causes, done = Causes(world, logs, found), set[Place]()
    for place in order:
        for other in found.keys() - done - {place}:
            if place in found and causes.comes_before(place, other):
                yield f"law 7: {place} was undone before {other}, which followed from it"
        done.add(place)


def _keys(world: World) -> Iterator[str]:
    """Each commit has a key of its own, over all tries."""
    keys: dict[str, set[str]] = {}
    places: dict[str, set[str]] = {}
    for key, undid in world.seen.undo_given:
        keys.setdefault(undid, set()).add(key)
        places.setdefault(key, set()).add(undid)
    for undid, found in keys.items():
        if len(found) > 1:
            yield f"law 7: the compensation of {undid} ran under the keys {sorted(found)}"
    for key, of in places.items():
        if len(of) > 1:
            yield f"law 7: the key {key} serves {sorted(of)}"


def _inputs(world: World, found: dict[Place, Commit]) -> Iterator[str]:
    """A compensation gets what the step ran with, and its result."""
    seen = world.seen
    for (_, undid), inputs in seen.undo_given.items():
        commit = found.get(_place(undid))
        if commit is None:
            continue
        for given in inputs:
            ran_with, came = seen.given.get(commit.call, []), commit.record.output
            if given["output"] != came:
                yield f"law 7: the compensation of {undid} was given {given['output']}, not {came}"
            if given["input"] is not None and given["input"] not in ran_with:
                yield f"law 7: the compensation of {undid} was told of the input {given['input']}, not {ran_with}"


def _done(world: World, undone: list[Record]) -> Iterator[str]:
    """What the log says was undone, somebody did, and nobody twice without need."""
    seen, program = world.seen, world.program
    for record in undone:
        if record.undid and record.error is None and record.undid not in seen.undo_done:
            yield f"law 7: slot {record.slot} says that {record.undid} was undone, and nobody did that"
    copied = program.is_dag and world.chances.double  # of each step before the join, a copy may find it ready
    if seen.crashes or world.chances.hands_over or copied or world.main.breaks:
        return
    for (key, node, attempt), wakes in seen.undo_ran.items():
        step = program.graph.nodes[node.removesuffix(SUFFIX)].compensate
        if len(wakes) > 1 and step is not None and step.retry is None:
            yield f"compensation of {key}, attempt {attempt}, was run under {sorted(wakes)}, although nobody died"
