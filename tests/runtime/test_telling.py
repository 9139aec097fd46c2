"""What a teller remembers between two records of a run, and what it does not."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from stepwell.engine.records import End, Goto, Kind, Record, Status
from stepwell.engine.stored.codec import encode_record
from stepwell.errors import EngineFault
from stepwell.memory.blobs import MemoryBlobs
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.notify.telling import REMEMBERED_BYTES, Notice, Teller
from tests.runtime.kit import NOW_MS, CountingStore, World

FLOW = "workflow: flow\ntimeline: [{name: a, run: python:m.a}]"


class Told:
    """A teller over a store whose reads are counted, and one run without records."""

    def __init__(self, runs: int = 1, **options: int) -> None:
        self.world = World(FLOW)
        self.store: CountingStore = self.world.store
        self.runs = [self.world.start() for _ in range(runs)]
        self.teller = Teller(self.store, self.store, self.store, MemoryBlobs(), **options)
        self.store.calls.clear()

    def tell(self, slot: int, padding: int = 0, end: bool = False, run: int = 0) -> list[Notice]:
        following = End(Status.COMPLETED) if end else Goto("a")
        record = Record(slot, Kind.STEP, "wake", NOW_MS + slot, "a", attempt=1, output="x" * padding, next=following)
        body = encode_record(record)
        run_now(self.store.inner.append(self.runs[run], "0", slot, body))
        return run_now(self.teller.appended(self.runs[run], "0", slot, body))

    @property
    def reads(self) -> int:
        """Since this was last asked for."""
        count = self.store.calls.total()
        self.store.calls.clear()
        return count


def test_the_next_record_of_a_run_costs_no_read() -> None:
    told = Told()
    told.tell(0)
    assert told.reads == 1  # the header
    told.tell(1)
    assert told.reads == 0


def test_a_record_that_was_skipped_is_read() -> None:
    told = Told()
    told.tell(0)
    body = encode_record(Record(1, Kind.STEP, "wake", NOW_MS, "a", attempt=1, next=Goto("a")))
    run_now(told.store.inner.append(told.runs[0], "0", 1, body))
    told.store.calls.clear()
    (notice,) = told.tell(2)
    assert (notice.id, told.reads) == (f"{told.runs[0]}/0@2.1", 1)


def test_a_record_that_comes_again_is_told_as_the_first_time() -> None:
    told = Told()
    first = [told.tell(slot) for slot in range(3)]
    again = [told.tell(slot) for slot in (1, 2)]
    assert [[notice.id for notice in notices] for notices in again] == [
        [notice.id for notice in notices] for notices in first[1:]
    ]
    told.store.calls.clear()
    told.tell(3)
    assert told.reads == 0


def test_a_gap_in_the_log_is_a_fault_and_not_a_story() -> None:
    told = Told()
    told.tell(0)
    with pytest.raises(EngineFault, match="slot 2 cannot follow slot 0"):
        told.tell(2)


def test_a_large_token_is_read_again_rather_than_kept() -> None:
    told = Told()
    told.tell(0, padding=REMEMBERED_BYTES)
    told.tell(1)
    assert told.reads == 2  # the header, and slot 0


def test_many_small_records_do_not_make_a_token_large() -> None:
    told = Told()
    for slot in range(20):
        told.tell(slot, padding=REMEMBERED_BYTES // 8)  # each in the place of the one before
    assert told.reads == 1


def test_only_so_many_runs_are_remembered() -> None:
    told = Told(runs=3, remembered=2)
    for run in range(3):
        told.tell(0, run=run)
    assert told.reads == 3
    told.tell(1, run=2)
    told.tell(1, run=1)
    assert told.reads == 0
    told.tell(1, run=0)
    assert told.reads == 2  # its header and its slot 0


def test_an_ended_run_is_told_again_from_its_log() -> None:
    told = Told()
    first = [told.tell(0), told.tell(1, end=True)]
    again = [told.tell(0), told.tell(1, end=True)]
    assert [[notice.id for notice in notices] for notices in first] == [
        [notice.id for notice in notices] for notices in again
    ]
    assert again[1][-1].status is Status.COMPLETED


def test_a_pause_and_its_end_are_told_from_the_header_alone() -> None:
    """They are no records, so that a run which nobody pauses pays nothing for it; each has an id of its own."""
    told = Told()
    service, run_id = told.world.service, told.runs[0]
    headers = [told.world.header(run_id)]
    for _ in range(2):
        run_now(service.pause(run_id, "the bank is down", "ana"))
        headers.append(told.world.header(run_id))
        told.world.pass_time(1_000)
        run_now(service.unpause(run_id))
        headers.append(told.world.header(run_id))
    found = [one for pair in pairwise(headers) for one in told.teller.header_changed(*pair)]
    assert [one.entry.type for one in found if one.entry.type != "run.started"] == ["run.paused", "run.unpaused"] * 2
    first = found[0]
    assert (first.status, first.entry.by, first.entry.data) == ("paused", "ana", {"reason": "the bank is down"})
    assert len({one.id for one in found}) == len(found)


def test_a_pause_for_the_cost_of_a_run_is_the_engine_s_own() -> None:
    """Another pause, and each end of one, is a call."""
    told = Told()
    before = told.world.header(told.runs[0])
    for pauser, trigger in (("ana", "call"), ("its max_cost of 0.25 USD", "internal")):
        paused = replace(before, paused_ms=before.changed_ms + 1, paused_by=pauser)
        found = [*told.teller.header_changed(before, paused), *told.teller.header_changed(paused, before)]
        assert [one.entry.trigger for one in found] == [trigger, "call"]


MACHINE = """
workflow: flow
resources: {look: python:m.look}
StartAt: Look
States:
  Look: {Type: Parallel, Branches: [{StartAt: B, States: {B: {Type: Task, Resource: look, End: true}}}], End: true}
"""


@pytest.mark.parametrize(("is_known", "step"), [(True, "Look"), (False, "Look.fork")])
def test_subscribers_are_told_the_state_of_a_node_that_was_added(*, is_known: bool, step: str) -> None:
    world = World(MACHINE)
    run_id = world.start()
    world.deliver()
    teller = Teller(world.store, world.store, world.store, world.blobs)
    teller.graph_of = world.service.graph_of if is_known else None
    saved = run_now(world.store.read_log(run_id, "0"))[0]
    notices = run_now(teller.appended(run_id, "0", 0, saved.body))
    assert [one.entry.step for one in notices if one.entry.type == "fork.opened"] == [step]
