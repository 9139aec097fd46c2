"""Forks: which branches a node's rules create, and the data that each gets from its parent.

    parent   0 ── slot 3: Fork(groups, join) ────────────────────────── slot 4: joined ──▶
    branches          0/3.0  0/3.1  0/3.2 …   each with a log of its own

A branch's id contains its parent, its fork and its index, so the fork's record creates all branches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from stepwell.definition.compiled import Collection
from stepwell.definition.graph import END, Graph, Json, Node, Rule
from stepwell.engine.copying import changed
from stepwell.engine.names import Moment, Names, scope_of, state_of
from stepwell.engine.records import ROOT, End, Failure, Fork, Group, Kind, Next, Record, Status
from stepwell.engine.stored.formats import check_evaluator
from stepwell.engine.token import NEW, Branch, Token
from stepwell.errors import EngineFault, ExpressionError, NotFound
from stepwell.limits import FORK_WIDTH

_NUMBER = re.compile(r"[0-9]{1,9}")
_BRANCH = re.compile(r"0(/[0-9]{1,9}\.[0-9]{1,9}){1,20}")


def fork_over(graph: Graph, node: Node, rules: Iterable[Rule], names: Mapping[str, Json], lane: int = 0) -> Next:
    """Returns the fork of these rules. Raises ExpressionError if a `foreach` is not a collection.

    `lane`: so many branches share a log, where they may.
    """
    groups = tuple(_group(rule, names) for rule in rules if rule.to not in (None, END))
    met = graph.nodes.get(node.join)
    by_result = met is not None and met.fan_in is not None and met.fan_in.merge in ("results", "outcomes")
    by_arrival = any(group.max_concurrency for group in groups)
    fork = Fork(groups, node.join, by_arrival=by_arrival, by_result=by_result)
    if fork.width > FORK_WIDTH:
        name = graph.seen_as(node.name)
        message = f"{name} forks into {fork.width} branches; at most {FORK_WIDTH}: fork over batches"
        return End(Status.FAILED, Failure("fork_too_wide", "validation", message, step=name))
    return with_lanes(graph, fork, lane)


def with_lanes(graph: Graph, fork: Fork, lane: int) -> Fork:
    """Returns the fork with lanes of this size, where they save writes and change nothing else.

    Not where branches begin one after the other, or overlap by messages of their own, and not where the join may need
    only some of them: those that a lane runs together would not have begun.
    """
    node = graph.nodes.get(fork.join)
    is_all = node is None or node.fan_in is None or node.fan_in.policy == "all"
    is_plain = is_all and not any(group.max_concurrency or group.is_apart for group in fork.groups)
    return replace(fork, lane=lane) if lane and is_plain and fork.width > 1 else fork


def without_lanes(record: Record) -> Record:
    """Returns the record as it would be if each branch had its own log, for who writes those anew."""
    following = record.next
    return changed(record, next=replace(following, lane=0)) if isinstance(following, Fork) else record


def fork_into(node: Node) -> Fork:
    """Returns the fork of a node's members, in the order of the definition."""
    names = list(node.members)
    needs = tuple(tuple(names.index(name) for name in needed) for needed in node.members.values())
    return Fork(tuple(Group("", name, 1) for name in names), needs=needs, by_arrival=True)


def with_needs(graph: Graph, fork: Fork) -> Fork:
    """Returns the fork with its branches' needs; for a record of an earlier release they are in the definition."""
    made = fork if fork.needs else fork_into(graph.first)
    return replace(fork, needs=made.needs) if made is not fork and fork.groups == made.groups else fork


def _group(rule: Rule, names: Mapping[str, Json]) -> Group:
    count = 1 if rule.foreach is None else _count(rule.id, rule.foreach, names)
    group = Group(rule.id, rule.to or END, count, rule.max_concurrency or 0)
    return group if rule.bounds is None else _bounded(group, rule.bounds.evaluate(names))


