"""The invariants of child runs: who starts them, what their parent is told of them, and who outlives whom.

All of them by the logs of the runs and what the definition says of `children`, not by the engine.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stepwell.definition.graph import Call, Graph
from stepwell.engine.fold import fold
from stepwell.engine.records import (
    ROOT,
    UPDATE,
    Called,
    CleanUp,
    End,
    Failure,
    Kind,
    Parked,
    Record,
    Resumption,
    Status,
)
from stepwell.engine.stored.codec import failure_to_json
from stepwell.engine.token import Token
from stepwell.runtime.ports.headers import Header
from stepwell.runtime.starts.starting import Caller
from tests.sim.child_programs import DEEPEST, NOWHERE
from tests.sim.programs import BAD
from tests.sim.tree import is_cancel
from tests.sim.world import World

_ENDS_OF_WAITS = frozenset({"children", "child_failed", "child_refused", "timeout"})
_DETACHED = "workflow:"
_CLOCKS_APART_MS = 4_000  # of two machines, one of which is ahead as far as the other is behind


@dataclass(frozen=True, slots=True)
class Child:
    """A run as its log tells it, beside the header that names its parent."""

    header: Header
    caller: Caller
    log: list[Record]  # of its root

    @property
    def end(self) -> End | None:
        last = self.log[-1].next if self.log else None
        return last if isinstance(last, End) else None

    @property
    def cleans_up(self) -> bool:
        """Whether it has been told that it ends, and has time left for that."""
        return self.end is None and any(isinstance(one.next, CleanUp) for one in self.log)

    @property
    def succeeded(self) -> bool:
        return self.end is not None and self.end.status is Status.COMPLETED

    @property
    def error(self) -> Failure | None:
        return None if self.succeeded or self.end is None else self.end.error or self.log[-1].error


@dataclass(frozen=True, slots=True)
class ChildrenWait:
    """A wait for children in some run's log, what followed it there, and the runs that it started."""

    world: World  # as the parent sees it
    token: str
    record: Record
    after: Record | None
    call: Call
    children: Mapping[int, Child]  # by index

    @property
    def parked(self) -> Parked:
        assert self.record.parked is not None
        return self.record.parked

    @property
    def names(self) -> tuple[Called, ...]:
        return self.parked.children

    @property
    def where(self) -> str:
        return f"the wait of {self.world.run_id} {self.token} in slot {self.record.slot}"

    @property
    def came(self) -> Resumption | None:
        return self.after.resumption if self.after is not None and self.after.kind is Kind.RESUMED else None

    def tells_of(self, one: Called) -> bool:
        """Whether what ended this wait follows from that child's end."""
        came = self.came
        return came is not None and (came.kind == "children" or (came.kind == "child_failed" and came.name == one.name))

    @property
    def written(self) -> int:
        """When what followed it was written."""
        slot = self.record.slot + 1 if self.after is None else self.after.slot
        return self.world.seen.order[self.token, slot]

    def had_ended(self, child: Child | None) -> bool:
        """Whether a child's end was recorded before this wait's."""
        if child is None or child.end is None:
            return False
        order = self.world.of(child.header.run_id).seen.order
        return order[ROOT, child.log[-1].slot] < self.written

    @property
    def fails_early(self) -> bool:
        return self.call.failed_child == "propagate" and self.call.siblings == "cancel"


class Families:
    """Every run of a world by who started it."""

    def __init__(self, world: World) -> None:
        self.views = {view.run_id: view for view in world.runs()}
        self.logs = {run_id: view.logs.look().records for run_id, view in self.views.items()}
        found = [(header, Caller.of(header)) for header in world.memory._runs.values()]
        self.children = [Child(header, caller, self.root(header.run_id)) for header, caller in found if caller]
        self.attached: dict[tuple[str, str, int], dict[int, Child]] = {}
        for child in self.children:
            caller = child.caller
            if caller.index >= 0:
                self.attached.setdefault((caller.run_id, caller.token, caller.slot), {})[caller.index] = child

    def root(self, run_id: str) -> list[Record]:
        return self.logs[run_id].get(ROOT, [])

    def waits(self) -> Iterator[ChildrenWait]:
        """Every wait for children, of every token of every run."""
        for run_id, view in self.views.items():
            for token, log in self.logs[run_id].items():
                told = [one for one in log if one.resumption is None or one.resumption.kind != UPDATE]  # amid a wait
                for record, after in zip(told, [*told[1:], None], strict=True):
                    if record.kind is Kind.WAITING and record.parked and record.parked.children:
                        call = _call_of(view.program.graph, record)
                        mine = self.attached.get((run_id, token, record.slot), {})
                        yield ChildrenWait(view, token, record, after, call, mine)


def _call_of(graph: Graph, record: Record) -> Call:
    node = graph.nodes.get(record.node)  # none: a durable function's
    return (node.call if node else None) or Call(())  # of a step that asked for them: as by default


