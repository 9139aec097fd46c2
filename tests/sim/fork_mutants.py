"""Mutants of forks and joins: each takes one law of the protocol away, and the simulator must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from stepwell.definition.graph import FanIn
from stepwell.engine.effect_kinds import Arrive, Open
from stepwell.engine.forks import join, lines, members
from stepwell.engine.forks.marks import Waits, is_waiting
from stepwell.engine.inputs import JoinCompleted
from stepwell.engine.records import Fork, Tally
from stepwell.memory.store import MemoryStore
from stepwell.runtime.forks import forking
from stepwell.runtime.forks.forking import Forking
from stepwell.runtime.forks.showing import Showing
from stepwell.runtime.log.door import Answer, Door
from stepwell.runtime.log.standing import ForkedParent, Standing
from stepwell.runtime.loop.advance import Advance
from stepwell.runtime.ports import Joined
from tests.sim.doors import before_append

_put, _settle, _index_of = Door.put, Advance.settle, members.index_of
_show, _lowest = Showing.show, Showing._lowest
_open, _end, _following = Forking.open, Forking._end, Forking._following


@contextmanager
def bare_counter() -> Iterator[None]:
    """A join counts arrivals: one that is told twice is two."""

    async def arrive(self: MemoryStore, run_id: str, name: str, member: str, *, in_order: bool = False) -> Joined:
        told = self._joins[run_id, name]
        told[f"{len(told)}#{member}"] = in_order
        return await self.read_join(run_id, name)

    def index_of(member: str) -> int:
        return _index_of(member.partition("#")[2] or member)

    with ExitStack() as patched:
        patched.enter_context(mock.patch.object(MemoryStore, "arrive", arrive))
        for module in (members, lines):
            patched.enter_context(mock.patch.object(module, "index_of", index_of))
        yield


@contextmanager
def join_by_two() -> Iterator[None]:
    """Whoever finds the join complete goes on as the parent, although another's record fired it."""

    async def put(self: Door, at: Standing, given: Any, *rest: Any, **options: Any) -> Answer:
        answer = await _put(self, at, given, *rest, **options)
        return replace(answer, is_mine=True) if isinstance(given, JoinCompleted) else answer

    async def parent(self: Forking, at: Standing, effect: Arrive, by: str) -> Standing | None:
        return await self._logbook.load(at.run_id, effect.parent)

    with mock.patch.object(Door, "put", put), mock.patch.object(Forking, "_parent", parent):
        yield


@contextmanager
def page_counted_twice() -> Iterator[None]:
    """A page that reports again is counted again."""

    async def report(self: MemoryStore, run_id: str, name: str, page: int, value: int) -> Joined:
        reports = self._reports[run_id, name]
        reports[len(reports)] = value
        return await self.read_join(run_id, name)

    with mock.patch.object(MemoryStore, "report", report):
        yield


@contextmanager
def told_one_too_late() -> Iterator[None]:
    """A page tells its fork of an arrival only if the join could have been complete without it."""

    def too_late(fan_in: FanIn, fork: Fork, page: int, tally: Tally, *, is_failed: bool) -> bool:
        if tally.arrived >= len(fork.page_indexes(page)):
            return True
        before = replace(tally, arrived=tally.arrived - 1, failed=tally.failed - is_failed)
        return join.must_tell(fan_in, fork, page, before, is_failed=is_failed)

    with mock.patch.object(forking, "must_tell", too_late):
        yield


@contextmanager
def opened_once() -> Iterator[None]:
    """A fork's branches are woken by the first who comes to it, whether or not that one gets to the end."""
    tried: set[object] = set()

    async def opened(self: Forking, at: Standing, effect: Open) -> None:
        if (self, at.token.id, effect.slot) not in tried:
            tried.add((self, at.token.id, effect.slot))
            await _open(self, at, effect)

    with mock.patch.object(Forking, "open", opened):
        yield


@contextmanager
def arrived_before_end() -> Iterator[None]:
    """A branch tells its join before its end is recorded."""

    async def before(advance: Advance, at: Standing, by: str) -> None:
        if at.token.end is not None and at.token.branch is not None:
            await _settle(advance, at, by)

    with before_append(before):
        yield


@contextmanager
def closed_but_unbegun() -> Iterator[None]:
    """Closing a fork passes over the branches that have no record yet."""

    async def end(self: Forking, at: Standing, by: str) -> None:
        if at.token.last is not None:
            await _end(self, at, by)

    with mock.patch.object(Forking, "_end", end):
        yield


@contextmanager
def closed_but_nested() -> Iterator[None]:
    """Closing a fork leaves the forks of its branches open."""

    async def close_nested(self: Forking, at: Standing, by: str) -> None:
        return None

    with mock.patch.object(Forking, "close_nested", close_nested):
        yield


@contextmanager
def next_in_line_once() -> Iterator[None]:
    """Who ends lets the next branch begin once: if that is lost on the way, it is lost."""
    tried: set[object] = set()

    def following(self: Forking, fork: ForkedParent, index: int, joined: Joined) -> list[int]:
        again = (self, fork.id, index) in tried
        tried.add((self, fork.id, index))
        return [] if again else _following(self, fork, index, joined)

    with mock.patch.object(Forking, "_following", following):
        yield


@contextmanager
def merged_as_told() -> Iterator[None]:
    """The branches' outputs are merged in the order in which somebody handed them over."""

    with mock.patch.object(join, "sorted", lambda branches, key: list(branches), create=True):
        yield


@contextmanager
def waits_for_ever() -> Iterator[None]:
    """A branch that goes on takes its mark from no join: the run shows its wait."""

    async def show(self: Showing, at: Standing) -> None:
        if is_waiting(at.token):
            await _show(self, at)

    with mock.patch.object(Showing, "show", show):
        yield


@contextmanager
def end_unseen() -> Iterator[None]:
    """The end of a branch does not show that all others wait."""

    async def arrived(self: Showing, *rest: object, **named: object) -> None:
        return None

    with mock.patch.object(Showing, "arrived", arrived):
        yield


@contextmanager
def shown_unread() -> Iterator[None]:
    """The header is changed to what the join said a while ago, and the join is not read again."""

    with mock.patch.object(Showing, "_show", _show_once):
        yield


async def _show_once(self: Showing, fork: ForkedParent, first: Standing | None, lease: object) -> None:
    change = self._change(fork, first)
    header = await self._runs.get_run(fork.parent.run_id)
    if change is not None and header is not None and header.rev <= change.rev:
        await self._runs.change_status(change)


@contextmanager
def inside_unseen() -> Iterator[None]:
    """A branch that stands at a fork of its own never counts as waiting."""

    async def lowest(self: Showing, fork: ForkedParent, waiting: Waits) -> Standing | None:
        return None if waiting.inside else await _lowest(self, fork, waiting)

    with mock.patch.object(Showing, "_lowest", lowest):
        yield


OF_SHOWN: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    waits_for_ever,
    end_unseen,
    shown_unread,
    inside_unseen,
)
OF_FORKS: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    bare_counter,
    join_by_two,
    page_counted_twice,
    told_one_too_late,
    opened_once,
    arrived_before_end,
    closed_but_unbegun,
    closed_but_nested,
    next_in_line_once,
    merged_as_told,
    *OF_SHOWN,
)
