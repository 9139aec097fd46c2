"""The pump and the bell: what becomes of messages whose handler raises, dies, or takes long."""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stepwell.engine.records import ROOT
from stepwell.engine.stored.formats import FORMAT
from stepwell.errors import PortError
from stepwell.limits import DELIVERIES, HOUR_MS, MINUTE_MS
from stepwell.local import bell as belling
from stepwell.local import pump as pumping
from stepwell.local.bell import WATCH_MS, Bell
from stepwell.local.pump import Pump
from stepwell.local.wiring import Local, open_local
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.log.messages import Wake, to_json
from stepwell.runtime.log.retries import AGAIN
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Lane
from stepwell.runtime.starts.ids import new_id
from stepwell.runtime.starts.starting import Start
from stepwell.runtime.steps import batons
from stepwell.runtime.steps.batons import away
from tests.local.kit import until

WAIT_MS = MINUTE_MS  # for what comes at once on a machine that is not busy
QUICK = "workflow: quick\nnodes:\n  ship: {run: python:steps.ship, timeout: 1m}\n"


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    folder = tmp_path / "workflows"
    folder.mkdir()
    (folder / "quick.yaml").write_text(QUICK)
    (folder / "steps.py").write_text("def ship():\n    return 1\n")
    made = open_local(tmp_path / "data", folder, load_folder(folder).graphs)
    yield made
    made.stopping.set()
    made.bell.ring_all()
    made.close()


@pytest.fixture
def pump(local: Local) -> Iterator[Pump]:
    made = Pump(local, workers=4)
    yield made
    made.stop(2.0)


def start(local: Local) -> str:
    return run_now(local.parts.service.start(Start("quick"))).header.run_id


def test_many_runs_are_worked_off_and_their_messages_deleted(local: Local, pump: Pump) -> None:
    pump.start()
    runs = [start(local) for _ in range(50)]
    for run_id in runs:
        assert run_now(local.parts.service.wait_for_end(run_id, WAIT_MS)).status == "completed"
    until(lambda: local.inbox.pending() == 0, "an empty queue")


