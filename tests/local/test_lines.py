"""The dev server's lines: of the changes of runs that a developer waits for, each once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from stepwell.engine.records import Status
from stepwell.local.lines import RunLines
from stepwell.runtime.calls.service import Service
from stepwell.runtime.ports.headers import Header

RUNNING = Header("run_1", "order", "v1", None, 1_000, Status.RUNNING)


def waiting(what: str, since_ms: int) -> Header:
    return replace(
        RUNNING, status=Status.WAITING, waiting_for=what, waiting_node="pay", waiting_since_ms=since_ms,
        waiting_until_ms=None,
    )  # fmt: skip


def lines(caplog: pytest.LogCaptureFixture, *headers: Header) -> list[str]:
    """The lines of these states of a run, which runs between them."""
    caplog.set_level("INFO", "stepwell.runs")
    told = RunLines(cast("Service", cast("Any", None)))
    for header in headers:
        told(RUNNING, header)
    return caplog.messages


def test_a_wait_for_code_is_told_once_where_the_last_deploy_ends_it_at_once(caplog: pytest.LogCaptureFixture) -> None:
    again = lines(caplog, waiting("code", 5_000), waiting("code", 5_020), waiting("code", 65_000))
    assert again == ["run_1 order: waits at pay for code"] * 2


def test_each_other_wait_is_told(caplog: pytest.LogCaptureFixture) -> None:
    assert len(lines(caplog, waiting("event", 5_000), waiting("event", 5_020))) == 2
