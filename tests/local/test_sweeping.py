"""The local sweeper: it wakes what nothing else will, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.local.dev import _sweep
from stepwell.local.pump import Pump
from stepwell.local.wiring import Local, open_local
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.starts.starting import Start
from tests.local.kit import until

FLAKY = """
workflow: flaky
nodes:
  work: {run: python:steps.work, timeout: 1m, retry: {max_retries: 1, backoff: constant, initial_delay: 10m}}
"""


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    folder = tmp_path / "workflows"
    folder.mkdir()
    (folder / "flaky.yaml").write_text(FLAKY)
    (folder / "steps.py").write_text("def work():\n    raise ConnectionError('away')\n")
    made = open_local(tmp_path / "data", folder, load_folder(folder).graphs)
    yield made
    made.stopping.set()
    made.bell.ring_all()
    made.close()


def let_them_be_past(local: Local) -> None:
    """Waits for the next millisecond: a sweep looks at no run that was made in its own."""
    made_ms = local.parts.ports.clock.now_ms()
    until(lambda: local.parts.ports.clock.now_ms() > made_ms, "the next millisecond")


def test_a_run_whose_wake_was_lost_is_woken_once(local: Local) -> None:
    run_id = run_now(local.parts.service.start(Start("flaky"))).header.run_id
    lost = local.inbox.receive(ALL_LANES, local.parts.ports.clock.now_ms(), 1_000)
    assert lost is not None
    local.inbox.delete(lost)
    until(lambda: [found.run_id for found in run_now(local.sweeper.sweep(0))] == [run_id], "a later millisecond")
    assert run_now(local.sweeper.sweep(0)) == ()
    assert local.inbox.pending() == 1


def test_a_run_that_cannot_be_read_is_named_and_the_others_are_woken(
    local: Local, caplog: pytest.LogCaptureFixture
) -> None:
    runs = [run_now(local.parts.service.start(Start("flaky"))).header.run_id for _ in range(2)]
    let_them_be_past(local)
    while lost := local.inbox.receive(ALL_LANES, local.parts.ports.clock.now_ms(), 1_000):
        local.inbox.delete(lost)
    assert run_now(local.parts.ports.log.append(runs[0], "0", 0, '{"slot":0,"kind":"unheard_of"}')) is None
    found = {(one.run_id, one.why) for one in run_now(local.sweeper.sweep(-1_000))}
    assert found == {(runs[0], "unreadable"), (runs[1], "no_progress")}
    caplog.clear()  # what starts say is told where another test has turned it on
    with caplog.at_level("INFO", "stepwell.dev"):
        _sweep(local, -1_000)
    assert [(one.levelname, runs[0] in one.message) for one in caplog.records] == [("WARNING", True)]


def test_a_run_that_is_queued_or_will_be_tried_again_is_left_alone(local: Local) -> None:
    run_id = run_now(local.parts.service.start(Start("flaky"))).header.run_id
    let_them_be_past(local)
    assert run_now(local.sweeper.sweep(-1_000)) == ()
    pump = Pump(local, workers=2)
    pump.start()
    until(lambda: run_now(local.parts.service.records(run_id)), "the first attempt")
    until(lambda: run_now(local.sweeper.sweep(-1_000)) == () and local.inbox.pending() == 1, "the wake of the second")
    pump.stop(2.0)
