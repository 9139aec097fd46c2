"""`checkout`, `express` and `plain-checkout`: what they do, and how they take it back, in memory and virtual time."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import Conflict
from stepwell.testing.kit import Run, Stepwell

ORDER: dict[str, Any] = json.loads((Path(__file__).parent / "events" / "order.json").read_text())
FAR = {**ORDER, "country": "NO"}  # where no carrier goes
Lines = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lines:
    """What the world outside has in its book."""
    monkeypatch.setenv("STORE_DATA", str(tmp_path))

    def read(kind: str) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(tmp_path / "book.db")) as book:
            found = book.execute("SELECT line FROM lines WHERE kind = ? ORDER BY rowid", (kind,))
            return [json.loads(line) for (line,) in found]

    return read


def checkout(stepwell: Stepwell, order: dict[str, Any]) -> Run:
    """A run whose parcel is packed as soon as it waits for that."""
    run = stepwell.start("checkout", order)
    stepwell.event("warehouse.packed", {"boxes": 2}, key=order["order_id"])
    return run


def undone(run: Run) -> list[str]:
    """The steps that were taken back, in that order."""
    return [entry["step"] for entry in run.history if entry["type"] == "step.compensated"]


def told(run: Run) -> list[str]:
    return [entry["type"] for entry in run.history]


def pieces(lines: Lines) -> int:
    """How many are off the shelf."""
    return sum(line["pieces"] for line in lines("hold") + lines("release"))


def test_an_order_is_reserved_screened_paid_packed_and_shipped(stepwell: Stepwell, lines: Lines) -> None:
    run = checkout(stepwell, ORDER)
    assert run.status == "completed"
    assert run.result["order_id"] == "B-2001"
    assert run.steps["screen"].output == {"points": 0}
    assert [line["amount"] for line in lines("payment")] == ["448.70"]
    assert (pieces(lines), undone(run), lines("refund")) == (4, [], [])


def test_a_shipment_that_cannot_be_booked_undoes_the_rest_the_last_first(stepwell: Stepwell, lines: Lines) -> None:
    run = checkout(stepwell, FAR)
    assert run.status == "compensated"
    assert undone(run) == ["charge", "reserve"]
    assert [line["amount"] for line in lines("refund")] == ["448.70"]
    assert pieces(lines) == 0
    assert run.error is not None  # the original one
    assert (run.error["type"], run.error["step"]) == ("NotServed", "ship")


def test_what_has_no_compensation_is_passed_over(stepwell: Stepwell, lines: Lines) -> None:
    run = checkout(stepwell, FAR)
    assert (run.steps["reserve"].status, run.steps["thank"].status) == ("compensated", "completed")
    assert len(lines("mail")) == 1


def test_only_what_completed_is_undone(stepwell: Stepwell, lines: Lines) -> None:
    run = stepwell.start("checkout", {**ORDER, "card": "card_declined"})
    assert (run.status, undone(run)) == ("compensated", ["reserve"])
    assert (pieces(lines), lines("refund")) == (0, [])


def test_a_refund_whose_answers_get_lost_is_asked_for_again_and_paid_once(
    stepwell: Stepwell, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_LOST_ANSWERS", "3")
    run = checkout(stepwell, FAR)
    stepwell.advance("10s")
    assert (run.status, told(run)[-1]) == ("compensating", "compensation.retry_scheduled")
    stepwell.advance("30s")  # after 5, 10 and 20 s
    assert (run.status, undone(run)) == ("compensated", ["charge", "reserve"])
    assert told(run).count("compensation.failed") == 3
    assert len(lines("refund")) == 1


def test_after_a_refund_that_fails_for_good_nothing_further_is_undone(stepwell: Stepwell, lines: Lines) -> None:
    refund = stepwell.mock("refund", raises=ConnectionError)
    run = checkout(stepwell, FAR)
    stepwell.advance("3h")
    assert len(refund.calls) == 11  # within an hour
    assert (run.status, undone(run)) == ("failed", [])
    assert run.view["outcome"] == "partial_rollback"
    assert run.rollback is not None
    assert [one["step"] for one in run.rollback["not_undone"]] == ["charge", "reserve"]
    assert pieces(lines) == 4  # somebody has to look
    assert run.error is not None
    assert run.error["type"] == "NotServed"


def test_a_customer_who_changes_her_mind_gets_her_money_back(stepwell: Stepwell, lines: Lines) -> None:
    run = stepwell.start("checkout", ORDER)
    assert run.view["current_steps"] == ["packed"]
    assert run.cancel("changed her mind", by="kim")
    assert (run.status, undone(run)) == ("compensated", ["charge", "reserve"])
    assert (run.view["cancelled_by"], run.view["cancel_reason"]) == ("kim", "changed her mind")
    stepwell.event("warehouse.packed", {"boxes": 2}, key="B-2001")
    assert lines("shipment") == []


def test_a_run_that_is_being_undone_cannot_be_cancelled(stepwell: Stepwell) -> None:
    stepwell.mock("refund", raises=ConnectionError, times=1)
    run = checkout(stepwell, FAR)
    with pytest.raises(Conflict, match="being undone"):
        run.cancel()
    stepwell.advance("5s")
    assert run.status == "compensated"


def test_a_parcel_that_nobody_packs_is_not_paid_for(stepwell: Stepwell, lines: Lines) -> None:
    run = stepwell.start("checkout", ORDER)
    stepwell.advance("3d")
    assert (run.status, undone(run), len(lines("refund"))) == ("compensated", ["charge", "reserve"], 1)


def test_a_doubtful_order_waits_in_a_child_run_for_a_person(stepwell: Stepwell, lines: Lines) -> None:
    run = stepwell.start("checkout", {**FAR, "country": "AQ", "email": "x@mailbin.example"})
    assert (run.waiting_for, run.view["current_steps"]) == ("children", ["screen"])
    child = run.children["fraud-check"]
    assert child.view["waiting_data"]["reasons"] == ["a throwaway address", "a country without customers"]
    child.reject("never heard of them", by="mina")
    assert (run.status, undone(run)) == ("compensated", ["reserve"])
    assert run.error is not None
    assert (run.error["type"], run.error["data"]["error"]["type"]) == ("child_failed", "rejected")
    assert lines("payment") == []


def test_the_screening_of_a_cancelled_order_is_cancelled(stepwell: Stepwell) -> None:
    run = stepwell.start("checkout", {**FAR, "country": "AQ", "email": "x@mailbin.example"})
    child = run.children["fraud-check"]
    run.cancel()
    assert (run.status, child.status) == ("compensated", "cancelled")


def test_nobody_but_a_run_screens(stepwell: Stepwell) -> None:
    with pytest.raises(Conflict, match="internal"):
        stepwell.start("fraud-check", {"email": "a@b.example", "country": "DE", "total": "1"})


def test_an_express_order_sees_to_goods_and_money_side_by_side(stepwell: Stepwell, lines: Lines) -> None:
    run = stepwell.start("express", ORDER)
    assert run.status == "completed"
    assert run.result["charge"]["amount"] == run.result["reserve"]["total"] == "448.70"
    assert (len(lines("courier")), lines("call-off")) == (1, [])


def test_an_express_order_is_undone_in_the_reverse_of_its_dependencies(stepwell: Stepwell, lines: Lines) -> None:
    run = stepwell.start("express", {**ORDER, "items": [{"sku": "LAMP-07", "quantity": 11}]})
    assert run.status == "compensated"
    assert sorted(undone(run)) == ["charge", "courier", "reserve"]
    assert (run.steps["charge"].status, run.steps["quote"].status) == ("compensated", "completed")
    assert undone(run).index("courier") < undone(run).index("reserve")
    assert (pieces(lines), len(lines("refund")), len(lines("call-off"))) == (0, 1, 1)


def test_a_declined_card_calls_the_courier_off(stepwell: Stepwell, lines: Lines) -> None:
    run = stepwell.start("express", {**ORDER, "card": "card_declined"})
    assert run.status == "compensated"
    assert "charge" not in undone(run)
    assert (pieces(lines), len(lines("call-off"))) == (0, len(lines("courier")))


def packed(stepwell: Stepwell, run: Run) -> None:
    stepwell.event("warehouse.packed", {"boxes": 2}, key=ORDER["order_id"])


def refund_answers_get_lost(stepwell: Stepwell, run: Run) -> None:
    stepwell.mock("refund", raises=ConnectionError, times=3)
    packed(stepwell, run)
    stepwell.advance("40s")


def refund_fails_for_good(stepwell: Stepwell, run: Run) -> None:
    stepwell.mock("refund", raises=ConnectionError)
    packed(stepwell, run)
    stepwell.advance("3h")


def nobody_packs(stepwell: Stepwell, run: Run) -> None:
    stepwell.advance("3d")


def screening_rejects(stepwell: Stepwell, run: Run) -> None:
    run.children["fraud-check"].reject("never heard of them", by="mina")


def customer_changes_her_mind(stepwell: Stepwell, run: Run) -> None:
    run.cancel("changed her mind", by="kim")


DOUBTFUL = {**FAR, "country": "AQ", "email": "x@mailbin.example"}
Fate = tuple[dict[str, Any], Callable[[Stepwell, Run], None], tuple[str, str]]
FATES: list[Fate] = [
    (ORDER, packed, ("completed", "completed")),
    (FAR, packed, ("compensated", "failed")),  # a function that has taken everything back has failed all the same
    (ORDER, customer_changes_her_mind, ("compensated", "cancelled")),
]
RARER_FATES: list[Fate] = [
    ({**ORDER, "card": "card_declined"}, packed, ("compensated", "failed")),
    (FAR, refund_answers_get_lost, ("compensated", "failed")),
    (FAR, refund_fails_for_good, ("failed", "failed")),
    (ORDER, nobody_packs, ("compensated", "timed_out")),
    (DOUBTFUL, screening_rejects, ("compensated", "failed")),
    (DOUBTFUL, customer_changes_her_mind, ("compensated", "cancelled")),
]


def fate(stepwell: Stepwell, workflow: str, order: dict[str, Any], goes: Callable[[Stepwell, Run], None]) -> Run:
    run = stepwell.start(workflow, order)
    stepwell.settle()
    goes(stepwell, run)
    stepwell.settle()
    return run


def compared(stepwell: Stepwell, folder: Path, case: Fate) -> None:
    """The definition and the function, each with a world of its own, which cannot tell which of the two it was."""
    order, goes, statuses = case
    runs, books = [], []
    with pytest.MonkeyPatch.context() as patch:
        for workflow in ("checkout", "plain-checkout"):
            patch.setenv("STORE_DATA", str(folder / workflow))
            runs.append(fate(stepwell, workflow, order, goes))
            with closing(sqlite3.connect(folder / workflow / "book.db")) as book:
                books.append(book.execute("SELECT kind, line FROM lines ORDER BY rowid").fetchall())
    graph, function = runs
    assert (graph.status, function.status) == statuses
    assert books[0] == books[1]
    assert graph.result == function.result
    assert same(graph.error) == same(function.error)


def same(error: Any) -> Any:
    return error and (error["type"], error["category"])


@pytest.mark.parametrize("case", FATES)
def test_the_same_saga_in_plain_python_ends_the_same(stepwell: Stepwell, tmp_path: Path, case: Fate) -> None:
    compared(stepwell, tmp_path, case)


@pytest.mark.parametrize("case", RARER_FATES)
def test_it_ends_the_same_in_rarer_cases(stepwell: Stepwell, tmp_path: Path, case: Fate) -> None:
    compared(stepwell, tmp_path, case)


def test_a_function_says_what_it_could_not_take_back(stepwell: Stepwell) -> None:
    run = fate(stepwell, "plain-checkout", FAR, refund_fails_for_good)
    assert run.state["not_undone"] == ["refund", "release"]
    assert run.error is not None
    assert run.error["type"] == "NotServed"
