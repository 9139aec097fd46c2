"""`stepwell logs --follow` across an API that does not answer for a while."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest

from stepwell.cli.runs import logs
from stepwell.client import Client
from stepwell.client.errors import Unreachable

from .conftest import COMPLETED, RUN

LINES = [
    {"id": str(second), "at": f"2026-03-01T13:00:0{second}.000Z", "message": f"line {second}"} for second in range(3)
]


class Restarting:
    """The handle of a run, and its client. Of its calls, some meet a server that is down."""

    def __init__(self, *down: int) -> None:
        self._down, self._calls = down, 0

    def handle(self, run_id: str) -> Restarting:
        return self

    def view(self) -> dict[str, Any]:
        self._call()
        return RUN if self._calls < 7 else COMPLETED

    def logs(self, since: str) -> Iterator[dict[str, Any]]:
        self._call()
        yield from LINES[: self._calls]

    def _call(self) -> None:
        self._calls += 1
        if self._calls in self._down:
            raise Unreachable("it is down")


def told(client: Restarting, *, follow: bool = True) -> list[str]:
    return [str(line["message"]) for line in logs._lines(cast(Client, client), RUN, follow=follow)]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "POLL_SECONDS", 0.0)


@pytest.mark.parametrize("down", [(), (1,), (2,), (3, 4, 5)])
def test_following_goes_on_when_the_server_is_back_with_each_line_once(down: tuple[int, ...]) -> None:
    assert told(Restarting(*down)) == ["line 0", "line 1", "line 2"]


def test_following_ends_when_the_server_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LOST_SECONDS", 0.0)
    with pytest.raises(Unreachable):
        told(Restarting(*range(3, 1_000)))


def test_lines_are_json_that_every_terminal_can_print(capsys: pytest.CaptureFixture[str]) -> None:
    """One that cannot print ä got a question mark in its place."""
    line = {"at": "2026-03-01T13:00:00.000Z", "level": "info", "step": "a", "branch": "0/3.1", "attempt": 1,
            "message": "ä"}  # fmt: skip
    logs._print(line, True)
    told = capsys.readouterr().out
    assert (told.isascii(), json.loads(told)) == (True, line)


def test_a_look_at_the_lines_does_not_wait_for_the_server() -> None:
    with pytest.raises(Unreachable):
        told(Restarting(1), follow=False)