def test_a_message_whose_handler_raises_is_logged_and_comes_again(
    local: Local, pump: Pump, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    handle = local.parts.worker.handle
    failures = iter([KeyError("broken"), OSError("again")])

    async def fails_twice(*given: Any) -> None:
        for error in failures:
            raise error
        await handle(*given)

    monkeypatch.setattr(local.parts.worker, "handle", fails_twice)
    monkeypatch.setattr(pumping, "FIRST_DELAY_MS", 1)
    pump.start()
    assert run_now(local.parts.service.wait_for_end(start(local), WAIT_MS)).status == "completed"
    assert "KeyError: 'broken'" in caplog.text
    assert "OSError: again" in caplog.text


def test_a_failing_disk_is_logged_in_a_line_without_a_traceback(
    local: Local, pump: Pump, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    handle = local.parts.worker.handle
    failures = iter([PortError("the database is full (free some space)")])

    async def fails_once(*given: Any) -> None:
        for error in failures:
            raise error
        await handle(*given)

    monkeypatch.setattr(local.parts.worker, "handle", fails_once)
    monkeypatch.setattr(pumping, "FIRST_DELAY_MS", 1)
    pump.start()
    assert run_now(local.parts.service.wait_for_end(start(local), WAIT_MS)).status == "completed"
    (told,) = [one for one in caplog.records if one.levelname == "ERROR"]
    assert told.getMessage().endswith("it comes again in 0.0 s: the database is full (free some space)")
    assert told.exc_info is None


def test_a_message_that_killed_its_worker_too_often_becomes_a_failure_of_the_run(local: Local, pump: Pump) -> None:
    run_id = start(local)
    for _ in range(DELIVERIES):  # each delivery's worker dies: the lease is all that is left of it
        assert local.inbox.receive([Lane.WORK], local.parts.ports.clock.now_ms(), 0) is not None
    pump.start()
    run_now(local.parts.service.wait_for_end(run_id, WAIT_MS))
    end = run_now(local.parts.service.standing(run_id)).token.end
    assert end is not None
    assert end.error is not None
    assert (end.status, end.error.category) == ("failed", "worker_lost")


def test_a_step_goes_through_any_number_of_stops(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, is_over = threading.Semaphore(0), threading.Event()

    async def takes_long(*_: object) -> None:
        begun.release()
        with away():
            is_over.wait()

    run_id = start(local)
    with monkeypatch.context() as patched:
        patched.setattr(local.parts.worker, "handle", takes_long)
        for _ in range(DELIVERIES + 1):
            pump = Pump(local, workers=1)
            pump.start()
            assert begun.acquire(timeout=60)
            assert pump.stop(0.0) == 1
            local.inbox.reclaim()
            local.stopping.clear()
    last = Pump(local, workers=1)
    last.start()
    assert run_now(local.parts.service.wait_for_end(run_id, WAIT_MS)).status == "completed"
    last.stop(2.0)
    is_over.set()


def test_a_message_that_met_a_disk_that_did_not_answer_is_put_off_and_not_given_up(
    local: Local, pump: Pump, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = start(local)

    async def unanswered(*_: object) -> None:
        raise PortError("the disk does not answer")

    monkeypatch.setattr(pumping, "dispatch", unanswered)
    now_ms = local.parts.ports.clock.now_ms()
    for _ in range(DELIVERIES):
        delivery = local.inbox.receive((Lane.WORK,), now_ms, 0)
        assert delivery is not None
        run_now(pump._handle(delivery, pumping.Held(delivery, local.parts.ports.clock)))
        now_ms += MINUTE_MS + 1
    assert local.inbox.pending() == 1
    again = local.inbox.receive((Lane.WORK,), now_ms, 0)
    assert again is not None
    assert (again.deliveries, again.message["put_off"]) == (1, 1)
    assert run_now(local.parts.service.header(run_id)).status == "pending"


def test_a_message_of_no_known_type_does_not_stop_the_others(local: Local, pump: Pump) -> None:
    run_now(local.parts.ports.queue.send(Lane.WORK, {"type": "nonsense"}))
    pump.start()
    assert run_now(local.parts.service.wait_for_end(start(local), WAIT_MS)).status == "completed"


def test_a_lease_is_extended_while_its_step_runs(local: Local, pump: Pump, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pumping, "EXTEND_EVERY_SECONDS", 0.02)
    begun, go = threading.Event(), threading.Event()

    async def slow(*_: object) -> None:
        begun.set()
        go.wait(WAIT_MS / 1_000)

    monkeypatch.setattr(local.parts.worker, "handle", slow)
    pump.start()
    start(local)
    until(begun.is_set, "the step")
    for _ in range(2):
        ends_ms = local.inbox.next_due_ms()
        until(lambda: local.inbox.next_due_ms() > ends_ms, "a longer lease")  # type: ignore[operator]  # noqa: B023 - asked at once
    go.set()


def test_copies_of_one_wake_are_handled_one_after_the_other_and_none_is_lost(
    local: Local, pump: Pump, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash a branch may have two messages; at once, they would run each of its steps twice."""
    handled: queue.Queue[str] = queue.Queue()
    is_done = threading.Event()

    async def waits(wake: Wake, *_: Any) -> None:
        handled.put(wake.token)
        if wake.token == ROOT:
            with away():
                is_done.wait(WAIT_MS / 1_000)

    monkeypatch.setattr(local.parts.worker, "handle", waits)
    for token in (ROOT, ROOT, "f.1"):
        run_now(local.parts.ports.queue.send(Lane.WORK, to_json(Wake("run_1", 0, token))))
    pump.start()
    assert {handled.get(timeout=60), handled.get(timeout=60)} == {ROOT, "f.1"}
    is_done.set()
    assert handled.get(timeout=60) == ROOT
    until(lambda: local.inbox.pending() == 0, "an empty queue")


def test_messages_that_wait_together_are_handled_by_one_thread(
    local: Local, pump: Pump, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one would have to be woken, and has another connection to the file, whose pages it reads anew."""
    monkeypatch.setattr(batons, "QUICK_SECONDS", math.inf)  # whatever the disk and the processor take
    monkeypatch.setattr(batons, "TURN_SECONDS", math.inf)
    threads: list[int] = []

    async def notes(*_: object) -> None:
        threads.append(threading.get_ident())

    monkeypatch.setattr(local.parts.worker, "handle", notes)
    for number in range(20):
        run_now(local.parts.ports.queue.send(Lane.WORK, to_json(Wake("run_1", 0, f"f.{number}"))))
    pump.start()
    until(lambda: local.inbox.pending() == 0, "an empty queue")
    assert len(threads) == 20
    assert len(set(threads)) == 1


def test_a_message_that_is_due_later_is_handled_then_by_an_idle_worker(
    local: Local, pump: Pump, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(belling, "WATCH_MS", HOUR_MS)  # no look in between
    run_id = run_now(local.parts.service.start(Start("quick", create_only=True))).header.run_id
    pump.start()
    due_ms = local.parts.ports.clock.now_ms() + 300
    handled: list[int] = []
    handle = local.parts.worker.handle

    async def seen(*given: Any) -> None:
        handled.append(local.parts.ports.clock.now_ms())
        await handle(*given)

    monkeypatch.setattr(local.parts.worker, "handle", seen)
    run_now(local.parts.ports.queue.send(Lane.WORK, to_json(Wake(run_id, -1)), due_ms))
    until(lambda: handled, "the message")
    assert handled[0] >= due_ms


def test_a_bell_that_rang_since_one_looked_lets_nobody_sleep() -> None:
    bell = Bell()
    seen = bell.count
    bell.ring()
    bell.wait(seen, None, 0)  # returns at once, or this test hangs


def test_who_fell_asleep_last_is_rung_first_and_the_watcher_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(belling, "WATCH_MS", HOUR_MS)
    bell, woken = Bell(), queue.SimpleQueue[str]()

    def sleeper(name: str) -> None:
        bell.wait(0, None, 0)
        woken.put(name)

    names = ["watcher", "second", "third"]
    for count, name in enumerate(names, 1):
        threading.Thread(target=sleeper, args=(name,), daemon=True).start()
        until(partial(bell.sleeps, count), "it to sleep")
    order = []
    for _ in names:
        bell.ring()
        order.append(woken.get(timeout=WAIT_MS / 1_000))
    assert order == ["third", "second", "watcher"]


def test_a_worker_that_sees_an_earlier_message_watches_for_it_itself() -> None:
    bell = Bell()
    first = threading.Thread(target=bell.wait, args=(0, WATCH_MS, 0), daemon=True)
    first.start()
    bell.wait(0, 20, 0)  # due in 20 ms: earlier than what the first one watches for
    bell.ring_all()
    first.join(WAIT_MS / 1_000)
    assert not first.is_alive()


def test_ids_are_unique_and_sort_by_their_time() -> None:
    made = [new_id() for _ in range(1_000)]
    assert len(set(made)) == len(made)
    assert {len(one) for one in made} == {26}
    assert [one[:9] for one in made] == sorted(one[:9] for one in made)


def test_a_message_of_newer_code_is_kept_as_it_is_and_never_given_up(local: Local, pump: Pump) -> None:
    """Not even one whose deliveries are used up: whoever took it before may have been a newer process."""
    body = {**to_json(Wake(start(local), -1)), "v": FORMAT + 1, "urgent": [1]}
    taken = local.inbox.receive((Lane.WORK,), local.parts.ports.clock.now_ms(), 0)
    assert taken is not None
    local.inbox.delete(taken)
    run_now(local.parts.ports.queue.send(Lane.WORK, body))
    now_ms = local.parts.ports.clock.now_ms()
    for _ in range(DELIVERIES + 1):
        delivery = local.inbox.receive((Lane.WORK,), now_ms + 1, 0)
    assert delivery is not None
    run_now(pump._handle(delivery, pumping.Held(delivery, local.parts.ports.clock)))
    assert local.inbox.pending() == 1
    again = local.inbox.receive((Lane.WORK,), now_ms + 2 * MINUTE_MS, 0)
    assert again is not None
    assert (again.deliveries, again.message) == (1, {**body, AGAIN: True})