def _bounded(group: Group, bounds: Mapping[str, Json]) -> Group:
    """Returns the group with bounds that were evaluated now, and hold whatever becomes of what they were made of."""
    percent = share_of(group.count, bounds.get("percent", 0))
    return replace(
        group,
        max_concurrency=int(bounds.get("concurrency", 0)),
        tolerated=max(int(bounds.get("count", 0)), percent),
    )


def share_of(width: int, percent: float) -> int:
    """Returns how many whole branches this share of them is."""
    return int(round(width * percent, 6) // 100)


def _count(rule: str, foreach: Collection, names: Mapping[str, Json]) -> int:
    """Counts the items, and checks once that all are JSON and within bounds."""
    made = foreach.evaluate(names)
    if not isinstance(made, list | dict):
        kind = "null" if made is None else type(made).__name__
        raise ExpressionError(f"{rule}: `foreach: {foreach.text}` gave {kind}, not a list or an object")
    return len(made)


def live_forks(token: Token) -> tuple[int, ...]:
    """Returns the slots of the forks whose branches may be running."""
    if token.ended:
        return ()
    following = token.last.next if token.last is not None else None
    is_there = isinstance(following, Fork) and not following.is_of_tasks
    open_tasks = [slot for slot, begun in token.tasks.items() if begun.open]
    return (*open_tasks, token.slot) if is_there else tuple(open_tasks)


def has_abandoning(graph: Graph) -> bool:
    """Tells whether a join of the graph lets the branches go on which it does not need."""
    return any(map(_abandons, graph.nodes.values()))


def may_abandon(graph: Graph, token: Token) -> bool:
    """Tells whether the token has come to a join that lets the branches go on which it does not need."""
    return any(name in token.visits and _abandons(node) for name, node in graph.nodes.items())


def abandoned_forks(graph: Graph, records: Iterable[Record]) -> Iterator[int]:
    """Yields the slots of the forks with such a join, by the token's records."""
    for record in records:
        if isinstance(record.next, Fork) and record.next.join and _abandons(graph.nodes[record.next.join]):
            yield record.slot


def _abandons(node: Node) -> bool:
    return node.fan_in is not None and node.fan_in.on_early_complete == "abandon"


# -- ids


def fork_id(parent: str, slot: int) -> str:
    """Returns the id of the fork that this token recorded in this slot."""
    return f"{parent}/{slot}"


def branch_id(fork: str, index: int) -> str:
    return f"{fork}.{index}"


@lru_cache(1_024)
def parent_of(token: str) -> tuple[str, int, int] | None:
    """Returns (parent, slot of its fork, index) of a branch; None for the root."""
    head, slash, tail = token.rpartition("/")
    if not slash:
        return None
    slot, _, index = tail.partition(".")
    return head, int(slot), int(index)


def is_branch_id(text: str) -> bool:
    """Tells whether this can be a branch's id; check ids from outside."""
    return _BRANCH.fullmatch(text) is not None


def split_fork_id(text: str) -> tuple[str, int]:
    """Returns (parent, slot) of a fork's id. Raises NotFound for an invalid id, which may come from outside."""
    parent, _, slot = text.rpartition("/")
    if (parent != ROOT and not is_branch_id(parent)) or not _NUMBER.fullmatch(slot):
        raise NotFound(
            f"there is no fork {text[:80]!r}", code="unknown_fork", hint="such as 0/3: its token and its slot"
        )
    return parent, int(slot)


# -- branches


def first_chunks(fork: Fork) -> Iterator[tuple[str, int, int]]:
    """Yields (node, first index, count) of the branches that begin at once, by the chunk that one message wakes."""
    start = 0
    for group in fork.groups:
        needs_others = bool(fork.needs and fork.needs[start])
        count = 0 if needs_others else min(group.count, group.max_concurrency or group.count)
        chunk = 1 if group.is_apart else fork.chunk
        for at in range(start, start + count, chunk):
            yield group.node, at, min(chunk, start + count - at)
        start += group.count


def is_to_begin(branch: Token) -> bool:
    """Tells whether nothing has moved a branch, since the run began or was redriven."""
    return branch.last is None or branch.last.kind is Kind.REDRIVEN


def span_of(fork: Fork, index: int) -> tuple[Group, range]:
    """Returns the group of a branch, and the branches of that group."""
    start = 0
    for group in fork.groups:
        if index < start + group.count:
            return group, range(start, start + group.count)
        start += group.count
    raise EngineFault(f"a fork of {start} has no branch {index}", code="broken_log")


class Branches:
    """The branches of a parent that stands at its fork.

    Evaluates each rule's collection once, and creates items only for the requested branches.
    """

    def __init__(self, moment: Moment, parent: Token) -> None:
        """`parent` as it was when it forked: it has not moved since, so this gives the same whenever it is asked."""
        last = parent.last
        fork = last.next if last is not None and isinstance(last.next, Fork) and last.next.is_of_tasks else parent.fork
        if fork is None or last is None:
            raise EngineFault(f"{parent.id} stands at no fork", code="broken_log")
        check_evaluator(last.evaluator)
        self.fork, self._parent, self._graph = with_needs(moment.graph, fork), parent, moment.graph
        self._names = Names(changed(moment, now_ms=fork.since_ms or last.at_ms), parent)
        self._state = state_of(parent)
        self._steps = {**(parent.branch.steps if parent.branch else {}), **parent.steps}
        self.id = fork_id(parent.id, parent.slot)
        self._alike: dict[int, tuple[Token, Branch, Sequence[Json] | None]] = {}  # by the first branch of a group

    def at(self, index: int) -> Token:
        """Returns the branch before its first record."""
        group, span = span_of(self.fork, index)
        if span.start not in self._alike:
            self._alike[span.start] = self._shared(group)
        token, branch, items = self._alike[span.start]
        needs = tuple(self.fork.groups[one].node for one in self.fork.needs[index]) if self.fork.needs else ()
        item = None if items is None else items[index - span.start]
        taken = dict(self.fork.taken).get(index, "") if self.fork.taken else ""
        own = changed(branch, index=index, item=item, needs=needs, taken=taken)
        return changed(token, id=branch_id(self.id, index), branch=own)

    def _shared(self, group: Group) -> tuple[Token, Branch, Sequence[Json] | None]:
        """What the branches of a group have in common, and their items."""
        rule, parent = self._rule(group), self._parent
        foreach = None if rule is None else rule.foreach
        branch = Branch(
            index=0,
            total=self.fork.width,
            fork=parent.node,
            start=group.node,
            join=self.fork.join,
            item_name="" if rule is None or foreach is None else rule.item_name or "item",
            state=self._state,
            steps=self._steps,
            within=scope_of(parent),
            result=parent.result,
            started_ms=self._started_ms(),
            rules=parent.last.rules if parent.last else (),
        )
        token = changed(NEW, result=parent.result, started_ms=parent.started_ms)
        # that this is a collection, and within bounds, was seen when the fork was recorded
        return token, branch, None if foreach is None else foreach.items(self._names)

    def _started_ms(self) -> int:
        """When they were forked; of what a redriven run has kept of a function's tasks, when that was let on."""
        begun = self._parent.tasks.get(self._parent.slot)
        if begun is not None and begun.let_on_slot >= 0:
            return begun.at_ms
        return self._parent.last_ms

    def _rule(self, group: Group) -> Rule | None:
        """None: a node's member, or what a function awaits, which no rule makes."""
        if not group.rule:
            return None
        for rule in self._graph.nodes[self._parent.node].rules:
            if rule.id == group.rule:
                return rule
        raise EngineFault(f"the log has a fork by {group.rule}, which is no rule", code="broken_log")
