"""The stream handler: publishes the table's changes to subscribers after the fact. No run waits for it."""

from __future__ import annotations

from typing import Any

from stepwell.api.runs.views import view_of
from stepwell.aws.changes import sequence_of
from stepwell.aws.entry import Context, TimeLeft, open_entry
from stepwell.aws.packed import package_root, read_packed
from stepwell.aws.run_metrics import tell_runs
from stepwell.aws.run_traces import traces_of
from stepwell.aws.streaming import open_stream
from stepwell.limits import MINUTE_MS
from stepwell.runtime.loop.driving import run_now

A_RUN_MS = MINUTE_MS  # the most time for the snapshot, or the erasure, of one run
A_TRACE_MS = MINUTE_MS // 4  # the most time for the spans of one run

ROOT = package_root()

entry = open_entry(ROOT)
send_traces = traces_of(entry.aws)
stream = open_stream(entry.aws, view_of, read_packed(ROOT).get("webhooks"))


@entry.observing.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Handles a batch; Lambda delivers the records again from the first reported one."""
    records = event["Records"]
    taken = run_now(stream.take(records, TimeLeft(context, reserve_ms=A_RUN_MS).left_ms))
    tell_runs(taken.notices)
    send_traces(taken, TimeLeft(context, reserve_ms=A_TRACE_MS).left_ms)
    if taken.passed_over:
        entry.observing.count("PassedOver", taken.passed_over)
    again = records[taken.done : taken.done + 1]
    return {"batchItemFailures": [{"itemIdentifier": sequence_of(record)} for record in again]}
