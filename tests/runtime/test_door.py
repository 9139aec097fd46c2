"""Two actors that have read the same token: the door has the refused one decide again, or find its own record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stepwell.engine.actions import Drop, Refuse, Write
from stepwell.engine.inputs import Approved, Cancelled, EventOffered
from stepwell.engine.records import ROOT, Goto, Kind, Record, Resumption
from stepwell.engine.waits import event_topic
from stepwell.errors import PortError
from stepwell.runtime.log.door import Answer, Door
from stepwell.runtime.log.logbook import Logbook
from stepwell.runtime.log.open_batch import OpenBatch
from stepwell.runtime.log.standing import Standing
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Event
from tests.runtime.kit import World

VOTES = "workflow: flow\ntimeline:\n  - {name: ask, wait: {for: approval, approvers: {need: 2}, timeout: 7d}}\n"
STEPS = "workflow: flow\ndurability: batch\ntimeline:\n" + "".join(
    f"  - {{name: s{number}, run: python:m.s{number}}}\n" for number in range(4)
)
PAID = "workflow: flow\ntimeline:\n  - {name: pay, wait: {for: event, name: paid, key: k, timeout: 7d}}\n"


def waiting(text: str) -> tuple[World, Standing]:
    """Returns a run that waits, and its token as an actor has read it."""
    world = World(text)
    run_id = world.start()
    world.deliver()
    return world, read(world, run_id)


def read(world: World, run_id: str) -> Standing:
    at = run_now(Logbook(world.parts.ports, world.catalog).load(run_id, ROOT))
    assert at is not None
    return at


def put(world: World, at: Standing, given: Any, by: str) -> Answer:
    return run_now(Door(Logbook(world.parts.ports, world.catalog), lambda: 0.0).put(at, given, by))


def vote(who: str) -> Approved:
    return Approved(Resumption("approved", payload={}, by=who))


def kinds(world: World, at: Standing) -> list[Kind]:
    return [one.kind for one in run_now(world.service.records(at.run_id))]


def test_who_is_refused_decides_again_and_writes_one_slot_further() -> None:
    world, at = waiting(VOTES)
    first, second = put(world, at, vote("ana"), "a"), put(world, at, vote("leo"), "b")
    assert (first.is_new, first.is_mine, second.is_new, second.is_mine) == (True, True, True, True)
    assert kinds(world, at) == [Kind.WAITING, Kind.RECEIVED, Kind.RESUMED]
    assert second.at.token.slot == 2


def test_who_is_refused_by_its_own_record_goes_on_from_it() -> None:
    """It is a redelivery: the answer is the one that the first delivery had."""
    world, at = waiting(VOTES)
    first, again = put(world, at, vote("ana"), "a"), put(world, at, vote("ana"), "a")
    assert (again.is_new, again.is_mine) == (False, True)
    assert isinstance(again.action, Write)
    assert again.at.token == first.at.token
    assert kinds(world, at) == [Kind.WAITING, Kind.RECEIVED]


def test_who_is_refused_by_the_end_is_told_so() -> None:
    world, at = waiting(VOTES)
    put(world, at, Cancelled("enough"), "c")
    late = put(world, at, vote("ana"), "a")
    assert isinstance(late.action, Refuse)
    assert (late.is_new, late.is_mine) == (False, False)


def test_an_event_that_another_run_took_is_told_from_one_that_the_wait_does_not_want() -> None:
    world, one = waiting(PAID)
    other_id = world.start()
    world.deliver()
    other, topic, now_ms = read(world, other_id), event_topic("paid", "k"), world.clock.now_ms()
    run_now(world.parts.ports.mailbox.put_event(Event(topic, "e1", 7, now_ms, now_ms + 60_000)))
    offered = EventOffered(0, 0, topic, "e1", 7, now_ms, is_consumed=True)
    taken, lost = put(world, one, offered, "p"), put(world, other, offered, "p")
    assert (taken.is_mine, taken.is_taken) == (True, False)
    assert (lost.is_mine, lost.is_taken, lost.action) == (False, True, Drop())
    assert kinds(world, other) == [Kind.WAITING]
    over = put(world, taken.at, replace(offered, event_id="e2"), "q")
    assert (over.is_mine, over.is_taken) == (False, False)


# -- batches


def gathering() -> tuple[World, Standing, Standing]:
    """Returns a run with `durability: batch` before its first record: as its worker has it, and as others read it."""
    world = World(STEPS)
    at = read(world, world.start())
    return world, replace(at, batch=OpenBatch(world.clock)), at


def ended(at: Standing, number: int, by: str) -> Record:
    """Returns the record of a step of the chain."""
    return Record(at.token.next_slot, Kind.STEP, by, 0, f"s{number}", output=number, next=Goto(f"s{number + 1}"))


def outrun(by: str) -> tuple[World, Standing]:
    """Returns a worker whose token another actor, or another delivery of its message, moved while its step ran."""
    world, mine, other = gathering()
    assert mine.batch is not None
    written = put(world, other, Cancelled("enough"), by)
    mine.batch.lost = written.at
    return world, mine


def test_who_was_outrun_while_its_step_ran_goes_on_if_its_own_message_was_first() -> None:
    """Its message is deleted once it is done. If it dropped, and the other delivery died, nobody would go on."""
    for by, is_mine in (("w", True), ("another", False)):
        world, at = outrun(by)
        answer = put(world, at, Cancelled("late"), "w")
        assert (answer.is_mine, answer.is_new, answer.action) == (is_mine, False, Drop())
        assert kinds(world, at) == [Kind.ENDED]


def test_who_was_outrun_closes_no_batch_as_if_it_had_written_it() -> None:
    for by, is_mine in (("w", True), ("another", False)):
        world, at = outrun(by)
        door = Door(Logbook(world.parts.ports, world.catalog), lambda: 0.0)
        answer = run_now(door.close(at, "w"))
        assert (answer.is_mine, answer.is_new) == (is_mine, False)


def test_a_batch_that_was_refused_is_empty() -> None:
    """What waited in it is lost: the steps run again, or their run has ended."""
    world, at, other = gathering()
    assert at.batch is not None
    at.batch.add(at.token, ended(at, 0, "w"))
    put(world, other, Cancelled("enough"), "c")
    door = Door(Logbook(world.parts.ports, world.catalog), lambda: 0.0)
    answer = run_now(door.close(at.after(at.batch.records[0]), "w"))
    assert (answer.is_mine, answer.is_new, answer.at.is_open) == (False, False, False)
    assert kinds(world, at) == [Kind.ENDED]


@pytest.mark.parametrize("later", [[], [2]], ids=["nothing follows", "a record follows"])
def test_after_a_lost_answer_the_token_is_as_its_log_has_it(later: list[int]) -> None:
    """A snapshot of it is what a reader folds."""
    world, at, _ = gathering()
    door = Door(Logbook(world.parts.ports, world.catalog), lambda: 0.0)
    at = gathered(at, 0, 1)

    def no_answer(*args: Any) -> None:
        run_now(world.store.inner.append(*args))
        raise PortError("no answer")

    world.store.before["append"] = no_answer
    with pytest.raises(PortError):
        run_now(door.close(at, "w"))
    answer = run_now(door.close(gathered(at, *later), "w"))
    assert (answer.is_mine, answer.at.is_open) == (True, False)
    assert answer.at.token == read(world, at.run_id).token
    assert [one.slot for one in run_now(world.service.records(at.run_id))] == [0, 1, *later]


def gathered(at: Standing, *numbers: int) -> Standing:
    """Returns the token after these steps, whose records wait in its batch."""
    assert at.batch is not None
    for number in numbers:
        record = ended(at, number, "w")
        at.batch.add(at.token, record)
        at = at.after(record)
    return at
