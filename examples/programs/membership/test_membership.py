"""The program `membership`: five years of it in virtual time, and deaths at each write."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.testing.kit import Run, Stepwell
from tests.durable.dying import deaths_of


@pytest.fixture(autouse=True)
def till(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILL_DATA", str(tmp_path))


def test_in_five_years_it_charges_sixty_times_and_replays_one_month(stepwell: Stepwell) -> None:
    charge = stepwell.mock("charge")
    run = stepwell.start("membership", {"member": "kim"})
    stepwell.advance("1799d")
    assert (len(charge.calls), run.state) == (60, {"plan": "basic", "month": 60})
    run.event("cancel")
    assert run.result == "cancelled in month 60"
    lives = [at for at, entry in enumerate(run.history) if entry["type"] == "function.continued"]
    assert (len(lives), len(run.history) - lives[-1] < 10) == (59, True)


def test_another_plan_counts_from_the_next_month_on(stepwell: Stepwell) -> None:
    charge = stepwell.mock("charge")
    run = stepwell.start("membership", {"member": "kim"})
    stepwell.advance("10d")
    run.event("plan", "pro")
    stepwell.advance("19d")
    assert [call["plan"] for call in charge.calls] == ["basic"]
    stepwell.advance("1d")
    assert [call["plan"] for call in charge.calls] == ["basic", "pro"]


def test_a_declined_card_is_tried_again_and_a_new_card_at_once(stepwell: Stepwell) -> None:
    charge = stepwell.mock("charge", raises=ValueError("declined"), times=2)
    run = stepwell.start("membership", {"member": "kim"})
    stepwell.advance("3d")
    assert (run.status, len(charge.calls)) == ("waiting", 2)
    run.event("card")
    assert run.view["current_steps"] == ["month"]


def test_after_four_declines_it_ends(stepwell: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILL_NO_MONEY", "kim")
    run = stepwell.start("membership", {"member": "kim"})
    stepwell.advance("14d")
    assert run.status == "waiting"
    stepwell.advance("1d")
    assert run.result == "not paid for month 1"


def test_whoever_dies_each_month_is_paid_once(tmp_path: Path) -> None:
    def play(kit: Stepwell) -> None:
        run = kit.start("membership", {"member": "kim"}, run_id="one")
        kit.advance("31d")
        run.event("cancel", event_id="cancel")
        kit.settle()

    for kit, paid in deaths_of(Path(__file__).parent, tmp_path, "TILL_DATA", play):
        result = Run(kit, "one").result
        assert result in {"cancelled in month 2", "cancelled in month 3"}
        assert len(list(paid.iterdir())) == int(str(result)[-1])
