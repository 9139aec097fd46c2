"""A call that waits for a run goes on as soon as it has ended, and does not look at it again and again."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

from stepwell.limits import HOUR_MS
from stepwell.local import wiring
from stepwell.local.ends import Ends
from stepwell.local.gateway import Gateway
from stepwell.local.pump import Pump
from stepwell.local.wiring import KEPT_MS, StoppableClock, open_local
from stepwell.runtime.calls import polling
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.loop.driving import Pause, run_now, run_to_pause
from stepwell.runtime.starts.starting import Start
from tests.local.kit import DEADLINE_SECONDS
from tests.local.test_gateway import call, scope

WORKFLOW = "workflow: waits\nnodes: {a: {wait: {for: event, name: go}}}"


@pytest.fixture
def ends() -> Ends:
    return Ends(StoppableClock(threading.Event()))


def test_a_pause_is_over_when_the_run_has_ended(ends: Ends) -> None:
    pause = ends.pause_until("r1")
    threading.Timer(0.01, ends.ended, ["r1"]).start()
    run_now(pause(HOUR_MS))


def test_a_pause_is_over_at_once_when_the_run_has_ended_since_the_look_before_it(ends: Ends) -> None:
    pause = ends.pause_until("r1")
    ends.ended("r1")
    run_now(pause(HOUR_MS))


def test_after_the_end_a_pause_takes_its_time(ends: Ends) -> None:
    """Else a call that waits for something more would look without rest."""
    pause = ends.pause_until("r1")
    ends.ended("r1")
    run_now(pause(HOUR_MS))
    found = pause(HOUR_MS).__await__().send(None)
    assert found == Pause(HOUR_MS)


def test_a_short_pause_keeps_its_thread_and_a_longer_one_gives_it_back(ends: Ends) -> None:
    """The run may end at any moment: a hand-over would take longer."""
    pause = ends.pause_until("r1")
    threading.Timer(0.01, ends.ended, ["r1"]).start()
    assert run_to_pause(pause(KEPT_MS)) is None
    pause = ends.pause_until("r2")
    assert run_to_pause(pause(KEPT_MS + 1)) is not None


def test_a_short_pause_gives_its_thread_back_when_as_many_are_kept_as_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are left for other calls."""
    monkeypatch.setattr(wiring, "KEPT_THREADS", 0)
    pause = Ends(StoppableClock(threading.Event())).pause_until("r1")
    assert run_to_pause(pause(KEPT_MS)) is not None


def test_a_run_that_nobody_waits_for_is_forgotten(ends: Ends) -> None:
    pause = ends.pause_until("r1")
    assert len(ends._awaited) == 1
    del pause
    gc.collect()
    assert len(ends._awaited) == 0


def test_who_waits_for_a_run_looks_when_it_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next look of its own would come in an hour."""
    monkeypatch.setattr(polling, "FIRST_PAUSES_MS", (HOUR_MS,))
    folder = tmp_path / "workflows"
    folder.mkdir()
    (folder / "waits.yaml").write_text(WORKFLOW)
    local = open_local(tmp_path / "data", folder, load_folder(folder).graphs)
    pump = Pump(local)
    pump.start()
    calls, found = local.parts.service, []
    run_id = run_now(calls.start(Start("waits", {}))).header.run_id
    waiting = threading.Thread(target=lambda: found.append(run_now(calls.wait_for_end(run_id, HOUR_MS))), daemon=True)
    waiting.start()
    run_now(calls.send_event("go", {}, run_id=run_id))
    waiting.join(DEADLINE_SECONDS)
    pump.stop(2.0)
    local.bell.ring_all()
    local.close()
    assert [header.status for header in found] == ["completed"]


def test_a_call_of_the_gateway_goes_on_when_its_pause_is_cut_short() -> None:
    ended: Future[None] = Future()

    class Resolver:
        async def resolve_async(self, event: object) -> dict[str, int]:
            threading.Timer(0.01, ended.set_result, [None]).start()
            await Pause(HOUR_MS, ended)
            return {"statusCode": 204}

    async def answered() -> int:
        return (await asyncio.wait_for(call(Gateway(Resolver()), scope("/wait")), DEADLINE_SECONDS))[0]

    assert asyncio.run(answered()) == 204
