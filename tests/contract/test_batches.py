"""Batches of one token on every store: one body in the first slot, and a log that is read from any of its records."""

from __future__ import annotations

import pytest

from stepwell.engine.records import Goto, Kind, Record
from stepwell.engine.stored.token_batches import decode_records, encode_records
from stepwell.memory.blobs import MemoryBlobs
from stepwell.runtime.log.lanes import Lanes
from tests.contract.kit import Store, run

SIZES = (1, 10, 3, 1, 1, 10, 2)


def steps(slot: int, count: int, by: str = "wake:0:-1") -> list[Record]:
    return [Record(one, Kind.STEP, by, 1_700_000_000_000 + one, f"s{one}", 1, output=one, next=Goto(f"s{one + 1}"))
            for one in range(slot, slot + count)]  # fmt: skip


def written(store: Store) -> int:
    slot = 0
    for size in SIZES:
        assert run(store.append("r1", "0", slot, encode_records(steps(slot, size)))) is None
        slot += size
    return slot


def test_who_is_first_in_the_first_slot_has_all_slots_of_the_batch(store: Store) -> None:
    assert run(store.append("r1", "0", 0, encode_records(steps(0, 4)))) is None
    found = run(store.append("r1", "0", 0, encode_records(steps(0, 10, "wake:other"))))
    assert isinstance(found, str)
    assert decode_records(found) == steps(0, 4)
    assert run(store.append("r1", "0", 4, encode_records(steps(4, 2)))) is None


@pytest.mark.parametrize("limit", [1, 2, 9, 10, 11, None])
def test_a_log_is_read_from_within_a_batch_and_up_to_within_another(store: Store, limit: int | None) -> None:
    end = written(store)
    lanes = Lanes(store, MemoryBlobs())
    for after in range(-1, end + 2):
        last = end if limit is None else min(after + 1 + limit, end)
        found = run(lanes.own("r1", "0", after, limit))
        assert [one.slot for one in found] == list(range(after + 1, last)), after


def test_a_snapshot_between_two_batches_leaves_what_follows_it(store: Store) -> None:
    end = written(store)
    run(store.save_snapshot("r1", "0", 10, "{}"))
    loaded = run(store.load("r1", "0"))
    records = [record for saved in loaded.records for record in decode_records(saved.body)]
    assert [one.slot for one in records] == list(range(11, end))


def test_a_mark_holds_up_a_batch_as_it_does_a_record(store: Store) -> None:
    assert run(store.mark("r1", "0", 0))
    assert not isinstance(run(store.append("r1", "0", 0, encode_records(steps(0, 3)))), str | None)
    run(store.unmark("r1", "0", 0))
    assert run(store.append("r1", "0", 0, encode_records(steps(0, 3)))) is None
    assert run(store.mark("r1", "0", 3))
