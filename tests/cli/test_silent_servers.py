"""A command whose server takes the call and does not answer: it says so, and ends."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from stepwell.cli import exits, finding
from stepwell.client import run_calls

from .conftest import RUN, Cli, FakeApi


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The port of a server that is stopped: it has connections, and answers none of them."""
    monkeypatch.setattr(finding, "READ_SECONDS", 0.5)
    monkeypatch.setattr(finding, "SILENT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


def connections(listening: socket.socket) -> int:
    count = 0
    with suppress(BlockingIOError):
        while True:
            listening.accept()[0].close()
            count += 1
    return count


@pytest.mark.parametrize("command", [("runs",), ("show", "r1"), ("stats", "--json")])
def test_a_read_says_that_it_waits_and_fails_after_its_time(
    cli: Cli, silent: socket.socket, command: tuple[str, ...]
) -> None:
    url = f"http://127.0.0.1:{silent.getsockname()[1]}"
    result = cli(*command, "--url", url)
    assert result.exit_code == exits.NOT_REACHED
    assert result.stderr.count(f"waiting for the server at {url}, which has not answered yet") == 1
    assert "did not answer in time" in result.output
    assert connections(silent) == 1  # its time was over, so that it was not read again


def test_a_wait_for_the_end_of_a_run_is_no_silence() -> None:
    """The server holds back the answer because it was asked to."""
    with finding.FindingClient("http://127.0.0.1:9") as client:
        waited = client._api.arguments(run_calls.result_answer("r1", 25))
        read = client._api.arguments(run_calls.view("r1"))
    assert "timeout" not in waited
    assert read["timeout"].read == finding.READ_SECONDS


def test_a_server_that_answers_is_not_waited_for_aloud(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/runs", (200, {"items": [RUN], "next_cursor": None}))
    result = cli("runs")
    assert (result.exit_code, result.stderr) == (0, "")
