"""`stepwell verify` and `stepwell simulate` find the fault that is planted in each workflow."""

from __future__ import annotations

from pathlib import Path

from stepwell.runtime.folder.loading import load_folder
from stepwell.simulation import parse_assumptions, simulate
from stepwell.testing.verify import Verdict, verify

FOLDER = Path(__file__).parent
ADA = {"customer": "Ada", "amount": 80}


def test_verify_finds_the_charge_that_must_not_run_twice() -> None:
    report = verify(FOLDER, "invoice", ADA, shuffles=4)
    verdicts = {one.step: one.verdict for one in report.steps}
    assert verdicts == {"write": Verdict.IDEMPOTENT, "charge": Verdict.EFFECT_TWICE, "receipt": Verdict.IDEMPOTENT}
    assert not report.holds
    charge = next(one for one in report.steps if one.step == "charge")
    assert "books/payments.json" in charge.evidence
    assert charge.schedule == "a worker dies before write 7 (append of charge)"
    assert {one.what for one in report.broken} == {"effects"}


def test_the_mended_invoice_is_charged_once_whatever_happens() -> None:
    report = verify(FOLDER, "invoice-mended", ADA, shuffles=4)
    assert report.holds, report
    assert {one.verdict for one in report.steps} == {Verdict.IDEMPOTENT}


def test_simulate_finds_the_signature_that_is_never_too_late() -> None:
    graph = next(one for one in load_folder(FOLDER).graphs if one.name == "contract")
    given = parse_assumptions({"waits": {"sign": {"after": {"p50": "1d", "p95": "6d"}, "never": "10%"}}})
    found = simulate(graph, given, runs=300)
    (only,) = found.contradictions
    assert (only.code, only.node) == ("wait_outlives_run", "sign")
    assert {(one.status, one.error) for one in found.outcomes} == {("completed", ""), ("timed_out", "workflow_timeout")}
    assert (found.never_reached, found.never_taken) == (("remind",), ("sign.diverge[0]",))
