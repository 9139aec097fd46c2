"""The lease of a message under way: short, extended while the work goes on, never past the invocation's end."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from stepwell.aws.batches import Delivery
from stepwell.aws.calls import Retry
from stepwell.aws.lease import Lease, Leases
from tests.functions.conftest import Deploy
from tests.functions.kit import Invocation

WAITS = "import world\ndef a(): world.at_work()\ndef b(): pass"
FLOW = "workflow: flow\ntimeline: [{name: a, run: python:m.a}, {name: b, run: python:m.b}]"
PATIENCE_SECONDS = 60


class Beats:
    """Time for a lease's thread: `beats` pauses go by at once, the next lasts until the work is done."""

    def __init__(self, beats: int, passes: Callable[[float], None] = lambda seconds: None) -> None:
        self.pauses: list[float] = []
        self.over = threading.Event()  # all beats have been
        self._beats, self._passes, self._done = beats, passes, threading.Event()

    def set(self) -> None:
        self._done.set()

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        if len(self.pauses) == self._beats:
            self.over.set()
            assert self._done.wait(PATIENCE_SECONDS), "the work never ended"
            return True
        self.pauses.append(timeout)
        self._passes(timeout)
        return self._done.is_set()


class Visibility:
    """An SQS client that notes what it is asked, or cannot answer."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[dict[str, Any]] = []
        self._error = error

    def change_message_visibility(self, **request: Any) -> dict[str, Any]:
        self.asked.append(request)
        if self._error is not None:
            raise self._error
        return {}

    def send_message(self, **request: Any) -> dict[str, Any]:
        raise AssertionError(request)

    receive_message = delete_message = send_message_batch = send_message

    @property
    def seconds(self) -> list[int]:
        return [request["VisibilityTimeout"] for request in self.asked]


def delivery(count: int = 1) -> Delivery:
    return Delivery("m-1", "receipt-1", count, "arn", "{}")


def kept(beats: Beats, visibility: Visibility, left_ms: Callable[[], int], count: int = 1) -> None:
    leases = Leases("url", lambda: visibility, Retry(attempts=1), lambda: beats)
    with leases.kept(delivery(count), left_ms):
        assert beats.over.wait(PATIENCE_SECONDS)


def test_work_of_less_than_a_second_asks_nothing_of_sqs() -> None:
    visibility = Visibility()
    beats = Beats(0)
    kept(beats, visibility, lambda: 900_000)
    assert visibility.asked == []


def test_longer_work_is_leased_for_a_minute_every_twenty_seconds() -> None:
    visibility, beats = Visibility(), Beats(4)
    kept(beats, visibility, lambda: 900_000)
    assert beats.pauses == [1, 20, 20, 20]
    assert visibility.seconds == [60] * 4
    assert visibility.asked[0] == {"QueueUrl": "url", "ReceiptHandle": "receipt-1", "VisibilityTimeout": 60}


def test_no_lease_outlasts_its_invocation() -> None:
    left_ms = iter([75_000, 59_999, 39_000, 20_000])
    visibility = Visibility()
    kept(Beats(4), visibility, lambda: next(left_ms))
    assert visibility.seconds == [60, 59, 39, 20]


def test_an_invocation_in_its_last_second_leases_nothing() -> None:
    visibility = Visibility()
    Leases("url", lambda: visibility)._keep(delivery(), lambda: 999, Beats(1), Lease(time.monotonic))
    assert visibility.asked == []


def test_a_message_that_comes_again_is_leased_at_once() -> None:
    visibility, beats = Visibility(), Beats(2)
    kept(beats, visibility, lambda: 900_000, count=2)
    assert beats.pauses == [0, 20]
    assert visibility.seconds == [60, 60]


def test_a_lease_that_cannot_be_extended_is_told_and_the_work_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    visibility, beats = Visibility(ValueError("no network")), Beats(2)
    with caplog.at_level(logging.ERROR):
        kept(beats, visibility, lambda: 900_000)
    assert len(visibility.asked) == 2
    assert [record.getMessage() for record in caplog.records] == [
        "the lease of message m-1 could not be set to 60 s"
    ] * 2


def test_nothing_is_said_of_a_message_once_its_work_is_over() -> None:
    """Not even by a thread that was just about to: Lambda deletes the message, or its delay has been set."""
    visibility, going = Visibility(), threading.Event()
    leases = Leases("url", lambda: visibility, Retry(attempts=1))
    before = set(threading.enumerate())
    with leases.kept(delivery(), lambda: 900_000):
        going.set()
    assert set(threading.enumerate()) == before


def test_a_lease_holds_as_long_as_sqs_was_last_asked_for() -> None:
    """And no longer where SQS did not answer, or where the process was held up between two beats."""
    clock = [0.0]
    leases = Leases("url", lambda: visibility, Retry(attempts=1), lambda: beats, lambda: clock[0])
    visibility, beats = Visibility(), Beats(2)
    with leases.kept(delivery(), lambda: 900_000) as lease:
        assert beats.over.wait(PATIENCE_SECONDS)
        clock[0] = 59.9
        assert lease.holds()
        clock[0] = 60.0
        assert not lease.holds()


@pytest.mark.parametrize(("count", "seconds"), [(1, 1), (2, 2), (3, 8), (4, 32), (5, 60), (50, 60)])
def test_a_message_whose_handler_failed_waits_the_longer_the_more_often_it_did(count: int, seconds: int) -> None:
    visibility = Visibility()
    Leases("url", lambda: visibility).release(delivery(count))
    assert visibility.seconds == [seconds]


def test_a_worker_that_dies_is_replaced_within_a_minute(deployed: Deploy) -> None:
    stack = deployed(FLOW, WAITS)
    run_id = stack.start()
    worker = stack.function("worker")
    beats = Beats(3, stack.pass_time)
    worker.leases._new_stop = lambda: beats

    class Died(BaseException):
        pass

    async def dies(call: Any) -> Any:
        assert beats.over.wait(PATIENCE_SECONDS)
        raise Died

    steps = worker.entry.parts.worker._steps
    steps.run, alive = dies, steps.run
    with pytest.raises(Died):
        worker.handler(stack.messages("default"), Invocation(stack.clock))
    steps.run, worker.leases._new_stop = alive, threading.Event
    stack.world.at_work = lambda: None
    stack.pass_time(59)
    assert stack.deliver("default") == 0
    stack.pass_time(1)
    assert stack.deliver("default") == 1
    assert stack.run(run_id)["status"] == "completed"
