"""The program `translation`: when calls are tried again, in virtual time, and deaths at each write."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from stepwell import Transient
from stepwell.testing.kit import Run, Stepwell
from tests.durable.dying import deaths_of


@pytest.fixture(autouse=True)
def translator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRANSLATOR_DATA", str(tmp_path))
    return tmp_path


def seconds_of(run: Run) -> float:
    began, ended = (datetime.fromisoformat(run.view[name]) for name in ("started_at", "ended_at"))
    return (ended - began).total_seconds()


def test_a_call_that_is_too_many_is_made_when_the_service_says(stepwell: Stepwell, translator: Path) -> None:
    run = stepwell.start("translation", {"texts": ["abc", "much", "xyz"]})
    stepwell.advance("89s")
    assert (run.result, (translator / "much").read_text()) == (None, "x")
    stepwell.advance("1s")
    assert (run.result, (translator / "much").read_text()) == (["cba", "hcum", "zyx"], "xx")


def test_a_service_that_stays_busy_is_called_ten_times_again(stepwell: Stepwell) -> None:
    busy = stepwell.mock("translate", raises=Transient("too many requests", retry_after="120"))
    run = stepwell.start("translation", {"texts": ["abc"]})
    stepwell.advance("20m")
    assert (run.status, len(busy.calls), seconds_of(run)) == ("failed", 11, 1200)


def test_four_calls_are_made_at_a_time(stepwell: Stepwell) -> None:
    stepwell.mock("translate", returns="x", takes="1s")
    run = stepwell.start("translation", {"texts": [str(at) for at in range(40)]})
    assert (run.status, seconds_of(run)) == ("completed", 10)


def test_a_text_that_the_service_refuses_is_not_sent_again(stepwell: Stepwell, translator: Path) -> None:
    run = stepwell.start("translation", {"texts": ["rude"]})
    assert (run.status, run.error and run.error["message"]) == ("failed", "the service answered 400")
    assert (translator / "rude").read_text() == "x"


def test_whoever_dies_each_text_is_translated(tmp_path: Path) -> None:
    def play(kit: Stepwell) -> None:
        kit.start("translation", {"texts": ["abc", "much", "xyz"]}, run_id="one")
        kit.advance("2m")

    for kit, calls in deaths_of(Path(__file__).parent, tmp_path, "TRANSLATOR_DATA", play):
        assert Run(kit, "one").result == ["cba", "hcum", "zyx"]
        assert sum(len(one.read_text()) for one in calls.iterdir()) <= 4 + 3