def laws_of_quiet_children(world: World) -> Iterator[str]:
    """When nothing is due: nobody waits for what has come, and nobody lives on whom a closed wait was to end."""
    if not world.program.callees:
        return
    families = Families(world)
    for wait in families.waits():
        yield from _not_told(wait) if wait.after is None else _left_alive(wait)


def _not_told(wait: ChildrenWait) -> Iterator[str]:
    """Children of a wait that goes on have been started, and do not suffice to end it."""
    for index in range(len(wait.names)):
        if index not in wait.children:
            yield f"law 5: {wait.where} has no child {index}, and nobody will start it"
    ended = [child for child in wait.children.values() if child.end]
    if len(ended) == len(wait.names) or (wait.fails_early and not all(child.succeeded for child in ended)):
        yield f"law 5: {wait.where} has what it needs, {len(ended)} of {len(wait.names)} ended, and is not told"


def _left_alive(wait: ChildrenWait) -> Iterator[str]:
    """Children of a wait that is over have ended, or clean up, unless they are to be left alone."""
    for index, child in wait.children.items():
        if child.end is None and not child.cleans_up and wait.call.parent_close != "abandon":
            after = wait.after and (wait.after.kind, wait.came and wait.came.kind)
            yield f"children: {wait.where} is over, by {after}, and its child {index} lives"


def laws_of_children(world: World) -> Iterator[str]:
    """All of them, over the world that a schedule left behind."""
    if not world.program.callees:
        return
    families = Families(world)
    for wait in families.waits():
        yield from _told(wait)
        yield from _started(wait)
        yield from _ended_from_above(wait)
    yield from _known(families)
    yield from _detached(families)


# -- what the parent is told


def _told(wait: ChildrenWait) -> Iterator[str]:
    """A wait ends once, and what its end says is what the children's logs say."""
    came = wait.came
    if came is None:
        if wait.after is not None and wait.after.kind is not Kind.ENDED:
            yield f"children: {wait.where} is followed by {wait.after.kind}"
        return
    if came.kind not in _ENDS_OF_WAITS:
        yield f"children: {wait.where} was ended by {came.kind}"
    elif came.kind == "children":
        yield from _results(wait, came)
    elif came.kind == "child_failed":
        yield from _failed(wait, came)
    elif came.kind == "child_refused" and not _is_refused(wait, came.name):
        yield f"children: {wait.where} says that {came.name} could not be started, and it could"


def _results(wait: ChildrenWait, came: Resumption) -> Iterator[str]:
    children = [wait.children.get(index) for index in range(len(wait.names))]
    if not all(wait.had_ended(child) for child in children):
        yield f"children: {wait.where} was told of results before all its children had ended"
        return
    found = [child for child in children if child is not None]
    if wait.call.failed_child == "propagate" and not all(child.succeeded for child in found):
        yield f"children: {wait.where} was told of results, although a child of it failed"
    values = {one.name: _value(wait.call, child) for one, child in zip(wait.names, found, strict=True)}
    expected = next(iter(values.values())) if wait.call.single else values
    if came.payload != expected:
        yield f"children: {wait.where} was told {came.payload}, and its children brought {expected}"


def _value(call: Call, child: Child) -> Any:
    """What a child brings, by the definition reference."""
    result = fold(child.log, Token()).result if child.succeeded else None
    if call.failed_child != "return":
        return result
    return {
        "childExecutionSuccess": child.succeeded,
        "childExecutionStatus": child.end.status.value if child.end else None,
        "triggeredExecutionId": child.header.run_id,
        "result": result,
        "error": failure_to_json(child.error),
    }


def _failed(wait: ChildrenWait, came: Resumption) -> Iterator[str]:
    index = next((at for at, one in enumerate(wait.names) if one.name == came.name), -1)
    child = wait.children.get(index)
    if wait.call.failed_child != "propagate":
        yield f"children: {wait.where} was told of {came.name}'s failure, and {wait.call.failed_child} is its word"
    elif child is None or child.end is None or not wait.had_ended(child) or child.succeeded:
        yield f"children: {wait.where} was told that {came.name} failed, and it had not"
    elif came.payload["status"] != child.end.status.value or came.payload["run_id"] != child.header.run_id:
        yield f"children: {wait.where} was told {came.payload}, and its child is {child.header.run_id}, {child.end}"
    elif came.payload["error"] != failure_to_json(child.error):
        yield f"children: {wait.where} was told {came.payload}, and its child's error is {child.error}"
    if wait.call.siblings == "finish":
        if not all(wait.had_ended(wait.children.get(at)) for at in range(len(wait.names))):
            yield f"children: {wait.where} was told of a failure before the siblings had finished"
        if any(at < index and not other.succeeded for at, other in wait.children.items()):
            yield f"children: {wait.where} was told of {came.name}, and one before it had failed too"


