"""The invariants of forks, joins and branches: what is alive, when a join may fire, and what it then makes."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache

from stepwell.definition.graph import FanIn, Graph
from stepwell.engine.fold import fold
from stepwell.engine.forks.branches import Branches, branch_id, fork_id, with_needs
from stepwell.engine.forks.join import arrival_of, joined_record
from stepwell.engine.names import Moment
from stepwell.engine.records import ROOT, CleanUp, End, Fork, Kind, Parked, Record
from stepwell.engine.token import Token
from stepwell.engine.waits.kind import kind_named
from stepwell.engine.writing import deadline_ms
from stepwell.runtime.log.due import earliest
from stepwell.runtime.log.messages import Wake
from stepwell.runtime.log.standing import run_info
from stepwell.runtime.ports.headers import Header
from tests.sim.tree import Logs, Opened, all_forks, ancestry, completed, fired, forks_of, is_cancel, over_by
from tests.sim.world import World


class BrokenLawError(Exception):
    """A law does not hold: its name, and how."""


def meeting(graph: Graph, opened: Opened) -> FanIn:
    """How the branches of a fork meet."""
    node = graph.nodes.get(opened.fork.join)
    return (node.fan_in if node else None) or FanIn()


def may_fire(fan_in: FanIn, width: int, ended: Sequence[Token]) -> bool:
    """Whether a join has what it needs, or can no longer get it: by the definition reference, not by the engine."""
    collects = fan_in.on_branch_failure == "collect"
    good = len(ended) if collects else completed(ended)
    need = {"all": width, "any": 1, "m_of_n": fan_in.need}[fan_in.policy]
    is_bounded = fan_in.tolerate_count is not None or fan_in.tolerate_percent is not None
    bound = max(fan_in.tolerate_count or 0, int(width * (fan_in.tolerate_percent or 0) // 100))
    if fan_in.first_failure == "wait" and not is_bounded:  # as long as enough of the others may still succeed
        bound = max(width - need, 0)
    allowed = width if collects else bound
    return len(ended) >= width or len(ended) - completed(ended) > allowed or good >= need


# -- what is alive


def live_tokens(graph: Graph, logs: Logs, token_id: str = ROOT) -> Iterator[Token]:
    """Tokens that must go on, or be parked. Raises BrokenLawError for a fork that hangs, or that was left open."""
    token, records = logs.tokens[token_id], logs.records[token_id]
    stands_at_fork = False
    for opened in forks_of(token_id, records):
        if opened.fork.is_of_tasks:
            yield from _live_operations(graph, logs, opened, records)
            continue
        yield from _live_branches(graph, logs, opened)
        stands_at_fork = opened.closed_by is None and opened.fork.width > 0
    if not token.ended and not stands_at_fork:
        yield token


def _live_branches(graph: Graph, logs: Logs, opened: Opened) -> Iterator[Token]:
    fan_in, after = meeting(graph, opened), opened.closed_by
    left_alone = fired(opened) and after is not None and not after.error and fan_in.on_early_complete == "abandon"
    ended: list[Token] = []
    for index, branch in enumerate(opened.branches):
        token = logs.tokens.get(branch)
        if (token is None or not token.ended) and after is not None and not left_alone:
            raise BrokenLawError(f"law 5: the fork of {branch} is closed by {after.kind}, and it has not ended")
        is_redriven = token is not None and token.last is not None and token.last.kind is Kind.REDRIVEN
        if token is not None and not (is_redriven and is_held(graph, opened, logs, index)):
            yield from live_tokens(graph, logs, branch)
            ended += [token] if token.ended else []
        elif (
            token is None and after is None and not is_held(graph, opened, logs, index)
        ):  # one left alone by its join may never begin
            raise BrokenLawError(f"law 5: {branch} was never begun")
    if after is None and ended and may_fire(fan_in, opened.fork.width, ended):
        message = f"{len(ended)} of {opened.fork.width} branches have ended, and the join does not fire"
        raise BrokenLawError(f"law 3: {opened.parent} slot {opened.slot}: {message}")


def laws_of_shown_branches(world: World, logs: Logs, under_way: set[str]) -> Iterator[str]:
    """A header says `waiting`, for the wait that comes first, where all live branches of its fork wait; else not.

    Left out are forks of several pages of which more than ten may be under way, if that is bounded. So is a run one of
    whose records may still be shown: the message under which it was written is there, its worker has died.
    """
    if any(token.last is not None and _is_to_go_on(world, token, under_way) for token in logs.tokens.values()):
        return
    root, header = logs.tokens[ROOT], world.memory._runs[world.run_id]
    opened = next((one for one in forks_of(ROOT, logs.records[ROOT]) if one.closed_by is None), None)
    if root.parked is not None and root.parked.of_tasks and root.resumption is None:
        yield from _law_of_shown_tasks(root, logs, header)
    if root.ended or root.undoing or root.cleaning or root.parked or opened is None or not opened.fork.width:
        return
    if any(_is_not_shown(one) for one in all_forks(logs.records) if one.closed_by is None and one.fork.width):
        return
    live = list(live_tokens(world.program.graph, logs))
    if any(token.id == ROOT for token in live):
        return
    left_alone = tuple(f"{fork_id(one.parent, one.slot)}." for one in all_forks(logs.records) if one.closed_by)
    live = [token for token in live if not token.id.startswith(left_alone)]
    waiting = [token.parked for token in live if token.parked and token.resumption is None]
    if live and len(waiting) == len(live):
        own_ms = min(waiting, key=lambda one: (one.kind != "approval", one.until_ms or math.inf)).until_ms
        until_ms = earliest(own_ms, deadline_ms(world.program.graph, run_info(header), root))
        if header.status != "waiting" or (header.waiting_until_ms or 0) // 1000 != (until_ms or 0) // 1000:
            said = f"{header.status} until {header.waiting_until_ms}"
            yield f"header: all {len(live)} live branches wait until {until_ms}, and it says {said}"
    elif header.status == "waiting":
        yield f"header: it says waiting, and {len(live) - len(waiting)} of {len(live)} live branches do not wait"


def _is_not_shown(opened: Opened) -> bool:
    bounds = [(group.count, group.max_concurrency) for group in opened.fork.groups]
    at_once = sum(min(count, bound or count) for count, bound in bounds)
    return len(opened.fork.pages) > 1 and any(bound for _, bound in bounds) and at_once > 10 * opened.fork.page


def _is_to_go_on(world: World, token: Token, under_way: Collection[str]) -> bool:
    """Whether the message is there under which its last record was written, or one should that one's worker be dead."""
    late = Wake(world.run_id, token.slot, token.id, late=True)
    return bool({late.id, *([token.last.by] if token.last else ())} & set(under_way))


