"""Failed runs, grouped by the fingerprint of their error."""

from __future__ import annotations

import pytest

from stepwell.cli.runs.failing import merged
from stepwell.engine.actions import Outcome
from stepwell.engine.fingerprints import failure_of
from stepwell.engine.records import Failure
from tests.api.kit import FAILS, World

SHIP = FAILS.replace("fails", "ships", 1)


def of(message: str, step: str = "ship", kind: str = "CarrierDown") -> str:
    return failure_of(Failure(kind, "step", message, step)).partition(" ")[0]


def test_errors_that_differ_in_ids_amounts_and_quoted_values_alone_are_alike() -> None:
    assert of("order A-17 of 'ana' was refused after 31 s") == of("order B-2 of 'leo' was refused after 4 s")
    assert of("refused") != of("accepted")
    assert of("refused") != of("refused", step="pack")
    assert of("refused") != of("refused", kind="Busy")


def test_what_a_header_keeps_of_an_error_is_bounded() -> None:
    assert len(failure_of(Failure("E" * 500, "step", "x" * 50_000, "s" * 500))) == 120
    assert failure_of(Failure("E", "step", "\ud800", "ship")).endswith(" E ship")


def failed() -> World:
    world = World(FAILS, SHIP)
    for number in range(5):
        message = f"order {number} is lost" if number < 3 else "no luck"
        outcome = Outcome(failure=Failure("Lost" if number < 3 else "Broken", "step", message, "work"))
        world.steps.functions["python:shop.fails"] = lambda call, it=outcome: it  # type: ignore[misc]  # a default
        world.start("fails")
        world.advance(60)
    world.start("ships")
    return world


def test_failures_are_grouped_with_their_step_and_their_first_and_last_time() -> None:
    world = failed()
    groups = world.get("/failures").json["items"]
    assert [(one["workflow"], one["type"], one["step"], one["count"]) for one in groups] == [
        ("fails", "Lost", "work", 3), ("fails", "Broken", "work", 2), ("ships", "Broken", "work", 1)]  # fmt: skip
    first = groups[0]
    assert (first["first_at"], first["last_at"]) == ("2027-01-15T08:00:00.000Z", "2027-01-15T08:02:00.000Z")
    assert world.get(f"/runs/{first['run_id']}").json["error"]["message"] == "order 2 is lost"


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        ("Card declined", "charge"),
        ("Card declined", "Charge the card"),
        ("CardDeclined", "Charge the card"),
        ("E" * 200, "charge"),
        ("CardDeclined", ""),
    ],
)
def test_a_type_or_a_step_with_blanks_or_of_any_length_is_told_whole(kind: str, step: str) -> None:
    """What the header keeps of it can be read in several ways, or is cut. The run's log has it."""
    world = World(FAILS)
    failure = Failure(kind, "step", "no", step)
    world.steps.functions["python:shop.fails"] = lambda call: Outcome(failure=failure)
    world.start("fails")
    world.advance(60)
    (group,) = world.get("/failures").json["items"]
    assert (group["type"], group["step"], group["count"]) == (kind, step, 1)


SAGA = """
workflow: saga
failure_policy: compensate
compensate_on: [cancel]
timeline:
  - {name: pay, run: python:shop.pay, timeout: 1m, compensate: {run: python:shop.refund, timeout: 1m}}
  - {name: ask, wait: {for: approval, timeout: 1d}}
  - {name: ship, run: python:shop.ship, timeout: 1m}
"""


def test_a_run_that_was_compensated_after_an_error_has_failed() -> None:
    """Its steps are undone, and what went wrong is still to be mended. One that was cancelled has not failed."""
    world = World(SAGA)
    lost = Outcome(failure=Failure("Lost", "step", "no", "ship"))
    done = {name: lambda call: Outcome(value=1) for name in ("python:shop.pay", "python:shop.refund")}
    world.steps.functions.update({**done, "python:shop.ship": lambda call: lost})
    failed, cancelled = world.start("saga"), world.start("saga")
    world.post(f"/runs/{failed}/approve", {})
    world.post(f"/runs/{cancelled}/cancel", {})
    world.drain()
    assert [world.get(f"/runs/{one}").json["status"] for one in (failed, cancelled)] == ["compensated"] * 2
    groups = world.get("/failures").json["items"]
    assert [(one["type"], one["step"], one["count"]) for one in groups] == [("Lost", "ship", 1)]
    listed = world.get("/runs", failure=groups[0]["fingerprint"]).json["items"]
    assert [one["run_id"] for one in listed] == [failed]


def test_the_runs_of_one_failure_are_listed_by_its_fingerprint() -> None:
    world = failed()
    mark = world.get("/failures", workflow="fails").json["items"][0]["fingerprint"]
    listed = world.get("/runs", failure=mark).json["items"]
    assert [one["workflow"] for one in listed] == ["fails"] * 3
    assert world.get("/runs", failure="other").json["items"] == []


def test_failures_are_read_page_by_page_and_the_command_adds_the_pages_up() -> None:
    world = failed()
    pages, cursor = [], ""
    while True:
        page = world.get("/failures", limit=2, **({"cursor": cursor} if cursor else {})).json
        pages += page["items"]
        cursor = page["next_cursor"]
        if not cursor:
            break
    whole = world.get("/failures").json["items"]
    assert sorted(merged(pages), key=str) == sorted(whole, key=str)
