"""An endpoint that wants to hear of failures hears of runs that fail and are undone only if it asks for those."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.runtime.folder.loading import load_folder

STEP = "{name: load, run: etl.load, timeout: 1m, compensate: {run: etl.unload, timeout: 1m}%s}"
UNDONE = f"workflow: nightly\nfailure_policy: compensate\ntimeline: [{STEP % ''}]\n"
OUT = "out:\n  pager:\n    url: https://pager.example.com/\n    secret: env:PAGER\n    events: [%s]\n%s"


def warned(folder: Path, nightly: str, events: str, more: str = "") -> list[tuple[str, str, int]]:
    (folder / "nightly.yaml").write_text(nightly)
    (folder / "plain.yaml").write_text("workflow: plain\ntimeline: [{name: nap, sleep: 1s}]\n")
    (folder / "webhooks.yaml").write_text(OUT % (events, more))
    found = [one for one in load_folder(folder).problems if one.code == "failures_unheard"]
    return [(Path(one.file).name, one.severity, one.line) for one in found]


@pytest.mark.parametrize("nightly", [UNDONE, f"workflow: nightly\ntimeline: [{STEP % ', on_failure: compensate'}]\n"])
def test_an_endpoint_that_asks_for_failed_runs_alone_is_warned_of(tmp_path: Path, nightly: str) -> None:
    assert warned(tmp_path, nightly, "run.failed, run.timed_out") == [("webhooks.yaml", "warning", 5)]


@pytest.mark.parametrize(
    ("nightly", "events", "more"),
    [
        (UNDONE, "run.failed, run.compensated", ""),
        (UNDONE, "run.*", ""),
        (UNDONE, "approval.requested", ""),
        (UNDONE, "run.failed", "    workflows: [plain]\n"),
        (UNDONE.replace("failure_policy: compensate", "compensate_on: [cancel]"), "run.failed", ""),
    ],
)
def test_one_that_hears_of_all_its_failures_is_not(tmp_path: Path, nightly: str, events: str, more: str) -> None:
    assert warned(tmp_path, nightly, events, more) == []