def _law_of_shown_tasks(root: Token, logs: Logs, header: Header) -> Iterator[str]:
    """The same for what a function's tasks await. A wait that a step asked for, or for code, is left out.

    A time limit is shown as the record foretells it that began the operation: it counts from there. A worker that came
    later to it, after a wait for code, or a pause, writes no header.
    """
    places = [(slot, index) for slot, begun in root.tasks.items() for index in begun.open]
    found = {place: logs.tokens.get(branch_id(fork_id(ROOT, place[0]), place[1])) for place in places}
    live = {place: token for place, token in found.items() if token is not None}
    waiting = {
        place: one.parked
        for place, one in live.items()
        if one.parked is not None and one.resumption is None and not one.ended
    }
    is_odd = any(one.asked_by_step is not None or not one.of_function or one.of_tasks for one in waiting.values())
    if not places or is_odd or any(one.ended for one in live.values()):
        return
    began = {slot: max(slot, root.tasks[slot].let_on_slot) for slot, _ in waiting}  # a redrive has them begin anew
    began_ms = {slot: logs.records[ROOT][since].at_ms for slot, since in began.items()}
    shown = [  # people come first, then what is due first
        (not kind_named(one.kind).asks_people, _time_left_ms(one) + began_ms[slot])
        for (slot, _), one in waiting.items()
    ]
    first_ms = min(shown, default=(True, math.inf))[1]
    until_ms = None if first_ms == math.inf else first_ms
    if len(waiting) < len(places):
        if header.status == "waiting" and len(live) == len(places):
            yield f"header: it says waiting, and {len(places) - len(waiting)} of {len(places)} operations do not wait"
    elif header.status != "waiting" or header.waiting_until_ms != until_ms:
        said = f"{header.status} until {header.waiting_until_ms}"
        yield f"header: all {len(places)} operations wait until {until_ms}, and it says {said}"


