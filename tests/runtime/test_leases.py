"""A message whose lease expires while it is handled: its next delivery writes what follows."""

from __future__ import annotations

from unittest import mock

import pytest

from stepwell.engine.inputs import Approved
from stepwell.engine.records import ROOT, Kind, Resumption
from stepwell.engine.waits import event_topic
from stepwell.errors import LeaseLost
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.messages import Wake
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.loop.perform import Performer
from stepwell.runtime.ports import Event
from tests.runtime.kit import World

BOTH = """
workflow: flow
timeline:
  - {name: hold, wait: {all: [{for: approval}, {for: event, name: paid, key: k}], timeout: 7d}}
"""


class Expires(Unlimited):
    """The budget of a worker that still has its message when it asks for the first time."""

    def __init__(self) -> None:
        self.asked = 0

    def holds(self) -> bool:
        self.asked += 1
        return self.asked == 1


def test_what_an_effect_finds_is_not_written_once_the_lease_has_run_out() -> None:
    """The answer is in the log; the event that its effect finds is left to the next delivery."""
    world = World(BOTH)
    run_id = world.start()
    world.deliver()
    at = run_now(Logbook(world.parts.ports, world.catalog).load(run_id, ROOT))
    assert at is not None
    now_ms = world.clock.now_ms()
    event = Event(event_topic("paid", "k"), "e1", 7, now_ms, now_ms + 60_000)  # its message was lost
    run_now(world.parts.ports.mailbox.put_event(event))
    given, budget = Approved(Resumption("approved", payload={}, by="ana")), Expires()
    with pytest.raises(LeaseLost):
        run_now(world.parts.coordinator._advance.take(at, given, "a", budget))
    assert budget.asked == 2
    assert [one.kind for one in run_now(world.service.records(run_id))] == [Kind.WAITING, Kind.RECEIVED]
    run_now(world.parts.coordinator._advance.take(at, given, "a"))
    kinds = [one.kind for one in run_now(world.service.records(run_id))]
    assert kinds == [Kind.WAITING, Kind.RECEIVED, Kind.RESUMED]


LIMITED = """
workflow: flow
concurrency: {limit: 1}
timeline: [{name: last, run: python:m.last}]
"""


class LostOnceGranted(Unlimited):
    """The budget of a worker whose message another gets while it is granted the run's permit, or before."""

    def __init__(self, world: World, *, before: bool) -> None:
        self._notes, self._before = world.parts.ports.notes, before

    def holds(self) -> bool:
        return not self._before and not run_now(self._notes.notes("permits:flow", 10))


@pytest.mark.parametrize("before", [True, False])
def test_who_has_lost_a_message_takes_no_permit_for_it_or_wakes_another_worker(*, before: bool) -> None:
    """The other one may have found no room meanwhile, and be done: nobody would begin the run."""
    world = World(LIMITED)
    wake = Wake(world.start(), -1, ROOT)
    world.lose_messages()
    with pytest.raises(LeaseLost):
        run_now(world.parts.worker.handle(wake, LostOnceGranted(world, before=before)))
    assert bool(run_now(world.parts.ports.notes.notes("permits:flow", 10))) is not before
    world.deliver()
    assert world.header(wake.run_id).status == ("pending" if before else "completed")


class Again(Unlimited):
    """The budget of a worker whose message came before."""

    def __init__(self, *, holds: bool) -> None:
        self._holds = holds

    def is_first(self) -> bool:
        return False

    def holds(self) -> bool:
        return self._holds


def test_who_has_lost_a_message_leaves_what_its_first_worker_may_have_shown_to_the_next_delivery() -> None:
    """It would show what it has read long ago: a run as running whose branches wait since."""
    world = World(BOTH)
    wake = Wake(world.start(), -1, ROOT)
    world.deliver()
    mended: list[bool] = []
    for holds in (False, True):

        async def mend_late(self: Performer, at: Standing, slot: int, *, holds: bool = holds) -> None:
            mended.append(holds)

        with mock.patch.object(Performer, "mend_late", mend_late):
            run_now(world.parts.worker.handle(wake, Again(holds=holds)))
    assert mended == [True]
