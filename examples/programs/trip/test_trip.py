"""The program `trip`: what is undone when, in virtual time, and deaths at each write."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.testing.kit import Run, Stepwell
from tests.durable.dying import deaths_of

ALL = ["car: book to oslo", "flight: book to oslo", "hotel: book to oslo"]


@pytest.fixture(autouse=True)
def companies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAVEL_DATA", str(tmp_path))
    return tmp_path


def asked(folder: Path) -> list[str]:
    return sorted(f"{file.parent.name}: {file.read_text()}" for file in folder.glob("*/*"))


def test_a_trip_that_is_confirmed_stands(stepwell: Stepwell, companies: Path) -> None:
    run = stepwell.start("trip", {"place": "oslo"})
    assert run.waiting_for == "event"
    run.event("confirmed")
    assert (run.result, asked(companies)) == (["flight-oslo", "hotel-oslo", "car-oslo"], ALL)


def test_without_a_car_hotel_and_flight_are_cancelled_in_this_order(stepwell: Stepwell) -> None:
    cancel = stepwell.mock("cancel")
    run = stepwell.start("trip", {"place": "nowhere"})
    assert (run.status, run.error and run.error["message"]) == ("failed", "no car book to nowhere")
    assert cancel.calls == [
        {"company": "hotel", "booking": "hotel-nowhere"},
        {"company": "flight", "booking": "flight-nowhere"},
    ]


def test_a_trip_that_nobody_confirms_is_cancelled(stepwell: Stepwell, companies: Path) -> None:
    run = stepwell.start("trip", {"place": "oslo"})
    stepwell.advance("2d")
    assert run.status == "timed_out"
    assert [line for line in asked(companies) if "cancel" in line] == [
        "car: cancel car-oslo", "flight: cancel flight-oslo", "hotel: cancel hotel-oslo",
    ]  # fmt: skip


def test_so_is_one_whose_run_is_cancelled_and_a_company_that_is_away_is_asked_again(stepwell: Stepwell) -> None:
    away = stepwell.mock("cancel", raises=ConnectionError("away"), times=3)
    run = stepwell.start("trip", {"place": "oslo"})
    assert run.waiting_for == "event"
    run.cancel("changed my mind")
    assert run.phase == "cleaning_up"
    stepwell.advance("10m")
    assert (run.status, len(away.calls)) == ("cancelled", 3)


def test_whoever_dies_everything_is_booked_and_cancelled_once(tmp_path: Path) -> None:
    """A process dies before or after each write: the companies see each request once, by its key."""

    def play(kit: Stepwell) -> None:
        kit.start("trip", {"place": "nowhere"}, run_id="one")
        kit.settle()

    for kit, companies in deaths_of(Path(__file__).parent, tmp_path, "TRAVEL_DATA", play):
        assert Run(kit, "one").status == "failed"
        assert asked(companies) == [
            "flight: book to nowhere", "flight: cancel flight-nowhere",
            "hotel: book to nowhere", "hotel: cancel hotel-nowhere",
        ]  # fmt: skip
