"""The workflow `batch` from end to end, in memory and in virtual time."""

from __future__ import annotations

from typing import Any

from stepwell.testing.kit import Run, Stepwell

DOCUMENTS = 1000  # of a whole batch
FEW = 60  # of which one may fail


def batch(stepwell: Stepwell, documents: int, **more: Any) -> Run:
    return stepwell.start("batch", {"batch": "march", "documents": documents, **more})


def test_a_thousand_documents_are_read_and_summed_up_though_ten_are_smudges(stepwell: Stepwell) -> None:
    run = batch(stepwell, DOCUMENTS, smudged=1)
    assert run.status == "completed"
    assert run.result["unread"] == DOCUMENTS // 100
    assert sum(run.result["kinds"].values()) == DOCUMENTS - DOCUMENTS // 100
    assert set(run.result["kinds"]) == {"invoice", "receipt", "letter", "contract"}
    assert 0 < run.result["doubtful"] < DOCUMENTS // 20


def test_more_smudges_than_are_tolerated_fail_the_batch(stepwell: Stepwell) -> None:
    run = batch(stepwell, FEW, smudged=3)
    assert run.status == "failed"
    assert run.error is not None
    assert (run.error["type"], run.error["data"]["failed"]) == ("Unreadable", 2)
    assert "summary" not in run.steps


def test_each_contract_is_filed_in_a_run_of_its_own(stepwell: Stepwell) -> None:
    filing = stepwell.mock("archive", returns={"number": "march/7", "remind_at": "2031-01-01"})
    run = batch(stepwell, FEW)
    assert (run.status, run.result["remind"]) == ("completed", "2031-01-01")
    assert len(filing.calls) == run.result["kinds"]["contract"] > 0


def test_a_contract_that_cannot_be_filed_is_a_document_that_failed(stepwell: Stepwell) -> None:
    stepwell.mock("archive", raises=ValueError("the archive is full"), times=1)
    run = batch(stepwell, FEW)
    assert (run.status, run.result["unread"]) == ("completed", 1)


def test_a_scanner_that_is_away_for_a_moment_holds_up_only_its_documents(stepwell: Stepwell) -> None:
    scanner = stepwell.mock("read", raises=ConnectionError, times=5)
    run = batch(stepwell, FEW)
    assert run.status not in {"completed", "failed"}
    assert len(scanner.calls) == 5
    stepwell.advance("10s")
    assert (run.status, run.result["unread"]) == ("completed", 0)


def test_a_batch_of_one_is_a_batch(stepwell: Stepwell) -> None:
    assert batch(stepwell, 1).result["kinds"] == {"invoice": 1}