def _is_refused(wait: ChildrenWait, name: str) -> bool:
    """A workflow that is not there, or whose limit's key cannot be computed, or a run too far down."""
    one = next(one for one in wait.names if one.name == name)
    if one.workflow == NOWHERE or _depth(wait.world) >= DEEPEST:
        return True
    limit = wait.world.programs[one.workflow].graph.concurrency
    return limit is not None and limit.key is BAD


def _depth(world: World) -> int:
    """How many runs are above the one whose view this is."""
    depth, caller = 0, Caller.of(world.memory._runs[world.run_id])
    while caller is not None:
        if caller.run_id not in world.memory._runs:  # it was deleted
            return depth + caller.depth
        depth, caller = depth + 1, Caller.of(world.memory._runs[caller.run_id])
    return depth


# -- who is started, and by whom


def _started(wait: ChildrenWait) -> Iterator[str]:
    """A child follows the workflow and has the input that its parent recorded; causes are older than what follows."""
    for index, child in wait.children.items():
        if index >= len(wait.names):
            yield f"children: {child.header.run_id} is child {index} of {wait.where}, which has {len(wait.names)}"
            continue
        one = wait.names[index]
        if (child.header.workflow, json.loads(str(child.header.input))) != (one.workflow, one.input):
            yield f"children: {child.header.run_id} is {child.header.workflow}, and {wait.where} called {one}"
        if child.header.created_ms < wait.record.at_ms:
            yield f"causal times: {child.header.run_id} is older than {wait.where}"
        if wait.after and wait.tells_of(one) and child.log and wait.after.at_ms < child.log[-1].at_ms:
            yield f"causal times: {wait.where} was told of {child.header.run_id} before that ended"


def _known(families: Families) -> Iterator[str]:
    """Each child has a parent that called it, stands one below it, and was started once."""
    places = {(wait.world.run_id, wait.token, wait.record.slot) for wait in families.waits()}
    started: Counter[tuple[str, str, int, int]] = Counter()
    for child in families.children:
        caller = child.caller
        if caller.index >= 0:
            started[caller.run_id, caller.token, caller.slot, caller.index] += 1
            if (caller.run_id, caller.token, caller.slot) not in places:
                yield f"children: {child.header.run_id} was started by {caller}, which waits for no children"
        depth = _depth(families.views[child.header.run_id])
        if depth != caller.depth or depth > DEEPEST:
            yield f"children: {child.header.run_id} is {depth} deep, says {caller.depth}; {DEEPEST} are allowed"
    for place, count in started.items():
        if count > 1:
            yield f"children: {place} was started {count} times"


# -- who outlives whom


def _ended_from_above(wait: ChildrenWait) -> Iterator[str]:
    """A child is ended for its parent's sake when the wait for it is over, and not where it is to be left alone."""
    for child in wait.children.values():
        if not _is_ended_by_parent(child):
            continue
        if wait.call.parent_close == "abandon":
            yield f"children: {child.header.run_id} was to be left alone, and was ended with {wait.where}"
        elif wait.after is None or wait.had_ended(child):
            yield f"children: {child.header.run_id} was ended before {wait.where} was over"


def _is_ended_by_parent(child: Child) -> bool:
    return bool(child.log) and is_cancel(child.log[-1]) and child.log[-1].by.startswith("parent:")


def _is_of_an_earlier_run(families: Families, child: Child) -> bool:
    """Whether a run that was deleted since started it, whose id another run has now."""
    view = families.views.get(child.caller.run_id)
    return view is not None and child.header.created_ms < view.born_ms - _CLOCKS_APART_MS


def _detached(families: Families) -> Iterator[str]:
    """One run for each visit of a node that starts it and goes on; whatever becomes of who started it."""
    loose: dict[tuple[str, str], set[str]] = {}
    for child in families.children:
        if child.caller.index < 0:
            if not _is_of_an_earlier_run(families, child):
                loose.setdefault((child.caller.run_id, child.caller.token), set()).add(child.header.run_id)
            if _is_ended_by_parent(child):
                yield f"children: {child.header.run_id} is nobody's, and was ended by its parent"
    for run_id, view in families.views.items():
        for token, log in families.logs[run_id].items():
            graph = view.program.graph
            nodes = {node.name for node in graph.nodes.values() if _is_detached(node.step)}
            nodes |= set(view.programs) if graph.replays else set()
            named = [str(one.output) for one in log if one.kind is Kind.STEP and one.node in nodes and not one.error]
            there = loose.get((run_id, token), set())
            if len(set(named)) != len(named) or not there.issuperset(named) or len(there) > len(named) + 1:
                yield f"children: {run_id} {token} started {sorted(there)} for good, and its log says {named}"


def _is_detached(step: Any) -> bool:
    return step is not None and step.run.startswith(_DETACHED)
