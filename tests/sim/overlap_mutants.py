"""Mutants of overlap: branches that wait for each other's steps although nothing bounds them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from stepwell.engine import routing
from stepwell.engine.forks import branches as forks
from stepwell.engine.forks import lines
from stepwell.engine.forks.members import as_guest
from stepwell.engine.records import Fork
from stepwell.runtime.forks import forking
from stepwell.runtime.forks.lines import Lines, join_name
from stepwell.runtime.log.messages import Wake
from stepwell.runtime.log.standing import ForkedParent
from stepwell.runtime.loop import sharing

_first_chunks, _fork_over = forks.first_chunks, forks.fork_over
_beside = sharing.Share.beside


@contextmanager
def one_after_the_other() -> Iterator[None]:
    """The branches of a message begin when the one before has ended, however long its step takes."""
    with mock.patch.object(sharing.Share, "has_more", False):
        yield


@contextmanager
def handed_over_one_by_one() -> Iterator[None]:
    """While a step runs, one of the others gets a message, and the rest wait."""

    async def beside(self: Any) -> None:
        first, *rest = self._left
        self._left.clear()
        self._left.append(first)
        await _beside(self)
        self._left.extend(rest)

    with mock.patch.object(sharing.Share, "beside", beside):
        yield


@contextmanager
def one_fewer_at_once() -> Iterator[None]:
    """A bounded fork begins one branch too few, and the last of those that it may begin follows the first."""

    def lowered(fork: Fork) -> Fork:
        return fork if fork.needs else _bounded(fork)

    def first_chunks(fork: Fork) -> Iterator[tuple[str, int, int]]:
        return _first_chunks(lowered(fork))

    def next_in_line(fork: Fork, index: int, members: Sequence[str]) -> list[int]:
        return lines.next_in_line(lowered(fork), index, members)

    with (
        mock.patch.object(forking, "first_chunks", first_chunks),
        mock.patch.object(forking, "next_in_line", next_in_line),
    ):
        yield


@contextmanager
def in_strides() -> Iterator[None]:
    """Each branch is followed by the one that is k behind it, so a slow one holds up every k-th."""

    def fork_over(*args: Any) -> Any:
        made = _fork_over(*args)
        return replace(made, by_arrival=False) if isinstance(made, Fork) else made

    with mock.patch.object(routing, "fork_over", fork_over):
        yield


def _bounded(fork: Fork) -> Fork:
    groups = tuple(
        replace(group, max_concurrency=max(group.max_concurrency - 1, 1)) if group.max_concurrency else group
        for group in fork.groups
    )
    return replace(fork, groups=groups)


@contextmanager
def each_page_for_itself() -> Iterator[None]:
    """Who ends when its own page's line is over begins nothing, though a slow page holds back a branch."""

    async def begun_elsewhere(self: Lines, fork: ForkedParent, index: int, *_: object, **named: object) -> list[int]:
        return []

    with mock.patch.object(Lines, "begun_elsewhere", begun_elsewhere):
        yield


@contextmanager
def guests_choose_again() -> Iterator[None]:
    """A guest does not keep which page it went to: whoever comes again for it may go to another."""

    async def begun_elsewhere(self: Lines, fork: ForkedParent, index: int, *_: object, **named: object) -> list[int]:
        while (free := await self._with_room(fork, index)) is not None:
            place = fork.parent.run_id, join_name(fork, free)
            there = await self._log.arrive(*place, as_guest(index), in_order=True)
            if (begun := lines.line_of(fork.fork, free, index).begun_by(index, there.order)) is not None:
                return [begun]
        return []

    with mock.patch.object(Lines, "begun_elsewhere", begun_elsewhere):
        yield


class _Shared(Wake):
    """A wake as the shared message knows it; with a message of its own it has its own name again."""

    @property
    def id(self) -> str:
        return f"{super().id}+"


@contextmanager
def two_names_for_a_wake() -> Iterator[None]:
    """A branch is pushed under another name where its message is shared than where it was handed over."""

    def each(self: Wake) -> tuple[Wake, ...]:
        made = _Shared if self.count > 1 else Wake
        return tuple(made(self.run_id, self.slot, token, self.pool, self.hops) for token in self.tokens)

    with mock.patch.object(Wake, "each", property(each)):
        yield


OF_OVERLAP = (
    one_after_the_other,
    handed_over_one_by_one,
    one_fewer_at_once,
    in_strides,
    each_page_for_itself,
    guests_choose_again,
    two_names_for_a_wake,
)
