"""Queue and timers: at least once, not before the time, leased until done."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.errors import InvalidInput
from stepwell.limits import HOUR_MS
from stepwell.memory.inbox import ALL_LANES, TIMER_NAME_KEPT_MS, Delivery
from stepwell.runtime.ports import Lane
from tests.contract.kit import NOW_MS, LocalQueue, at_once, run

LEASE_MS = 60_000


def send(queue: LocalQueue, message: Any, at_ms: int = 0, lane: Lane = Lane.WORK) -> None:
    run(queue.send(lane, {"m": message}, at_ms))


def receive(queue: LocalQueue, now_ms: int = NOW_MS, *lanes: Lane) -> Delivery | None:
    return queue.receive(lanes or ALL_LANES, now_ms, LEASE_MS)


def must(queue: LocalQueue, now_ms: int = NOW_MS) -> Delivery:
    delivery = receive(queue, now_ms)
    assert delivery is not None
    return delivery


def drain(queue: LocalQueue, now_ms: int = NOW_MS, *lanes: Lane) -> list[Any]:
    """The messages due now, in the order they come."""
    found = []
    while (delivery := receive(queue, now_ms, *lanes)) is not None:
        queue.delete(delivery)
        found.append(delivery.message["m"])
    return found


def test_a_message_comes_as_it_was_sent(queue: LocalQueue) -> None:
    message = {"token": "0", "größe": [1, None, {"x": "🧀\ud800"}], "n": 2.5}
    run(queue.send(Lane.RESUME, message))
    delivery = must(queue)
    assert delivery.message == message
    assert (delivery.lane, delivery.deliveries) == (Lane.RESUME, 1)


@pytest.mark.needs("inbox")
def test_an_empty_queue_gives_nothing(queue: LocalQueue) -> None:
    assert receive(queue) is None
    assert queue.next_due_ms() is None
    assert queue.pending() == 0


def test_a_lane_gives_only_its_own_messages(queue: LocalQueue) -> None:
    send(queue, "work")
    send(queue, "resume", lane=Lane.RESUME)
    assert drain(queue, NOW_MS, Lane.RESUME) == ["resume"]
    assert drain(queue, NOW_MS, Lane.RESUME) == []
    assert drain(queue, NOW_MS, Lane.WORK) == ["work"]


@pytest.mark.needs("inbox")
def test_messages_due_at_once_come_in_the_order_they_were_sent_over_all_lanes(queue: LocalQueue) -> None:
    for number in range(6):
        send(queue, number, lane=ALL_LANES[number % len(ALL_LANES)])
    assert drain(queue) == list(range(6))


def test_a_message_is_not_delivered_before_its_time(queue: LocalQueue) -> None:
    send(queue, "later", NOW_MS + 5_000)
    send(queue, "a quarter of an hour later", NOW_MS + 900_000)
    assert receive(queue, NOW_MS + 4_999) is None
    assert drain(queue, NOW_MS + 5_000) == ["later"]
    assert receive(queue, NOW_MS + 899_999) is None
    assert drain(queue, NOW_MS + 900_000) == ["a quarter of an hour later"]


@pytest.mark.needs("inbox")
def test_what_has_been_due_longest_comes_first_and_a_stream_of_new_messages_does_not_hold_it_up(
    queue: LocalQueue,
) -> None:
    send(queue, "new")
    send(queue, "overdue", NOW_MS - 10)
    send(queue, "most overdue", NOW_MS - 20)
    assert drain(queue) == ["most overdue", "overdue", "new"]


@pytest.mark.needs("inbox")
def test_a_leased_message_comes_again_when_its_lease_is_over_with_a_new_receipt(queue: LocalQueue) -> None:
    send(queue, 1)
    first = must(queue)
    assert receive(queue, NOW_MS + LEASE_MS - 1) is None
    assert queue.next_due_ms() == NOW_MS + LEASE_MS
    second = must(queue, NOW_MS + LEASE_MS)
    assert (second.id, second.message, second.deliveries) == (first.id, first.message, 2)
    assert second.receipt != first.receipt


@pytest.mark.needs("inbox")
def test_a_deleted_message_never_comes_again(queue: LocalQueue) -> None:
    send(queue, 1)
    delivery = must(queue)
    queue.delete(delivery)
    queue.delete(delivery)
    assert queue.pending() == 0
    assert receive(queue, NOW_MS + LEASE_MS) is None


@pytest.mark.needs("inbox")
def test_a_message_may_be_deleted_after_its_lease_if_nobody_else_has_it(queue: LocalQueue) -> None:
    send(queue, 1)
    delivery = must(queue)
    queue.delete(delivery)
    assert receive(queue, NOW_MS + 2 * LEASE_MS) is None


@pytest.mark.needs("inbox")
def test_a_late_receiver_can_neither_delete_nor_extend_nor_release_what_another_has(queue: LocalQueue) -> None:
    send(queue, 1)
    late = must(queue)
    holder = must(queue, NOW_MS + LEASE_MS)
    queue.delete(late)
    queue.release(late, NOW_MS)
    assert not queue.extend(late, NOW_MS + LEASE_MS, 10 * LEASE_MS)
    assert receive(queue, NOW_MS + 2 * LEASE_MS - 1) is None
    assert queue.extend(holder, NOW_MS + LEASE_MS, LEASE_MS)
    queue.delete(holder)
    assert queue.pending() == 0


@pytest.mark.needs("inbox")
def test_a_receipt_never_fits_a_message_sent_later(queue: LocalQueue) -> None:
    send(queue, 1)
    old = must(queue)
    queue.delete(old)
    send(queue, 2)
    new = must(queue)
    queue.delete(old)
    assert new.id != old.id
    assert queue.pending() == 1


@pytest.mark.needs("inbox")
def test_an_extended_lease_lasts_from_the_extension(queue: LocalQueue) -> None:
    send(queue, 1)
    delivery = must(queue)
    assert queue.extend(delivery, NOW_MS + 50_000, LEASE_MS)
    assert receive(queue, NOW_MS + 50_000 + LEASE_MS - 1) is None
    assert must(queue, NOW_MS + 50_000 + LEASE_MS).deliveries == 2


@pytest.mark.needs("inbox")
def test_the_lease_of_a_deleted_message_cannot_be_extended(queue: LocalQueue) -> None:
    send(queue, 1)
    delivery = must(queue)
    queue.delete(delivery)
    assert not queue.extend(delivery, NOW_MS, LEASE_MS)
    queue.release(delivery, NOW_MS)
    assert receive(queue) is None


@pytest.mark.needs("inbox")
def test_a_released_message_comes_again_at_the_time_given_and_counts_its_deliveries(queue: LocalQueue) -> None:
    send(queue, 1)
    first = must(queue)
    queue.release(first, NOW_MS + 5)
    assert not queue.extend(first, NOW_MS, LEASE_MS)
    queue.delete(first)
    assert receive(queue, NOW_MS + 4) is None
    assert must(queue, NOW_MS + 5).deliveries == 2


@pytest.mark.needs("inbox")
def test_pending_counts_due_delayed_and_leased_messages(queue: LocalQueue) -> None:
    send(queue, "leased")
    send(queue, "due")
    send(queue, "delayed", NOW_MS + 1)
    run(queue.set("t", Lane.RESUME, {"m": "timer"}, NOW_MS + 2))
    must(queue)
    assert queue.pending() == 4


@pytest.mark.needs("inbox")
def test_the_next_time_is_asked_of_the_lanes_one_serves(queue: LocalQueue) -> None:
    send(queue, 1, NOW_MS + 9)
    send(queue, 2, NOW_MS + 5, Lane.RESUME)
    assert queue.next_due_ms() == NOW_MS + 5
    assert queue.next_due_ms([Lane.WORK]) == NOW_MS + 9


@pytest.mark.needs("inbox")
def test_reclaiming_ends_every_lease_and_leaves_delays_alone(queue: LocalQueue) -> None:
    for number in range(3):
        send(queue, number)
    send(queue, "delayed", NOW_MS + 7)
    held = [must(queue), must(queue)]
    assert queue.reclaim() == 2
    assert not queue.extend(held[0], NOW_MS, LEASE_MS)
    queue.delete(held[1])
    assert drain(queue) == [0, 1, 2]
    assert drain(queue, NOW_MS + 7) == ["delayed"]
    assert queue.reclaim() == 0


@pytest.mark.needs("inbox")
def test_a_delivery_that_is_forgiven_does_not_count_unless_it_was_the_first(queue: LocalQueue) -> None:
    send(queue, 1)
    counts = []
    for _ in range(3):
        delivery = must(queue)
        counts.append(delivery.deliveries)
        queue.forgive(delivery)
        queue.release(delivery, NOW_MS)
    late = must(queue)
    queue.release(late, NOW_MS)
    queue.forgive(late)  # another holder has it by now, or nobody
    assert (counts, late.deliveries, must(queue).deliveries) == ([1, 2, 2], 2, 3)


@pytest.mark.threads
def test_of_64_senders_and_64_receivers_each_message_goes_to_one(queue: LocalQueue) -> None:
    at_once(64, lambda number: send(queue, number))
    found = at_once(64, lambda _: drain(queue))
    assert sorted(number for each in found for number in each) == list(range(64))


@pytest.mark.threads
def test_of_64_threads_that_set_a_timer_exactly_one_does(queue: LocalQueue) -> None:
    at_once(64, lambda number: run(queue.set("t", Lane.WORK, {"m": number}, NOW_MS + HOUR_MS)))
    assert len(drain(queue, NOW_MS + HOUR_MS)) == 1


@pytest.mark.needs("exact")
def test_a_timer_fires_at_its_time_however_far(queue: LocalQueue) -> None:
    year_ms = 365 * 86_400_000
    run(queue.set("t", Lane.RESUME, {"m": "timer"}, NOW_MS + year_ms))
    assert drain(queue, NOW_MS + year_ms - 1) == []
    assert drain(queue, NOW_MS + year_ms) == ["timer"]


@pytest.mark.needs("fires")
def test_a_timer_set_twice_fires_once_with_what_was_set_first(queue: LocalQueue) -> None:
    run(queue.set("t", Lane.RESUME, {"m": "first"}, NOW_MS + HOUR_MS + 5))
    run(queue.set("t", Lane.WORK, {"m": "second"}, NOW_MS + HOUR_MS + 1))
    run(queue.set("u", Lane.WORK, {"m": "other"}, NOW_MS + HOUR_MS + 6))
    assert sorted(drain(queue, NOW_MS + HOUR_MS + 9)) == ["first", "other"]


def test_a_timer_within_the_reach_of_a_queue_fires_too(queue: LocalQueue) -> None:
    run(queue.set("t", Lane.RESUME, {"m": "soon"}, NOW_MS + 5_000))
    assert drain(queue, NOW_MS + 4_999) == []
    assert drain(queue, NOW_MS + 5_000) == ["soon"]


@pytest.mark.needs("exact")
def test_a_timer_set_again_after_it_fired_does_not_fire_again(queue: LocalQueue) -> None:
    run(queue.set("t", Lane.RESUME, {"m": 1}, NOW_MS))
    assert drain(queue) == [1]
    run(queue.set("t", Lane.RESUME, {"m": 1}, NOW_MS))
    assert drain(queue) == []


@pytest.mark.needs("exact")
def test_the_name_of_a_timer_is_forgotten_a_day_after_it_fired(queue: LocalQueue) -> None:
    run(queue.set("t", Lane.RESUME, {"m": 1}, NOW_MS))
    run(queue.set("far", Lane.RESUME, {"m": 2}, NOW_MS + 2 * TIMER_NAME_KEPT_MS))
    assert queue.purge(NOW_MS + TIMER_NAME_KEPT_MS - 1) == 0
    assert queue.purge(NOW_MS + TIMER_NAME_KEPT_MS) == 1
    assert queue.pending() == 2


def test_what_is_not_json_is_refused_when_it_is_sent(queue: LocalQueue) -> None:
    with pytest.raises(InvalidInput):
        run(queue.send(Lane.WORK, {"m": object()}))
    with pytest.raises(InvalidInput):
        run(queue.set("t", Lane.WORK, {"m": object()}, NOW_MS))
    run(queue.set("t", Lane.WORK, {"m": "good"}, NOW_MS))
    assert drain(queue) == ["good"]


@pytest.mark.needs("inbox")
def test_what_is_done_to_a_message_does_not_reach_its_next_delivery(queue: LocalQueue) -> None:
    given = {"m": [1]}
    run(queue.send(Lane.WORK, given))
    given["m"].append(2)
    delivery = must(queue)
    delivery.message["m"].append(3)
    queue.release(delivery, NOW_MS)
    assert drain(queue) == [[1]]


def test_several_messages_are_sent_at_once_and_each_comes(queue: LocalQueue) -> None:
    run(queue.send_all(Lane.WORK, [{"m": number} for number in range(25)]))
    run(queue.send_all(Lane.RESUME, []))
    assert sorted(drain(queue)) == list(range(25))
