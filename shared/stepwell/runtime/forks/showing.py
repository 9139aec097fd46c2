"""Shows in the run's header what its branches wait for: a run is `waiting` when all its live branches wait.

    a branch parks ── its mark into the page's join, which comes back ── all wait? ── header: waiting, for the first due
    it goes on     ── its mark ── header: running           it ends ── its arrival brings the marks of the others

Nothing is written for a fork whose branches do not wait. The header is read again after each change, because another
branch may have changed what it should say. A fork in a branch is evaluated from the fork around it: at each change that
lets all branches of one wait, every fork in a branch is read, at most a hundred of them in ten pages; not if a
function's tasks began it. Of a fork of several pages whose branches begin one after the other (`max_concurrency`), the
pages that are under way are read; not if more than ten pages may be under way.
"""

from __future__ import annotations

from dataclasses import replace

from stepwell.engine.effect_kinds import ShowStatus
from stepwell.engine.fingerprints import failure_of
from stepwell.engine.forks.branches import branch_id, parent_of
from stepwell.engine.forks.join import fan_in_of, fires, unpacked
from stepwell.engine.forks.lines import first_begun, lines_of
from stepwell.engine.forks.marks import (
    FORKS_READ,
    PAGES_READ,
    Mark,
    Waits,
    branch_mark,
    is_in_lines,
    is_mark,
    is_one_set,
    is_waiting,
    live_in,
    live_of,
    may_rest,
    packed_page,
    page_mark,
    place_of_branches,
    place_of_page,
    rank_of,
    waiting_pages,
    waits_of,
)
from stepwell.engine.forks.members import indexes_of, tally_of
from stepwell.engine.parts import shown_kind
from stepwell.engine.records import Fork, Status
from stepwell.engine.waits.kind import kind_named
from stepwell.errors import LeaseLost
from stepwell.limits import HOUR_MS
from stepwell.runtime.forks.lines import join_name
from stepwell.runtime.log.due import due_when_shown, waits_until_ms, whole_minute
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.standing import ForkedParent, Lease, Standing
from stepwell.runtime.ports import Joined, Ports
from stepwell.runtime.ports.headers import Header, StatusChange
from stepwell.runtime.starts.starting import Caller
from stepwell.runtime.stores.answers import unpaused

_FAILED = frozenset({Status.FAILED, Status.TIMED_OUT, Status.COMPENSATED})  # what leaves an error; a cancel has none


