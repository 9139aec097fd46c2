"""The mailbox: events and waits meet under a topic, and an event that is consumed is consumed once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stepwell.engine.records import Topic
from stepwell.engine.stored.formats import FORMAT, OLDEST
from stepwell.errors import Conflict, EngineFault, InvalidInput, NewerFormat
from stepwell.runtime.ports import Appended, EventTaken, Saved
from tests.contract.kit import NOW_MS, ORDER, Store, at_once, event, run, waiter


def pending(store: Store, now_ms: int = NOW_MS, topic: Topic = ORDER) -> list[str]:
    return [found.id for found in run(store.pending_events(topic, now_ms))]


def consume(store: Store, event_id: str = "e1", run_id: str = "r1", slot: int = 4, body: str = "resumed") -> Appended:
    return run(store.append(run_id, "0", slot, body, consumes=(ORDER, event_id)))


def test_an_event_comes_back_as_it_was_put(store: Store) -> None:
    given = event(payload={"größe": [1, None, "🧀", "\ud800"]})
    assert run(store.put_event(given))
    assert run(store.get_event(ORDER, "e1")) == given
    assert run(store.pending_events(ORDER, NOW_MS)) == [given]
    assert run(store.get_event(ORDER, "unknown")) is None
    assert run(store.get_event(Topic("other"), "e1")) is None


def test_an_event_of_the_same_id_is_refused_and_changes_nothing(store: Store) -> None:
    run(store.put_event(event()))
    assert not run(store.put_event(event(payload="other", at_ms=NOW_MS + 5)))
    assert run(store.get_event(ORDER, "e1")) == event()


def test_an_event_of_the_same_id_is_refused_after_it_was_consumed(store: Store) -> None:
    run(store.put_event(event()))
    consume(store)
    assert not run(store.put_event(event()))
    assert pending(store) == []


def test_pending_events_can_be_read_from_an_id_on(store: Store) -> None:
    for number in range(4):
        run(store.put_event(event(f"e{number}", NOW_MS + number)))
    consume(store, "e2")
    assert [found.id for found in run(store.pending_events(ORDER, NOW_MS, "e0"))] == ["e1", "e3"]
    assert run(store.pending_events(ORDER, NOW_MS, "e3")) == []


def test_topics_are_apart_even_where_their_texts_are_equal(store: Store) -> None:
    first, second = Topic("a", "b#c"), Topic("a#b", "c")
    assert str(first) == str(second)
    assert run(store.put_event(event(topic=first)))
    assert run(store.put_event(event(topic=second)))
    run(store.put_waiter(waiter(topic=first)))
    assert run(store.waiters(second)) == []


@pytest.mark.threads
def test_of_64_threads_that_put_an_event_exactly_one_does(store: Store) -> None:
    assert sum(at_once(64, lambda number: run(store.put_event(event(payload=number))))) == 1


def test_pending_events_are_oldest_first_and_by_id_where_times_are_equal(store: Store) -> None:
    for event_id, at_ms in (("c", 5), ("b", 7), ("a", 7), ("z", 1)):
        run(store.put_event(event(event_id, at_ms)))
    assert pending(store, 5) == ["z", "c", "a", "b"]


def test_expired_and_consumed_events_are_not_pending(store: Store) -> None:
    run(store.put_event(event("old", expires_ms=NOW_MS + 10)))
    run(store.put_event(event("new", expires_ms=NOW_MS + 20)))
    run(store.put_event(event("taken")))
    assert consume(store, "taken") is None
    assert pending(store, NOW_MS + 9) == ["new", "old"]
    assert pending(store, NOW_MS + 10) == ["new"]
    assert pending(store, NOW_MS + 20) == []


def test_a_topic_with_too_many_pending_events_refuses_the_next(store: Store) -> None:
    for number in range(3):
        run(store.put_event(event(f"e{number}"), 3))
    with pytest.raises(Conflict) as caught:
        run(store.put_event(event("e3"), 3))
    assert caught.value.code == "too_many_pending"
    assert not run(store.put_event(event("e0"), 3)), "a duplicate is a duplicate, however full the topic is"
    assert run(store.put_event(event("e3", topic=Topic("order", "43")), 3))
    consume(store, "e1")
    assert run(store.put_event(event("e4"), 3))
    assert run(store.put_event(event("e5", NOW_MS + 1_000), 3)), "the others have expired by then"


@pytest.mark.parametrize("payload", [object(), float("inf")], ids=["object", "infinity"])
def test_a_payload_that_is_not_json_is_refused(store: Store, payload: Any) -> None:
    with pytest.raises(InvalidInput):
        run(store.put_event(event(payload=payload)))
    assert pending(store) == []


def test_what_a_caller_does_to_a_payload_later_does_not_reach_the_store(store: Store) -> None:
    given = [1]
    run(store.put_event(event(payload=given)))
    given.append(2)
    run(store.pending_events(ORDER, NOW_MS))[0].payload.append(3)
    assert run(store.get_event(ORDER, "e1")) == event(payload=[1])


def test_consuming_appends_the_record_and_marks_the_event(store: Store) -> None:
    run(store.put_event(event()))
    assert consume(store) is None
    assert run(store.read_log("r1", "0")) == [Saved(4, "resumed")]
    assert run(store.get_event(ORDER, "e1")) == replace(event(), consumed_by="r1|0|4")


def test_an_event_that_is_taken_leaves_the_slot_free(store: Store) -> None:
    run(store.put_event(event()))
    consume(store)
    assert consume(store, run_id="r2") == EventTaken()
    assert consume(store, "unknown", run_id="r2") == EventTaken()
    assert run(store.read_log("r2", "0")) == []
    assert run(store.append("r2", "0", 4, "timeout")) is None


def test_a_slot_that_is_taken_leaves_the_event_pending(store: Store) -> None:
    run(store.put_event(event()))
    run(store.append("r1", "0", 4, "timeout"))
    assert consume(store) == "timeout"
    assert pending(store) == ["e1"]
    assert run(store.read_log("r1", "0")) == [Saved(4, "timeout")]


def test_where_slot_and_event_are_taken_the_slot_is_reported(store: Store) -> None:
    run(store.put_event(event()))
    consume(store)
    assert consume(store, body="mine") == "resumed"
    assert run(store.read_log("r1", "0")) == [Saved(4, "resumed")]


@pytest.mark.threads
def test_of_64_runs_that_fight_for_one_event_exactly_one_gets_it(store: Store) -> None:
    run(store.put_event(event()))
    answers = at_once(64, lambda number: consume(store, run_id=f"r{number}"))
    assert (answers.count(None), answers.count(EventTaken())) == (1, 63)
    written = [f"r{number}" for number in range(64) if run(store.read_log(f"r{number}", "0"))]
    assert written == [f"r{answers.index(None)}"]


@pytest.mark.threads
def test_of_64_events_that_fight_for_one_slot_exactly_one_is_consumed(store: Store) -> None:
    for number in range(64):
        run(store.put_event(event(f"e{number}")))
    answers = at_once(64, lambda number: consume(store, f"e{number}", body=f"{number}"))
    winner = answers.index(None)
    assert answers == [None if number == winner else f"{winner}" for number in range(64)]
    assert run(store.read_log("r1", "0")) == [Saved(4, f"{winner}")]
    assert set(pending(store)) == {f"e{number}" for number in range(64)} - {f"e{winner}"}


@pytest.mark.threads
def test_an_append_and_a_consumption_never_both_get_the_slot(store: Store) -> None:
    for slot in range(20):
        run(store.put_event(event(f"e{slot}")))

        def race(number: int, slot: int = slot) -> bool:
            if number:
                return consume(store, f"e{slot}", slot=slot) is None
            return run(store.append("r1", "0", slot, "timeout")) is None

        appended, consumed = at_once(2, race)
        assert appended != consumed
        assert (f"e{slot}" in pending(store)) == appended


def test_waiters_are_oldest_first_and_then_by_run_token_slot_and_arm(store: Store) -> None:
    expected = [
        waiter("r9", 1),
        waiter("r1", 2, slot=3, arm=0),
        waiter("r1", 2, slot=3, arm=1, match="event.n > 1"),
        waiter("r1", 2, slot=11),
        waiter("r1", 2, "0/1.0", slot=2),
        waiter("r2", 2),
    ]
    for each in sorted(expected, key=lambda each: (each.slot, each.run_id)):
        run(store.put_waiter(each))
    assert run(store.waiters(ORDER)) == expected
    assert run(store.waiters(Topic("order"))) == []


def test_waits_are_counted_up_to_a_bound(store: Store) -> None:
    for number in range(5):
        run(store.put_waiter(waiter(f"r{number}")))
    run(store.put_event(event("e1")))
    assert [run(store.count_waiters(ORDER, most)) for most in (2, 5, 9)] == [2, 5, 5]
    assert run(store.count_waiters(Topic("order"), 9)) == 0


def test_a_wait_is_registered_once(store: Store) -> None:
    run(store.put_waiter(waiter()))
    run(store.put_waiter(waiter()))
    run(store.put_waiter(waiter(since_ms=NOW_MS + 9)))
    assert run(store.waiters(ORDER)) == [waiter()]


def test_a_wait_is_forgotten_alone_and_as_often_as_asked(store: Store) -> None:
    run(store.put_waiter(waiter()))
    run(store.put_waiter(waiter(arm=1)))
    run(store.forget_waiter(waiter()))
    run(store.forget_waiter(waiter()))
    assert run(store.waiters(ORDER)) == [waiter(arm=1)]


def test_an_event_of_newer_code_is_kept_and_left_to_a_newer_reader(store: Store) -> None:
    """It is neither skipped nor misread: whoever reads its topic has to be newer."""
    run(store.put_event(event()))
    run(store.put_event(replace(event("e2"), format=FORMAT + 1)))
    assert run(store.get_event(ORDER, "e1")) == event()
    for read in (store.get_event(ORDER, "e2"), store.pending_events(ORDER, NOW_MS)):
        with pytest.raises(NewerFormat):
            run(read)
    assert not run(store.put_event(event("e2")))


def test_an_event_that_nobody_can_read_keeps_no_other_from_those_who_wait(store: Store) -> None:
    """Whoever asks for it hears so; its topic may be that of many runs."""
    for event_id, number in (("e1", FORMAT), ("e2", OLDEST - 1), ("e3", FORMAT)):
        run(store.put_event(replace(event(event_id), format=number)))
    assert pending(store) == ["e1", "e3"]
    with pytest.raises(EngineFault) as raised:
        run(store.get_event(ORDER, "e2"))
    assert raised.value.code == "format_too_old"
    assert not run(store.put_event(event("e2")))


def test_an_event_of_the_format_before_is_read(store: Store) -> None:
    old = replace(event(), format=FORMAT - 1)
    run(store.put_event(old))
    assert run(store.pending_events(ORDER, NOW_MS)) == [old]