def _time_left_ms(parked: Parked) -> float:
    return math.inf if parked.until_ms is None else parked.until_ms - parked.since_ms


def _live_operations(graph: Graph, logs: Logs, opened: Opened, records: list[Record]) -> Iterator[Token]:
    """Of what a function's tasks began: what the function knows the end of has ended, and it knows all that has."""
    known = {part for record in records for part in over_by(record)}
    for index, branch in enumerate(opened.branches):
        token, is_over = logs.tokens.get(branch), opened.closed_by is not None or f"{opened.slot}.{index}" in known
        if is_over and (token is None or not token.ended):
            raise BrokenLawError(f"law 5: the operation {branch} is over, and its branch has not ended")
        if token is None:
            raise BrokenLawError(f"law 5: the operation {branch} was never begun")
        if token.ended and not is_over:
            raise BrokenLawError(f"law 3: the operation {branch} has ended, and its function does not know")
        yield from live_tokens(graph, logs, branch)


def is_held(graph: Graph, opened: Opened, logs: Logs, index: int) -> bool:
    """Whether a branch is to begin when others end, of which one has not."""
    names, group = list(graph.dependencies), opened.group_of(index)[0]
    before = [opened.branches[names.index(name)] for name in graph.dependencies.get(group.node, ())]
    count = len(before)
    if not before and group.max_concurrency:
        before, count = opened.before_in_line(index, sum(one in logs.tokens for one in opened.beside(index)))
    return sum(one in logs.tokens and logs.tokens[one].ended for one in before) < count


# -- the laws


class Family:
    """Tokens with what branches have of their parents, as they were at any record."""

    def __init__(self, world: World, logs: dict[str, list[Record]]) -> None:
        header = world.memory._runs[world.run_id]
        self._run = run_info(replace(header, input=json.loads(header.input)))
        self._graph, self._logs = world.program.graph, logs
        self.branches = cache(self._branches)

    def moment(self, record: Record) -> Moment:
        """When this record was made, for its maker."""
        return Moment(self._graph, self._run, record.at_ms, record.by)

    def token(self, token: str, records: int) -> Token:
        """After so many of its records."""
        if token == ROOT:
            return fold(self._logs[token][:records], Token(token))
        place, _, index = token.rpartition(".")
        parent, _, slot = place.rpartition("/")
        return fold(self._logs.get(token, [])[:records], self.branches(parent, int(slot)).at(int(index)))

    def _branches(self, parent: str, slot: int) -> Branches:
        at = self.token(parent, slot + 1)
        return Branches(self.moment(self._logs[parent][slot]), at)