class Showing:
    """Keeps a forked run's header up to date. Each call may be repeated."""

    def __init__(self, ports: Ports, logbook: Logbook) -> None:
        self._log, self._runs, self._clock, self._logbook = ports.log, ports.runs, ports.clock, logbook

    async def show_root(self, at: Standing, effect: ShowStatus) -> bool:
        """Writes to the header what the log says; an older change never overwrites a newer one."""
        parked = effect.parked
        error = at.token.end.error if effect.status in _FAILED and at.token.end else None
        change = StatusChange(
            at.run_id,
            effect.rev,
            effect.status,
            effect.at_ms,
            started_ms=effect.at_ms if effect.picked_up else None,
            ended_ms=effect.at_ms if effect.status.terminal else 0,
            waiting_for=shown_kind(at.token, parked) if parked else "",
            waiting_node=at.graph.seen_as(effect.node),
            waiting_since_ms=parked.since_ms if parked else 0,
            waiting_until_ms=waits_until_ms(at, parked) if parked else None,
            expires_ms=_kept_until_ms(at, effect),
            due_ms=due_when_shown(at, effect),
            ends_pause=effect.status.terminal or effect.status is Status.COMPENSATING or at.token.cleaning is not None,
            unless_paused=effect.unless_paused,
            failure="" if error is None else failure_of(error),
        )
        return await self._runs.change_status(change)

    async def show(self, at: Standing) -> None:
        """Shows that a branch began or ended a wait."""
        place, fork = parent_of(at.token.id), await self._fork_of(at)
        if place is None or fork is None:
            return
        page = 0 if is_one_set(fork.fork) else fork.fork.page_of(place[2])
        joined = await self._log.report(at.run_id, join_name(fork, page), place[2], branch_mark(at.token))
        if fork.fork.lane:
            joined = await self._page(fork, page)
        is_told = is_in_lines(fork.fork) and not is_waiting(at.token)  # its fork only has to know that some waited
        if not is_one_set(fork.fork) and not is_told:
            joined = await self._tell_page(fork, page, self._page_mark(fork, page, joined))
        await self._climb(fork, joined, at.lease)

    async def show_again(self, at: Standing) -> None:
        """Repeats a change for a redelivered message: its worker may have died before it checked the header.

            worker   reads: all wait ──────────────────────── header: waiting ── dies, and its message comes again
            another                    goes on ── header: running                       the branch is further on

        If the branch's own fork does not wait any more, it may be over: that says nothing of the forks around it.
        """
        fork = await self._fork_of(at)
        if fork is None:
            return
        joined = await self._own_join(fork)
        if any(is_mark(fork.fork, place) for place in joined.numbers):
            await self._climb(fork, joined, at.lease, is_late=True)

    async def _fork_of(self, at: Standing) -> ForkedParent | None:
        """Returns the branch's fork; None if a function's tasks began it: the function's records show those waits."""
        place = parent_of(at.token.id)
        fork = None if place is None else await self._logbook.fork(at.run_id, place[0], place[1])
        return None if fork is None or fork.fork.is_of_tasks else fork

    async def arrived(
        self,
        at: Standing,
        fork: ForkedParent,
        joined: Joined,
        heard: Joined | None,
        *,
        is_guest: bool = False,
        begins: bool = True,
    ) -> None:
        """Shows that a branch ended while its fork goes on.

        `joined`: its page's join right after that; `heard`: the fork's join, if the page reported to it. `is_guest`: it
        begins a branch of another page. `begins`: it begins a branch.
        """
        if is_in_lines(fork.fork) and (joined.numbers or is_guest):
            await self._climb(fork, joined, at.lease)
            return
        if heard is None and not begins and is_in_lines(fork.fork) and may_rest(fork.fork, at.index, joined.order):
            heard = await self._log.read_join(fork.parent.run_id, fork.id)  # other pages may have branches that wait
        if not is_one_set(fork.fork):
            page = fork.fork.page_of(at.index)
            mark = self._page_mark(fork, page, joined) if joined.numbers else None
            joined = await self._tell_page(fork, page, mark) if mark is not None and mark.waits else heard or Joined()
        if any(is_mark(fork.fork, place) for place in joined.numbers):
            await self._climb(fork, joined, at.lease)

    def _page_mark(self, fork: ForkedParent, page: int, joined: Joined) -> Mark:
        return page_mark(fork.fork, fork.fork.page_indexes(page), joined.members, joined.numbers)

    async def _tell_page(self, fork: ForkedParent, page: int, mark: Mark) -> Joined:
        """Reports the page's state to the fork's join, and returns that join."""
        value = packed_page(mark, fork.fork.page_indexes(page))
        return await self._log.report(fork.parent.run_id, fork.id, place_of_page(page), value)

    async def _climb(self, fork: ForkedParent, joined: Joined, lease: Lease | None, *, is_late: bool = False) -> None:
        """Shows the change at the run's outermost fork. A fork around this one is read if all inside it wait.

        `is_late`: also if they do not.
        """
        first = await self._first(fork, joined)
        while (place := parent_of(fork.parent.token.id)) is not None:
            outer = await self._logbook.fork(fork.parent.run_id, place[0], place[1])
            if outer is None or outer.fork.is_of_tasks:
                return
            if first is not None:
                first = await self._first(outer, await self._told_inside(outer, place[2]))
            elif is_late:
                first = await self._first(outer, await self._own_join(outer))
            fork = outer
        await self._show(fork, first, lease)

    async def _told_inside(self, fork: ForkedParent, index: int) -> Joined:
        """Reports that the branches inside this branch wait. Returns the one set, or the fork's join, after that."""
        page = 0 if is_one_set(fork.fork) else fork.fork.page_of(index)
        joined = await self._log.report(fork.parent.run_id, join_name(fork, page), place_of_branches(index), 1)
        joined = await self._page(fork, page) if fork.fork.lane else joined
        if is_one_set(fork.fork):
            return joined
        return await self._tell_page(fork, page, self._page_mark(fork, page, joined))

    async def _first(self, fork: ForkedParent, joined: Joined) -> Standing | None:
        """Returns the branch to show if all live branches wait; None if one does not, or if nobody waits for them.

        `joined`: the join of the only page, else the fork's own.
        """
        if is_in_lines(fork.fork):
            joined = await self._log.read_join(fork.parent.run_id, fork.id)
        tally = tally_of(joined.members) if is_one_set(fork.fork) else unpacked(joined.numbers)
        if fires(fan_in_of(fork.parent.graph, fork.fork), fork.fork.width, tally):
            return None
        if is_one_set(fork.fork):
            waiting = waits_of(live_of(fork.fork, joined.members), joined.numbers)
        elif is_in_lines(fork.fork):
            waiting = await self._waits_in_line(fork, joined)
        else:
            waiting = await self._waits_in_pages(fork, joined)
        return None if waiting is None else await self._lowest(fork, waiting)

    async def _lowest(self, fork: ForkedParent, waiting: Waits) -> Standing | None:
        """Returns the branch with the lowest rank; None if a fork in a branch does not wait, or too many have forks."""
        if len(waiting.inside) > FORKS_READ:
            return None
        found: list[tuple[int, Standing]] = []
        for branch in await self._logbook.branches_at(fork, sorted(waiting.inside)) if waiting.inside else ():
            first = await self._first_inside(branch)
            if first is None or first.token.parked is None:
                return None
            found.append((rank_of(first.token.parked), first))
        if waiting.ranks:
            rank, index = min((rank, index) for index, rank in waiting.ranks.items())
            own = await self._logbook.load(fork.parent.run_id, branch_id(fork.id, index))
            found += [(rank, own)] if own is not None else []
        return min(found, key=lambda one: one[0])[1] if found else None

    async def _first_inside(self, branch: Standing) -> Standing | None:
        """Returns the branch to show for the fork at which a branch stands; None if one does not wait."""
        last = branch.token.last
        if branch.token.ended or last is None or not isinstance(last.next, Fork):
            return None
        fork = await self._logbook.fork(branch.run_id, branch.token.id, branch.token.slot)
        if fork is None:
            return None
        return await self._first(fork, await self._own_join(fork))

    async def _own_join(self, fork: ForkedParent) -> Joined:
        """Returns the join of the only page, else the fork's own."""
        if is_one_set(fork.fork):
            return await self._page(fork, 0)
        return await self._log.read_join(fork.parent.run_id, fork.id)

    async def _page(self, fork: ForkedParent, page: int) -> Joined:
        """Returns the join of a page, including branches that ended in lanes."""
        return await self._logbook.lanes.join(fork.parent.run_id, fork.fork, fork.id, page)

    async def _waits_in_pages(self, fork: ForkedParent, joined: Joined) -> Waits | None:
        """Returns the waits by the marks of the pages, reading pages with forks in branches; None if one runs."""
        pages = waiting_pages(fork.fork, joined.numbers)
        if not pages or sum(mark.is_inside for mark in pages.values()) > PAGES_READ:
            return None
        found = Waits({mark.index: mark.rank for mark in pages.values() if not mark.is_inside})
        for page in [page for page, mark in pages.items() if mark.is_inside]:
            there = await self._page(fork, page)
            own = waits_of(live_in(fork.fork, fork.fork.page_indexes(page), there.members), there.numbers)
            if own is None:
                return None
            found = found.and_of(own)
        return found

    async def _waits_in_line(self, fork: ForkedParent, root: Joined) -> Waits | None:
        """Returns the waits of branches that begin one by one, reading the pages under way; None if one runs.

        `root`: the fork's own join.
        """
        begun = {index for first in first_begun(fork.fork) for index in first}
        found = Waits({})
        for page in fork.fork.pages:
            indexes, lines = fork.fork.page_indexes(page), lines_of(fork.fork, page)
            if unpacked({page: root.numbers.get(page, 0)}).arrived >= len(indexes):
                begun.update(*(line.begins for line in lines))
            elif not begun.isdisjoint(indexes):
                joined = await self._log.read_join(fork.parent.run_id, join_name(fork, page))
                begun.update(*(line.begun(joined.order) for line in lines))
                live = begun.intersection(indexes) - indexes_of(joined.members)
                own = waits_of(live, joined.numbers)
                if live and own is None:
                    return None
                found = found if own is None else found.and_of(own)
        return found

    async def _show(self, fork: ForkedParent, first: Standing | None, lease: Lease | None) -> None:
        """Writes the header, and reads again until that says the same. Raises LeaseLost.

        A worker without its message writes nothing: what it has read is old, and nobody repeats what it does.
        """
        run_id = fork.parent.run_id
        while True:
            change = self._change(fork, first)
            header = await self._runs.get_run(run_id)
            if change is None or header is None or header.rev > change.rev or _says(header, change):
                return
            root = await self._logbook.load(run_id)
            if root is None or root.token.slot != fork.parent.token.slot:  # the branches are not awaited any more
                if change.status is Status.WAITING and unpaused(header) is not Status.WAITING:
                    return
                change = _running(change)
            if lease is not None and not lease.holds():
                raise LeaseLost(f"the lease ran out before {run_id} was shown as {change.status}")
            await self._runs.change_status(change)
            await self._expect(header, change)
            first = await self._first(fork, await self._own_join(fork))

    async def _expect(self, header: Header, change: StatusChange) -> None:
        """Makes a watched run due no later than the wait that is shown."""
        until_ms = None if change.waiting_until_ms is None else whole_minute(change.waiting_until_ms)
        if header.watched and until_ms is not None and (header.due_ms is None or until_ms < header.due_ms):
            await self._runs.watch(header.run_id, until_ms, replace(header, rev=change.rev))

    def _change(self, fork: ForkedParent, first: Standing | None) -> StatusChange | None:
        """Returns the header's change; None if the first branch has gone on: it shows that itself."""
        run_id, rev, now_ms = fork.parent.run_id, 2 * fork.parent.token.slot, self._clock.now_ms()
        if first is None:
            return _running(StatusChange(run_id, rev, Status.RUNNING, now_ms))
        parked = first.token.parked
        if parked is None or not is_waiting(first.token):
            return None
        return StatusChange(
            run_id,
            rev,
            Status.WAITING,
            now_ms,
            waiting_for=shown_kind(first.token, parked),
            waiting_node=fork.parent.graph.seen_as(first.token.node),
            waiting_since_ms=parked.since_ms,
            waiting_until_ms=waits_until_ms(fork.parent, parked),  # its parent is the run itself
            of_branch=True,
        )


def _kept_until_ms(at: Standing, effect: ShowStatus) -> int:
    """Returns when the run expires, 0 if it has not ended; a child no earlier than its parent's wait has ended.

    The parent reads the results of all its children when the last one of them has ended.
    """
    caller = Caller.of(at.header)
    if not effect.expires_ms or caller is None or caller.index < 0:
        return effect.expires_ms
    return max(effect.expires_ms, effect.at_ms + kind_named("children").longest_ms + HOUR_MS)


def _running(change: StatusChange) -> StatusChange:
    return StatusChange(change.run_id, change.rev, Status.RUNNING, change.changed_ms, of_branch=True)


def _says(header: Header, change: StatusChange) -> bool:
    """Tells whether the header says already what the change would."""
    names = ("waiting_for", "waiting_node", "waiting_since_ms", "waiting_until_ms")
    return unpaused(header) is change.status and all(getattr(header, name) == getattr(change, name) for name in names)
