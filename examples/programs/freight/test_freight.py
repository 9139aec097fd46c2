"""The program `freight`: who wins, who is told to withdraw, and deaths at each write."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.testing.kit import Run, Stepwell
from tests.durable.dying import deaths_of

LOAD = {"load": "timber", "asked": ["hare", "ox", "snail"], "most": 500}


@pytest.fixture(autouse=True)
def carriers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CARRIERS_DATA", str(tmp_path))
    return tmp_path


def told(folder: Path) -> list[str]:
    return sorted(f"{file.parent.name}: {file.read_text()}" for file in folder.glob("*/*"))


def offers(stepwell: Stepwell, carrier: str, price: float) -> None:
    stepwell.settle()
    stepwell.event("offer", {"carrier": carrier, "price": price}, key=f"timber {carrier}", event_id=carrier)


def test_the_first_fair_offer_wins_and_the_others_are_withdrawn(stepwell: Stepwell, carriers: Path) -> None:
    run = stepwell.start("freight", LOAD)
    offers(stepwell, "hare", 900)
    offers(stepwell, "ox", 450)
    assert run.result == {"carrier": "ox", "price": 450}
    assert told(carriers) == ["hare: ask timber", "ox: ask timber", "snail: ask timber", "snail: withdraw timber"]
    assert sorted(child.status for child in stepwell.runs("offer_of")) == ["cancelled", "completed", "completed"]


def test_without_an_offer_within_two_days_there_is_none(stepwell: Stepwell, carriers: Path) -> None:
    run = stepwell.start("freight", LOAD)
    stepwell.advance("2d")
    assert (run.status, run.result) == ("completed", None)
    assert len([line for line in told(carriers) if "withdraw" in line]) == 3


def test_a_cancel_of_the_run_cancels_its_children_which_withdraw(stepwell: Stepwell, carriers: Path) -> None:
    run = stepwell.start("freight", LOAD)
    offers(stepwell, "hare", 900)
    run.cancel("no timber")
    assert run.status == "cancelled"
    assert [line for line in told(carriers) if "withdraw" in line] == ["ox: withdraw timber", "snail: withdraw timber"]


def test_whoever_dies_each_carrier_is_asked_once_and_told_once(tmp_path: Path) -> None:
    def play(kit: Stepwell) -> None:
        kit.start("freight", {**LOAD, "asked": ["ox", "snail"]}, run_id="one")
        kit.advance("3m")  # whoever died has been replaced
        offers(kit, "ox", 450)
        kit.settle()

    for kit, carriers in deaths_of(Path(__file__).parent, tmp_path, "CARRIERS_DATA", play):
        assert Run(kit, "one").result == {"carrier": "ox", "price": 450}
        assert told(carriers) == ["ox: ask timber", "snail: ask timber", "snail: withdraw timber"]
