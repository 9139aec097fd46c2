"""The program `account`: signals, updates and queries across its lives, and deaths at each write."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.client.errors import UpdateFailed
from stepwell.errors import Conflict
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Run, Stepwell
from tests.durable.dying import deaths_of


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_DATA", str(tmp_path))


def test_it_earns_spends_and_shows(stepwell: Stepwell) -> None:
    run = stepwell.start("account", run_id="kim")
    run.event("earned", 300)
    assert run.update("spend", {"amount": 250}) == "voucher of 2.50 EUR"
    assert run.query("points") == 50
    run.event("closed")
    assert run.result == 50


def test_whoever_has_no_account_gets_one_with_the_first_points(stepwell: Stepwell) -> None:
    client = stepwell.client()
    for number in (1, 2):
        client.start("account", id="kim", event={"name": "earned", "payload": 100, "id": f"purchase-{number}"})
    assert Run(stepwell, "kim").query("points") == 200


def test_what_cannot_be_afforded_is_refused_before_anything_is_written(stepwell: Stepwell) -> None:
    run = stepwell.start("account", {"points": 100}, run_id="kim")
    with pytest.raises(Conflict, match="150 of 100 points cannot be spent"):
        run.update("spend", {"amount": 150})
    assert [entry for entry in run.history if entry["type"].startswith("update")] == []


def test_a_voucher_that_cannot_be_had_gives_the_points_back(stepwell: Stepwell) -> None:
    stepwell.mock("order_voucher", raises=ValueError("sold out"))
    run = stepwell.start("account", {"points": 100}, run_id="kim")
    with pytest.raises(UpdateFailed, match="sold out"):
        run.update("spend", {"amount": 60})
    assert run.query("points") == 100


def test_after_twenty_changes_it_begins_anew_and_loses_nothing(stepwell: Stepwell) -> None:
    run = stepwell.start("account", run_id="kim")
    stepwell.mock("order_voucher", returns="voucher")
    for number in range(26):
        run.event("earned", 10, f"purchase-{number}")
    assert run.query("points") == 260
    for _ in range(15):
        run.update("spend", {"amount": 1})
    assert run.query("points") == 245
    assert [entry["type"] for entry in run.history].count("function.continued") == 2


def test_an_order_under_way_ends_before_the_account_does(stepwell: Stepwell) -> None:
    run = stepwell.start("account", {"points": 100}, run_id="kim")
    stepwell.settle()
    stepwell.mock("order_voucher", returns="voucher", takes="20s")
    sent = run_now(stepwell.service.update(run.id, "spend", {"amount": 60}))
    run.event("closed")
    assert run.result == 40
    answered = run_now(stepwell.service.update_answer(run.id, sent))
    assert answered is not None
    assert answered.output == "voucher"


def test_whoever_dies_each_purchase_counts_once_and_each_voucher_is_ordered_once(tmp_path: Path) -> None:
    def play(kit: Stepwell) -> None:
        run = kit.start("account", {"points": 100}, run_id="kim")
        run.event("earned", 50, "purchase-1")
        kit.advance("3m")  # whoever died has been replaced
        run_now(kit.service.update("kim", "spend", {"amount": 120}, "order-1"))
        kit.settle()

    for kit, vouchers in deaths_of(Path(__file__).parent, tmp_path, "LEDGER_DATA", play, each=5):
        run = Run(kit, "kim")
        assert run.query("points") == 30
        run.event("closed")
        assert (run.result, [one.read_text() for one in vouchers.iterdir()]) == (30, ["120"])
