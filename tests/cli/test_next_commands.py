"""The commands that are printed to be typed next: they reach the same API, and are not refused."""

from __future__ import annotations

import pytest

from .conftest import COMPLETED, RUN, Cli, FakeApi

NAMED = {**RUN, "waiting_data": {"approvers": ["eva"], "votes": []}}
STARTED = {"run_id": RUN["run_id"], "status": "pending"}


@pytest.fixture
def elsewhere(api: FakeApi, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> str:
    """The API's URL, which is not that of the settings."""
    monkeypatch.setenv("STEPWELL_URL", "http://127.0.0.1:9")
    api.has_run(NAMED, COMPLETED)
    api.on("POST", "/workflows/order-review/runs", (201, STARTED))
    return api.url


@pytest.mark.parametrize(
    ("command", "next_one"),
    [
        (["run", "order-review"], "follow it: stepwell watch run_01JABC --url URL"),
        (["show", "run_01JABC"], "stepwell approve run_01JABC --by eva --url URL"),
        (["watch", "run_01JABC"], "stepwell approve run_01JABC --by eva --url URL"),
        (["run", "order-review", "--watch"], "stepwell approve run_01JABC --by eva --url URL"),
        (["run", "order-review", "--wait"], "stepwell approve run_01JABC --by eva --url URL"),
    ],
)
def test_a_next_command_keeps_the_url(cli: Cli, elsewhere: str, command: list[str], next_one: str) -> None:
    result = cli(*command, "--url", elsewhere)
    assert result.exit_code == 0, result.output
    assert next_one.replace("URL", elsewhere) in result.output


def test_without_the_option_a_next_command_has_none(api: FakeApi, cli: Cli) -> None:
    api.has_run(RUN, COMPLETED)
    assert "--url" not in cli("show", "run_01JABC").stdout
    assert "--url" not in cli("watch", "run_01JABC", "--url", api.url).stdout


def test_a_watch_says_what_to_do_at_each_wait_once(api: FakeApi, cli: Cli) -> None:
    event = {**RUN, "waiting_for": "event", "current_steps": ["paid"]}
    api.has_run(RUN, RUN, event, event, COMPLETED)
    told = cli("watch", "run_01JABC").stdout
    assert told.count("stepwell approve run_01JABC") == 1
    assert told.count("run_01JABC waits at paid for event") == 1
    assert told.count(": stepwell explain run_01JABC") == 1
