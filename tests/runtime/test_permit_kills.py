"""Whoever works on a limited run may die at any call of the store: never one run too many, and no permit is lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from stepwell.engine.records import End, Record
from stepwell.engine.stored.codec import decode_record
from stepwell.errors import PortError
from stepwell.limits import HOUR_MS, MINUTE_MS
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.waits.lines import Lines
from tests.runtime.kit import World

QUEUED = """
workflow: flow
concurrency: {limit: 1}
timeline: [{name: nap, sleep: 1m}, {name: last, run: python:m.last}]
"""
LOCKED = QUEUED.replace("concurrency: {limit: 1}", "lock: one")
OLDEST = QUEUED.replace("limit: 1", "limit: 1, on_limit: cancel_oldest")
NEWEST = QUEUED.replace("limit: 1", "limit: 1, on_limit: cancel_newest")
PACED = QUEUED.replace("concurrency: {limit: 1}", "concurrency: {limit: 1}\nrate_limit: {limit: 1, per: 10s}")


class Watched:
    """A store whose n-th call does not answer, before or after it happened; it counts the runs that are under way."""

    def __init__(self, inner: Any, at: int, done: bool) -> None:
        self._inner, self._at, self._done, self.calls = inner, at, done, 0
        self.counted: set[str] = set()
        self.most = 0

    def stop(self) -> bool:
        """Whether a call was not answered; from now on all are."""
        has_killed, self._at = self._at <= self.calls, 0
        return has_killed

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._inner, name)

        async def call(*args: Any, **named: Any) -> Any:
            self.calls += 1
            if self.calls == self._at and not self._done:
                raise PortError("away")
            made = await method(*args, **named)
            if name == "append" and made is None:
                self.see(args[0], decode_record(args[3]))
            if self.calls == self._at:
                raise PortError("no answer")
            return made

        return call

    def see(self, run_id: str, record: Record) -> None:
        if isinstance(record.next, End):
            self.counted.discard(run_id)
        else:
            self.counted.add(run_id)
        self.most = max(self.most, len(self.counted))


def deliver(world: World, until_ms: int) -> None:
    """Everything until then; a message whose handler died comes again."""
    while True:
        while (one := world.queue.receive(ALL_LANES, world.clock.now_ms(), 1_000)) is not None:
            try:
                run_now(dispatch(world.parts, one.lane, one.message, Unlimited(one.deliveries)))
            except PortError:
                continue
            world.queue.delete(one)
        due_ms = world.queue.next_due_ms()
        if due_ms is None or due_ms > until_ms:
            world.clock.set(until_ms)
            return
        world.clock.set(max(due_ms, world.clock.now_ms()))


def lived(definition: str, at: int, done: bool) -> tuple[World, Watched, list[str]]:
    """Four runs of which one is cancelled while it waits and one while it is under way."""
    world = World(definition)
    runs = [world.start() for _ in range(4)]
    watched = Watched(world.store.inner, at, done)
    world.store.inner = watched
    now_ms = world.clock.now_ms()
    for step, cancelled in enumerate((runs[2], runs[0], "")):
        deliver(world, now_ms + 5_000 * (step + 1))
        if cancelled:
            ask(partial(world.service.cancel, cancelled))
    deliver(world, now_ms + 10 * MINUTE_MS)
    return world, watched, runs


def ask(call: Callable[[], Any]) -> None:
    """A caller who is not answered asks again."""
    try:
        run_now(call())
    except PortError:
        run_now(call())


@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("definition", [QUEUED, OLDEST, NEWEST, PACED], ids=["queue", "oldest", "newest", "paced"])
def test_a_worker_that_dies_at_any_call_leaves_no_run_behind_and_no_permit_taken(definition: str, done: bool) -> None:
    at, has_killed = 1, True
    while has_killed:
        world, watched, runs = lived(definition, at, done)
        assert watched.most == 1, at
        has_killed = watched.stop()
        world.clock.set(world.clock.now_ms() + HOUR_MS)
        run_now(world.sweeper.sweep(MINUTE_MS))
        deliver(world, world.clock.now_ms() + HOUR_MS)
        assert all(world.header(one).status.terminal for one in runs), at
        assert run_now(world.store.notes("permits:flow")) == {}, at
        assert set(run_now(world.store.notes("pace:flow"))) <= {"due"}, at
        at += 1
    assert at > 40


def test_a_permit_that_is_granted_without_a_word_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: whoever reads that another was granted its permit, but may not know, leaves it."""

    async def unseen(self: Lines, share: Any, but: str, granted: str = "", **_: object) -> Any:
        return await self.read(share)

    monkeypatch.setattr(Lines, "seen_to", unseen)
    with pytest.raises(AssertionError):
        test_a_worker_that_dies_at_any_call_leaves_no_run_behind_and_no_permit_taken(QUEUED, done=True)


def abandoned(definition: str, at: int, done: bool) -> tuple[World, Watched, str]:
    """A run that is terminated by a caller who dies, and never asks again; and nobody starts another one."""
    world = World(definition)
    run_id = world.start()
    world.deliver()
    watched = Watched(world.store.inner, at, done)
    world.store.inner = watched
    with suppress(PortError):
        run_now(world.service.terminate(run_id))
    return world, watched, run_id


@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("definition", [QUEUED, LOCKED], ids=["permit", "lock"])
def test_a_terminate_whose_caller_dies_for_good_leaves_nothing_once_the_sweeper_has_looked(
    definition: str, done: bool
) -> None:
    at, has_killed = 1, True
    while has_killed:
        world, watched, run_id = abandoned(definition, at, done)
        has_killed = watched.stop()
        for _ in range(3):
            deliver(world, world.clock.now_ms() + HOUR_MS)
            run_now(world.sweeper.sweep(MINUTE_MS))
        deliver(world, world.clock.now_ms() + HOUR_MS)
        assert world.header(run_id).status.terminal, at
        left = world.store.inner._inner._notes
        assert {kind: notes for kind, notes in left.items() if notes and kind != "sweeper"} == {}, at
        at += 1
    assert at > 5
