"""Erasing: every store deletes all that it has of a run, and nothing of others."""

from __future__ import annotations

import pytest

from stepwell.engine.records import Status, Topic
from stepwell.engine.waits import branch_topic, run_of, run_topic
from stepwell.errors import RunDeleted
from stepwell.runtime.ports import Blobs, Pause
from stepwell.runtime.ports.headers import RunQuery, StatusChange
from tests.contract.kit import NOW_MS, ORDER, Store, event, header, run, waiter

FORKS = [("0/0.1/0", 2, 1), ("0/0", 150, 2)]  # the innermost first
TOKENS = ("0", "0/0.1", "0/0.120", "0/0.1/0.1")


def test_the_logs_of_a_run_are_erased_and_its_header_last(store: Store) -> None:
    for run_id in ("gone", "kept"):
        run(store.create_run(header(run_id, input="x" * 3_000, tags={"t": "x"})))
        for token in TOKENS:
            run(store.append(run_id, token, 0, "body"))
            run(store.save_snapshot(run_id, token, 0, "s"))
        for join in ("0/0", "0/0@1", "0/0.1/0@0"):
            run(store.arrive(run_id, join, "m"))
        run(store.report(run_id, "0/0", 1, 7))
    assert run(store.erase_logs("gone", FORKS)) > 0
    assert run(store.get_run("gone")) == header("gone", input="x" * 3_000, tags={"t": "x"})
    assert (run(store.drop_run("gone", NOW_MS)), run(store.drop_run("gone", NOW_MS))) == (True, False)
    assert run(store.get_run("gone")) is None
    for token in TOKENS:
        assert run(store.is_blank("gone", token))
        assert run(store.load("gone", token)).snapshot is None
        assert len(run(store.read_log("kept", token))) == 1
    assert run(store.read_join("gone", "0/0")).members == frozenset()
    assert run(store.read_join("kept", "0/0")).numbers == {1: 7}
    listed = [one.run_id for one in run(store.list_runs(RunQuery(tag=("t", "x")))).headers]
    assert listed == ["kept"]
    assert run(store.erase_logs("gone", FORKS)) == 0
    run(store.scrub())


def test_the_logs_of_forks_that_are_not_named_stay(store: Store) -> None:
    """A deletion that was repeated does not know them; one that has read them deletes what they refer to first."""
    for token in TOKENS:
        run(store.append("r1", token, 0, "body"))
        run(store.save_snapshot("r1", token, 0, "s"))
    for join in ("0/0", "0/0@1"):
        run(store.arrive("r1", join, "m"))
    run(store.erase_logs("r1", [("0/1", 2, 1)]))
    assert [len(run(store.read_log("r1", token))) for token in TOKENS] == [0, 1, 1, 1]
    assert run(store.load("r1", "0/0.1")).snapshot is not None
    assert [run(store.read_join("r1", join)).members for join in ("0/0", "0/0@1")] == [{"m"}, {"m"}]


@pytest.mark.parametrize("given", ["x", "x" * 3_000], ids=["small", "large"])
def test_the_id_of_a_deleted_run_is_held_and_then_free(store: Store, given: str) -> None:
    run(store.create_run(header(input="old" + given)))
    run(store.watch("r1", NOW_MS))
    seen = run(store.get_run("r1"))
    assert seen is not None
    assert run(store.held_until_ms("r1")) == 0
    run(store.drop_run("r1", NOW_MS + 1_000))
    assert run(store.held_until_ms("r1")) == NOW_MS + 1_000
    for late_ms in (0, 999):
        with pytest.raises(RunDeleted) as refused:
            run(store.create_run(header(created_ms=NOW_MS + late_ms, input=given)))
        assert refused.value.code == "run_deleted"
    assert run(store.get_run("r1")) is None
    assert not run(store.watch("r1", NOW_MS))
    assert not run(store.change_status(StatusChange("r1", 0, Status.RUNNING, NOW_MS)))
    assert not run(store.hold(seen, Pause("ana", ""), NOW_MS))
    assert not run(store.drop_run("r1", NOW_MS + 9_000))
    assert run(store.list_runs(RunQuery())).headers == ()
    assert run(store.list_due(NOW_MS + 1, 10)).headers == ()
    made = header(created_ms=NOW_MS + 1_000, input=given)
    assert run(store.create_run(made)) is None
    assert run(store.held_until_ms("r1")) <= made.created_ms
    assert run(store.get_run("r1")) == made
    assert run(store.create_run(made)) == made


def test_the_topics_of_events_for_a_run_and_its_branches_alone_are_known(store: Store) -> None:
    mine = [run_topic("paid", "r1"), run_topic("a#b%", "r1"), branch_topic("a#b%", "r1", "0/2.1/3.0")]
    others = [run_topic("other", "r2"), run_topic("paid", "r10"), branch_topic("paid", "r10", "0/2.1")]
    for topic in (*mine, *others):
        for event_id in ("e1", "e2"):
            sent = event(event_id, topic=topic)
            run(store.put_event(sent))
            run(store.note_topic(sent, run_of(topic) or ""))
    run(store.put_event(event("e1", topic=Topic("keyed", "=r1"))))
    assert sorted(run(store.topics_to("r1")), key=str) == sorted(mine, key=str)
    assert run(store.topics_to("r3")) == []


def test_a_topic_is_erased_with_its_events_and_its_waits(store: Store) -> None:
    mine, other = run_topic("paid", "r1"), run_topic("paid", "r2")
    for topic in (mine, other):
        run(store.put_event(event(topic=topic)))
        run(store.put_waiter(waiter(topic=topic)))
    run(store.erase_topic(mine))
    assert (run(store.get_event(mine, "e1")), run(store.pending_events(mine, NOW_MS))) == (None, [])
    assert run(store.waiters(mine)) == []
    assert run(store.get_event(other, "e1")) is not None
    assert len(run(store.waiters(other))) == 1
    assert run(store.put_event(event(topic=mine)))  # its id is free again


def test_an_event_is_erased_by_the_run_that_consumed_it_alone(store: Store) -> None:
    run(store.put_event(event()))
    run(store.erase_event(ORDER, "e1", "r1"))
    assert run(store.get_event(ORDER, "e1")) is not None
    run(store.append("r1", "0", 0, "resumed", consumes=(ORDER, "e1")))
    run(store.erase_event(ORDER, "e1", "r"))
    run(store.erase_event(ORDER, "e1", "r2"))
    assert run(store.get_event(ORDER, "e1")) is not None
    run(store.erase_event(ORDER, "e1", "r1"))
    assert run(store.get_event(ORDER, "e1")) is None


def test_an_event_can_be_erased_whoever_consumed_it(store: Store) -> None:
    run(store.put_event(event()))
    run(store.erase_event(ORDER, "e1"))
    run(store.erase_event(ORDER, "e1"))
    assert run(store.pending_events(ORDER, NOW_MS)) == []


def test_two_events_of_one_large_payload_share_no_blob(store: Store) -> None:
    large = "x" * 200_000
    for event_id in ("e1", "e2"):
        run(store.put_event(event(event_id, payload=large)))
    run(store.erase_event(ORDER, "e1"))
    found = run(store.get_event(ORDER, "e2"))
    assert found is not None
    assert found.payload == large


def test_one_blob_is_removed(blobs: Blobs) -> None:
    first, second = (run(blobs.put(data, "days-14")) for data in (b"a", b"b"))
    for _ in range(2):
        run(blobs.remove(first))
    assert run(blobs.get(second)) == b"b"
