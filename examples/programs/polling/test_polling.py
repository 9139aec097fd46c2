"""The program `render`: a day of it in virtual time, and a server that is killed while it waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.testing.kit import Run, Stepwell
from tests.local.killing import survive


@pytest.fixture(autouse=True)
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FARM_DATA", str(tmp_path))
    return tmp_path


def looks(run: Run) -> list[str]:
    """When the farm was asked, as hours, minutes and seconds."""
    return [one["at"][11:19] for one in run.history if (one["type"], one["step"]) == ("step.completed", "look")]


def test_it_asks_ever_more_rarely_until_the_video_is_there(stepwell: Stepwell) -> None:
    run = stepwell.start("render", {"video": "cat"})
    stepwell.advance("1m")
    assert looks(run) == ["09:00:00", "09:00:05", "09:00:15", "09:00:35"]
    assert run.result == "https://farm.example/job-cat.mp4"


def test_it_asks_every_quarter_of_an_hour_at_most_and_gives_up_after_a_day(
    stepwell: Stepwell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARM_LOOKS", "1000")
    run = stepwell.start("render", {"video": "cat"})
    stepwell.advance("23h")
    assert [later[:5] for later in looks(run)[-2:]] == ["07:36", "07:51"]
    stepwell.advance("1h")
    assert (run.status, run.error and run.error["type"]) == ("failed", "TimeoutError")


def test_a_farm_that_is_away_is_asked_again(stepwell: Stepwell) -> None:
    away = stepwell.mock("look", raises=ConnectionError("away"), times=2)
    run = stepwell.start("render", {"video": "cat"})
    stepwell.advance("1m")
    assert (run.status, len(away.calls)) == ("completed", 2)


def test_after_a_kill_it_goes_on_where_it_was(tmp_path: Path, farm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is killed once the farm was asked. What was recorded before is not done again."""
    monkeypatch.setenv("FARM_LOOKS", "1")
    run = survive(Path(__file__).parent, tmp_path / "data", "render", {"video": "cat"}, (farm / "job-cat").exists)
    assert (run["status"], run["result"]) == ("completed", "https://farm.example/job-cat.mp4")
    assert (farm / "submitted").read_text() == "cat\n"
