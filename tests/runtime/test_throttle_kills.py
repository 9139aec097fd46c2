"""Whoever works on a throttled step may die at any call of the store: never one step too many, no permit is lost."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from stepwell.definition.graph import Limit, RateLimit
from stepwell.engine.limits.throttles import PERMITTED
from stepwell.engine.records import Kind, Record
from stepwell.errors import PortError
from stepwell.limits import HOUR_MS, MINUTE_MS, SECOND_MS
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.waits.lines import Lines
from tests.runtime.kit import World
from tests.runtime.test_batches import Again
from tests.runtime.test_permit_kills import Watched, ask, deliver

FLOW = """
workflow: flow
timeline:
  - {name: charge, run: python:m.charge, throttle: stripe}
  - {name: last, run: python:m.last}
"""
ONCE = FLOW.replace("throttle: stripe", "throttle: stripe, at_most_once: true")


class Steps(Watched):
    """Counts the steps that hold a permit, by the records."""

    def see(self, run_id: str, record: Record) -> None:
        came = record.resumption.kind if record.resumption else ""
        if record.kind is Kind.RESUMED and came == PERMITTED:
            self.counted.add(run_id)
        elif record.kind is not Kind.BEGAN:
            self.counted.discard(run_id)
        self.most = max(self.most, len(self.counted))


def lived(definition: str, at: int, done: bool) -> tuple[World, Watched, list[str]]:
    """Four runs, of which one is cancelled while it waits in line and one while it waits for its turn."""
    world = World(definition)
    world.catalog.limits = {"stripe": Limit(1, RateLimit(1, 10 * SECOND_MS))}
    runs = [world.start() for _ in range(4)]
    watched = Steps(world.store.inner, at, done)
    world.store.inner = watched
    now_ms = world.clock.now_ms()
    for step, cancelled in enumerate((runs[2], runs[1], "")):
        deliver(world, now_ms + 5_000 * (step + 1))
        if cancelled:
            ask(partial(world.service.cancel, cancelled))
    deliver(world, now_ms + 10 * MINUTE_MS)
    return world, watched, runs


@pytest.mark.parametrize("done", [False, True], ids=["before it", "after it"])
@pytest.mark.parametrize("definition", [FLOW, ONCE], ids=["step", "at most once"])
def test_a_worker_that_dies_at_any_call_leaves_no_step_behind_and_no_permit_taken(definition: str, done: bool) -> None:
    at, has_killed = 1, True
    while has_killed:
        world, watched, runs = lived(definition, at, done)
        assert watched.most == 1, at
        has_killed = watched.stop()
        world.clock.set(world.clock.now_ms() + HOUR_MS)
        run_now(world.sweeper.sweep(MINUTE_MS))
        deliver(world, world.clock.now_ms() + HOUR_MS)
        assert all(world.header(one).status.terminal for one in runs), at
        assert run_now(world.store.notes("permits:@stripe")) == {}, at
        assert set(run_now(world.store.notes("pace:@stripe"))) <= {"due"}, at
        at += 1
    assert at > 60


def test_a_permit_that_is_granted_without_a_word_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: whoever reads that another was granted its permit, but may not know, leaves it."""

    async def unseen(self: Lines, share: Any, but: str, granted: str = "", **_: object) -> Any:
        return await self.read(share)

    monkeypatch.setattr(Lines, "seen_to", unseen)
    with pytest.raises(AssertionError):
        test_a_worker_that_dies_at_any_call_leaves_no_step_behind_and_no_permit_taken(FLOW, done=True)


def test_a_permit_taken_once_the_token_is_far_ahead_is_given_back_though_its_worker_died() -> None:
    """Another delivery had it and gave it back, and wrote more: the last record says nothing of a permit any more."""
    world = World(FLOW + "  - {name: after, run: python:m.last}\n")
    world.catalog.limits = {"stripe": Limit(2)}
    run_id, notes = world.start(), world.store.inner
    put = notes.put_note
    message = world.queue.receive(ALL_LANES, world.clock.now_ms(), MINUTE_MS)
    assert message is not None

    async def late(*note: Any, **named: Any) -> bool:
        notes.put_note = put
        run_now(dispatch(world.parts, message.lane, message.message, Again()))
        await put(*note, **named)
        raise PortError("it died here")

    notes.put_note = late
    with pytest.raises(PortError):
        run_now(dispatch(world.parts, message.lane, message.message, Unlimited(message.deliveries)))
    assert run_now(world.store.notes("permits:@stripe")) == {"h00": f'["{run_id}|0|0"]'}
    run_now(dispatch(world.parts, message.lane, message.message, Again()))
    assert run_now(world.store.notes("permits:@stripe")) == {}


@pytest.mark.parametrize("how", ["cancel", "terminate"])
def test_a_permit_taken_after_the_end_is_given_back_though_its_worker_died(how: str) -> None:
    """The end had given back what there was, and who waits looks at the oldest holder alone."""
    world = World(FLOW)
    world.catalog.limits = {"stripe": Limit(2)}
    run_id, notes = world.start(), world.store.inner
    put = notes.put_note

    async def late(*note: Any, **named: Any) -> bool:
        notes.put_note = put
        run_now(getattr(world.service, how)(run_id))
        await put(*note, **named)
        raise PortError("it died here")

    notes.put_note = late
    with pytest.raises(PortError):
        world.deliver()
    assert run_now(world.store.notes("permits:@stripe")) == {"h00": f'["{run_id}|0|0"]'}
    world.pass_time(MINUTE_MS)  # until its message is there again
    assert run_now(world.store.notes("permits:@stripe")) == {}
