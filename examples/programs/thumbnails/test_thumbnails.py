"""The program `thumbnails`: 1,000 pictures in virtual time, and deaths at each write of a small one."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from stepwell.testing.kit import Run, Stepwell
from tests.durable.dying import deaths_of


@pytest.fixture(autouse=True)
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMAGES_DATA", str(tmp_path))


def pictures(count: int, bad_each: int) -> dict[str, list[str]]:
    return {"pictures": [f"{at}.{'bad' if at % bad_each == 0 else 'png'}" for at in range(1, count + 1)]}


def test_of_a_thousand_each_is_made_but_for_those_that_cannot_be_read(stepwell: Stepwell) -> None:
    run = stepwell.start("thumbnails", pictures(1_000, bad_each=20))
    result: Any = run.result
    assert [len(result[name]) for name in ("made", "failed")] == [950, 50]
    assert (result["made"]["1.png"], result["failed"]["20.bad"]) == ("small-1.png", "20.bad is no picture")


def test_five_are_made_at_a_time(stepwell: Stepwell) -> None:
    stepwell.mock("shrink", returns="small", takes="1s")
    run = stepwell.start("thumbnails", pictures(50, bad_each=100))
    began, ended = (datetime.fromisoformat(run.view[name]) for name in ("started_at", "ended_at"))
    assert (ended - began).total_seconds() == 10


def test_with_too_many_that_cannot_be_read_the_run_fails_early(stepwell: Stepwell) -> None:
    shrink = stepwell.mock("shrink", raises=ValueError("no picture"))
    run = stepwell.start("thumbnails", pictures(100, bad_each=200))
    assert run.status == "failed"
    assert len(shrink.calls) < 20


def test_whoever_dies_the_result_is_the_same(tmp_path: Path) -> None:
    """A process dies before or after each write: at most the pictures whose record was lost are made again."""

    def play(kit: Stepwell) -> None:
        kit.start("thumbnails", pictures(10, bad_each=10), run_id="one")
        kit.settle()

    for kit, made in deaths_of(Path(__file__).parent, tmp_path, "IMAGES_DATA", play, each=4):
        result: Any = Run(kit, "one").result
        assert [len(result[name]) for name in ("made", "failed")] == [9, 1]
        assert sum(len(one.read_text()) for one in made.iterdir()) <= 9 + 5
