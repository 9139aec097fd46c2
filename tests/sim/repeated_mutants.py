"""Mutants of copies: whoever is second goes on beside the first, and a step is begun twice although nobody died."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from stepwell.engine.actions import Rest
from stepwell.engine.copying import changed
from stepwell.engine.effects import picked_up
from stepwell.engine.inputs import Input
from stepwell.engine.pushing import is_stale, pushes
from stepwell.errors import NotFound
from stepwell.runtime.forks.forking import Forking
from stepwell.runtime.log import retries
from stepwell.runtime.log.door import UNLIMITED, Answer, Budget, Unlimited
from stepwell.runtime.log.messages import to_json
from stepwell.runtime.log.standing import Standing, run_info
from stepwell.runtime.loop.advance import Advance
from stepwell.runtime.loop.worker import Worker, _Turn, _yields
from stepwell.runtime.ports import Lane
from stepwell.runtime.waits.claimants import Runs

_again, _put_found, _pick_up, _after = Forking.again, Advance._put_found, Worker._pick_up, Worker._after
_SECOND = Unlimited(2)


@contextmanager
def second_wakes_another() -> Iterator[None]:
    """A call that is second to write wakes a worker at once, as the first does."""

    async def take(self: Advance, at: Standing, given: Input, by: str, budget: Budget = UNLIMITED) -> Answer:
        was_there = pushes(at.token, by)
        answer = await self._door.put_once(at, given, by, budget)
        if answer.is_mine:
            await self.push(answer.at, by, budget, again=was_there)
        return answer

    with mock.patch.object(Advance, "take", take):
        yield


@contextmanager
def found_by_two() -> Iterator[None]:
    """Who finds what a wait needs goes on, although another has written that."""

    async def put_found(self: Advance, at: Standing, founds: Any, by: str, budget: Budget) -> Standing | None:
        return await _put_found(self, at, founds, by, _SECOND)

    with mock.patch.object(Advance, "_put_found", put_found):
        yield


@contextmanager
def second_goes_on() -> Iterator[None]:
    """Of two messages of one name, the one that is second to write goes on from the other's record."""

    async def after(self: Worker, answer: Answer, turn: _Turn) -> Standing | None:
        return await _after(self, answer, replace(turn, budget=_SECOND))

    with mock.patch.object(Worker, "_after", after):
        yield


@contextmanager
def late_goes_on_too() -> Iterator[None]:
    """Of two messages of one name, the later one goes on from what the other has written."""

    async def push(self: Worker, turn: _Turn) -> None:
        own = turn.wake
        at = self._gathering(await self._load(turn, fresh=own.slot < 0), turn)
        at = await self._untaken(at) if at is not None and _yields(turn) else at
        while at is not None and (at.token.id != own.token or not is_stale(at.token, own.slot, turn.by)):
            at = await (self._next(at, turn) if at.is_open else self._settled(at, turn))
            turn = replace(turn, fresh=False)
            at = at.caught_up if at is not None and at.lane is not None else at

    with mock.patch.object(Worker, "_push", push):
        yield


@contextmanager
def picked_up_by_two() -> Iterator[None]:
    """Who picks a run up just after another goes on with it."""

    async def pick_up(self: Worker, at: Standing, turn: _Turn) -> Standing | Answer:
        return await _pick_up(self, at, replace(turn, budget=_SECOND))

    with mock.patch.object(Worker, "_pick_up", pick_up):
        yield


@contextmanager
def told_at_its_step() -> Iterator[None]:
    """The message that tells a run of its permit does not yield to the worker that has found the permit by itself."""

    async def tell(self: Runs, who: str, at_ms: int = 0) -> bool:
        granted = await self._logbook.load(who)
        if granted is not None and not granted.token.ended:
            await self._ports.queue.send(Lane.WORK, to_json(granted.wake()), at_ms)
        return granted is not None and not granted.token.ended

    with mock.patch.object(Runs, "_tell", tell):
        yield


@contextmanager
def begun_by_its_copy() -> Iterator[None]:
    """A copy of a message lets the operations begin that the other has written, and is about to let begin."""

    async def again(self: Forking, at: Standing, by: str, writers: Collection[str], sent_for: int = -1) -> None:
        await _again(self, at, by, {by, *writers}, sent_for)

    with mock.patch.object(Forking, "again", again):
        yield


@contextmanager
def new_whenever_it_is_sent() -> Iterator[None]:
    """A message that is sent again is taken for new, so that it stops at what its own worker has written."""
    with mock.patch.object(retries, "may_have_begun", return_value=False):
        yield


OF_REPEATS: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    found_by_two,
    late_goes_on_too,
    picked_up_by_two,
    told_at_its_step,
    begun_by_its_copy,
)
HIDDEN = (second_wakes_another, second_goes_on)  # from schedules, by the others: each has its test of the suite


@contextmanager
def copies_go_on_anyway() -> Iterator[None]:
    """Whoever is second goes on, in whichever way."""
    with ExitStack() as all_of_them:
        for mutant in (*HIDDEN, found_by_two, late_goes_on_too, picked_up_by_two):
            all_of_them.enter_context(mutant())
        yield


@contextmanager
def picks_up_the_ended() -> Iterator[None]:
    """A worker that finds its run ended as it picks it up goes on with what it has loaded."""

    async def pick_up(self: Worker, at: Standing, turn: _Turn) -> Standing | Answer:
        now_ms = self._ports.clock.now_ms()
        if await self._performer.forking.showing.show_root(at, picked_up(at.token, now_ms)):
            return changed(at, run=changed(at.run, started_ms=now_ms))
        header = await self._ports.runs.get_run(at.run_id)
        if header is None:
            await self._performer.permits.give_back(at)
            raise NotFound(f"run {at.run_id} was deleted", code="unknown_run")
        if header.paused_ms and not header.started_ms:
            return changed(at, header=header, run=run_info(header, at.run))
        if header.started_ms and turn.budget.is_first():
            return Answer(at, Rest())
        return changed(at, run=changed(at.run, started_ms=header.started_ms or now_ms))

    with mock.patch.object(Worker, "_pick_up", pick_up):
        yield
