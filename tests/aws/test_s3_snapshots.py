"""Snapshots in the bucket: written when the stream brings the end of a run, whole or not at all, the newest last."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.runtime.loop.driving import run_now
from tests.aws.stream_kit import Streamed, streamed
from tests.contract.emulated import answer

KEPT = "workflow: flow\nsnapshot: on_end\ntimeline: [{name: a, run: python:m.a}, {name: b, run: python:m.b}]"
WAITS = "workflow: flow\nsnapshot: on_wait\ntimeline: [{name: ok, wait: {for: approval}}]"


def ran(at: Streamed) -> str:
    run_id = at.world.start()
    at.world.deliver()
    return run_id


def test_an_ended_run_is_kept_once_for_each_batch_that_brings_a_change_of_it() -> None:
    with streamed(KEPT) as at:
        run_id = ran(at)
        at.cloud.calls.clear()
        at.take()
        assert at.cloud.calls.count("PutObject") == 1
        run, *entries = at.file(run_id)
        assert (run["run_id"], run["status"]) == (run_id, "completed")
        assert [entry["type"] for entry in entries][-1] == "run.completed"


def test_a_workflow_that_asks_for_none_leaves_none() -> None:
    with streamed(KEPT.replace("on_end", "none")) as at:
        ran(at)
        at.take()
        assert at.files() == []


def test_a_wait_is_kept_and_a_batch_that_comes_again_after_the_end_leaves_the_end() -> None:
    with streamed(WAITS) as at:
        run_id = ran(at)
        waiting = at.records()
        at.take()
        assert at.file(run_id)[0]["status"] == "waiting"
        run_now(at.world.service.approve(run_id))
        at.world.deliver()
        at.take()
        at.take(waiting)
        assert at.file(run_id)[0]["status"] == "completed"
        assert at.files() == [f"runs/flow/{run_id}.jsonl"]


def test_a_long_history_goes_part_by_part() -> None:
    with streamed(KEPT) as at:
        at.world.steps.of["a"] = at.world.steps.of["b"] = lambda _: "x" * 3_000_000
        run_id = ran(at)
        at.cloud.calls.clear()
        at.take()
        assert at.cloud.calls.count("UploadPart") == 3  # 15 MB in parts of 5 MiB and more
        assert "PutObject" not in at.cloud.calls
        run, *entries = at.file(run_id)
        assert len(run["result"]) == 3_000_000
        assert [len(entry["data"]["output"]) for entry in entries if entry["type"] == "step.completed"] == [
            3_000_000
        ] * 2


def test_an_upload_that_breaks_leaves_nothing_and_comes_again() -> None:
    with streamed(KEPT) as at:
        at.world.steps.of["a"] = at.world.steps.of["b"] = lambda _: "x" * 3_000_000
        run_id = ran(at)
        records = at.records()

        def broken(operation: str, _: Any) -> Any:
            return answer(500, "") if operation == "CompleteMultipartUpload" else None

        at.cloud.before = broken
        (taken,) = at.take(records)
        assert taken.done == len(records) - 1  # the header's last change
        assert at.cloud.calls.count("AbortMultipartUpload") == 1
        assert at.files() == []
        at.cloud.heal()
        assert at.take(records[taken.done :])[0].done == 1
        assert at.file(run_id)[0]["status"] == "completed"


@pytest.mark.parametrize("code", ["AccessDenied", "InternalError"])
def test_a_bucket_that_refuses_keeps_no_event_back(code: str) -> None:
    with streamed(KEPT) as at:
        run_id = ran(at)
        body = f"<Error><Code>{code}</Code><Message>no</Message></Error>"
        at.cloud.before = lambda operation, _: answer(403, body) if operation == "PutObject" else None
        records = at.records()
        (taken,) = at.take(records)
        assert taken.done < len(records)
        assert at.types(run_id)[-1] == "run.completed"


def test_a_definition_that_is_lost_keeps_nothing_back(caplog: pytest.LogCaptureFixture) -> None:
    with streamed(KEPT) as at:
        ran(at)
        records = at.records()
        at.world.catalog.replace([])
        at.world.catalog._versions.clear()
        for one in at.world.store.inner._table.query("pk = :pk", {":pk": _definition(records)}):
            at.world.store.inner._table.delete({name: one[name] for name in ("pk", "sk")})
        (taken,) = at.take(records)
        assert (taken.done, taken.passed_over) == (len(records), 1)
        assert "passed over" in caplog.text


def _definition(records: list[dict[str, Any]]) -> str:
    return next(found for one in records if (found := str(one["dynamodb"]["Keys"]["pk"]["S"])).startswith("DEF#"))
