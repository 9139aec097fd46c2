"""A dev server that ends says why, so that nobody looks for one that vanished."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.local.signals import end_at_once, on_signals
from tests.local.kit import Dev, until


@pytest.fixture
def hears_all() -> Iterator[None]:
    """Below nohup these tests ignore SIGHUP, and so would the servers that they start."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hears_all")
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_server_says_which_signal_stopped_it(tmp_path: Path, kind: signal.Signals) -> None:
    """The end of a terminal is one of them: it drops no request that is under way, and the next start says nothing."""
    (tmp_path / "workflows").mkdir()
    dev = Dev(tmp_path / "workflows", tmp_path / "data")
    assert dev.end(kind) == 0
    assert f"stopped by {kind.name}" in dev.errors
    after = Dev(tmp_path / "workflows", tmp_path / "data")
    after.end()
    assert "was killed" not in after.errors


def test_a_server_says_that_the_last_one_was_killed(tmp_path: Path) -> None:
    """A killed one cannot: whoever starts the next one learns it."""
    (tmp_path / "workflows").mkdir()
    dev = Dev(tmp_path / "workflows", tmp_path / "data")
    killed = dev.process.pid
    dev.end(signal.SIGKILL)
    after = Dev(tmp_path / "workflows", tmp_path / "data")
    after.end()
    assert f"process {killed}, was killed" in after.errors


def test_a_server_whose_output_nobody_reads_serves_all_the_same(tmp_path: Path) -> None:
    """It ended without a word when `ready` could not be printed."""
    (tmp_path / "workflows").mkdir()
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", "from stepwell.cli.entry import main; main()", "dev", "workflows", "--port", "0"]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=writing, stderr=said)  # noqa: S603 - this Python
    os.close(writing)
    until(lambda: "ready http://127.0.0.1:" in (tmp_path / "said").read_text() or process.poll() is not None, "ready")
    process.terminate()
    assert process.wait(60) == 0
    assert "nobody reads the standard output" in (tmp_path / "said").read_text()


def test_a_server_whose_data_is_removed_ends_and_says_so(tmp_path: Path) -> None:
    """It served on, and acknowledged runs that no disk held."""
    (tmp_path / "workflows").mkdir()
    dev = Dev(tmp_path / "workflows", tmp_path / "data")
    (tmp_path / "data").rename(tmp_path / "moved")
    assert dev.process.wait(120) == 2
    assert "stopped by the removal of its data folder" in dev.errors
    assert "was removed while the server ran, and its runs with it" in dev.errors
    dev.end()


def test_a_hang_up_that_is_ignored_stays_ignored() -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with on_signals(lambda kind: None):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_before_it_serves_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """The exit status is the shell's for that signal."""
    with pytest.raises(SystemExit) as caught, on_signals(end_at_once):
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.code == 128 + signal.SIGTERM
    assert "ended by SIGTERM" in caplog.text