def law_3_joins(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """Once for each fork, not before it may, and from its branches' records alone."""
    family = Family(world, logs)
    for token, records in logs.items():
        joins = [record.slot for record in records if record.kind is Kind.JOINED]
        if joins != [opened.slot + 1 for opened in forks_of(token, records) if fired(opened)]:
            yield f"law 3: {token} has joins in slots {joins}, which do not each follow a fork"
    for opened in all_forks(logs):
        record = opened.closed_by
        if record is None or opened.fork.is_of_tasks:
            continue
        if record.kind not in {Kind.JOINED, Kind.ENDED}:
            yield f"law 3: the fork in slot {opened.slot} of {opened.parent} is followed by {record.kind}"
        elif record.kind is Kind.JOINED:
            yield from _one_join(world, family, opened, record)


def _one_join(world: World, family: Family, opened: Opened, record: Record) -> Iterator[str]:
    where = f"the join of {opened.parent} in slot {record.slot}"
    read = world.seen.joined_on.get((opened.parent, record.slot), {})
    ended = [one for one in (family.token(branch, read.get(branch, 0)) for branch in opened.branches) if one.ended]
    fan_in = meeting(world.program.graph, opened)
    if not may_fire(fan_in, opened.fork.width, ended):
        yield f"law 3: {where} fired when {len(ended)} of {opened.fork.width} branches had ended"
        return
    random.Random(record.slot).shuffle(ended)
    fork = with_needs(world.program.graph, opened.fork)
    arrivals = [arrival_of(fork, one) for one in ended]
    made = joined_record(family.moment(record), family.token(opened.parent, opened.slot + 1), arrivals)
    if isinstance(made.next, Fork) and isinstance(record.next, Fork):  # which pages it has is its writer's choice
        made = replace(made, next=replace(made.next, page=record.next.page, lane=record.next.lane))
    if made != record:
        yield f"law 3: {where} is not what its branches make: {record} is not {made}"
    calls = sum(one.calls for one in ended)
    if record.tally is None or record.tally.calls != calls:
        yield f"law 9: {where} counts {record.tally}, and its branches made {calls} calls"


def law_5_line(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """Where only so many branches may run at once, one begins when enough of the others have ended."""
    order = world.seen.order
    for opened in all_forks(logs):
        for index, branch in enumerate(opened.branches):
            records = logs.get(branch)
            if not records or is_cancel(records[0]) or not opened.group_of(index)[0].max_concurrency:
                continue
            now = order.get((branch, 0), 0)
            others = [one for one in opened.beside(index) if logs.get(one) and not is_cancel(logs[one][0])]
            before, count = opened.before_in_line(index, sum(order[one, 0] < now for one in others))
            lasts = [(one, logs[one][-1]) for one in before if logs.get(one)]
            ended = [order[one, last.slot] for one, last in lasts if isinstance(last.next, End)]
            if sum(place < now for place in ended) < count:
                yield f"concurrency: {branch} began before {count} of {', '.join(before)} had ended"


def law_3_branches(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """A branch ends before the node where its fork joins, and begins no earlier than its fork."""
    for opened in all_forks(logs):
        forked_ms = logs[opened.parent][opened.slot].at_ms
        for branch in opened.branches:
            records = logs.get(branch, [])
            if (
                opened.fork.join
                and not opened.fork.is_awaited
                and any(record.node == opened.fork.join for record in records)
            ):
                yield f"law 3: {branch} went into {opened.fork.join}, where its fork joins"
            if records and records[0].at_ms < forked_ms:
                yield f"causal times: {branch} is older than its fork"


def law_6_branches(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """After an acknowledged cancel no branch commits a step's result. Of a wide fork, each page ends a little later."""
    if world.seen.cancelled_at_slot is None:
        return
    later = {
        token
        for token, records in logs.items()
        for record in records
        if record.kind is Kind.STEP and world.seen.order.get((token, record.slot), 0) >= world.seen.cancelled_after
    }
    forks = {(opened.parent, opened.slot): opened for opened in all_forks(logs)}
    for token in sorted(later - {ROOT}):
        above = [forks[place] for place in ancestry(token)]
        is_of_clean_up = any(opened.parent == ROOT and _is_told(logs[ROOT][: opened.slot]) for opened in above)
        if not is_of_clean_up and not any(fired(opened) or len(opened.fork.pages) > 1 for opened in above):
            yield f"law 6: the cancel was acknowledged, and {token} committed a step after it"


def _is_told(before: list[Record]) -> bool:
    """Whether a durable function knows by then that its run is cancelled."""
    return any(isinstance(record.next, CleanUp) for record in before)


def law_9_calls(world: World, logs: dict[str, list[Record]]) -> Iterator[str]:
    """A token's counter is its own attempts and those of the branches that it joined."""
    for token, records in logs.items():
        own = sum(record.kind in {Kind.STEP, Kind.ACTED} or bool(record.undid) for record in records)
        merged = sum(record.tally.calls for record in records if record.tally)
        counted = fold(records, Token(token)).calls
        if counted != own + merged:
            yield f"law 9: {token} counts {counted} calls; its log has {own}, its joins {merged}"
