"""The stack under its own roles, on an emulator that enforces them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.live_kit import seen
from tests.emulator.kit import until
from tests.iam.guarded import Guarded, guarded, role_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with pytest.MonkeyPatch.context() as patch, guarded(tmp_path_factory.mktemp("guarded"), patch) as stack:
        yield stack


def reaches(stack: Guarded, run_id: str, **wanted: Any) -> Any:
    """The run, once it shows this."""

    def look() -> Any:
        run = stack.ask("GET", f"/runs/{run_id}")
        return run if {name: run[name] for name in wanted} == wanted else None

    return until(look, f"{run_id} has {wanted}; denied so far: {stack.denials()}", pause_seconds=0.2)


def test_a_run_goes_by_every_handler_and_nothing_is_denied(stack: Guarded) -> None:
    run_id = stack.ask("POST", "/workflows/tour/runs", {"input": {"key": "A-1", "note": "x" * 40_000}})["run_id"]
    reaches(stack, run_id, waiting_for="approval")
    assert len(stack.emulator.client("scheduler").list_schedules()["Schedules"]) == 3  # API, worker, definition
    stack.ask("POST", f"/runs/{run_id}/approve", {"by": "ana"})
    reaches(stack, run_id, current_steps=["shipped"])
    assert stack.hook("till", {"key": "A-1"}).status_code == 202
    assert reaches(stack, run_id, status="completed")["result"] == "x"

    hooked = stack.hook("form-heavy", {"key": "A-2"}).json()["run_id"]
    reaches(stack, hooked, status="completed")
    listed = {run["run_id"] for run in stack.ask("GET", "/runs?status=completed")["items"]}
    assert listed == {run_id, hooked}
    assert stack.ask("GET", "/stats")
    assert stack.invoke("sweeper") == dict.fromkeys(
        ("Overdue", "NoProgress", "NothingWakes", "Unreadable", "Republished"), 0
    )

    files = stack.emulator.client("s3")
    place = {"Bucket": stack.stack.outputs["BucketName"], "Prefix": f"runs/tour/{run_id}.jsonl"}
    until(lambda: files.list_objects_v2(**place)["KeyCount"], "the snapshot is written")
    assert stack.denials() == []


def test_a_watcher_of_a_run_is_told_of_its_end_and_nothing_is_denied(stack: Guarded) -> None:
    """The ticket, the connections' own table, and what the stream function sends: each by its own role."""
    run_id = stack.ask("POST", "/workflows/asks/runs", {"input": {"key": "none"}})["run_id"]
    reaches(stack, run_id, waiting_for="approval")
    watcher = stack.watch(run_id)
    assert watcher.is_open, stack.denials()
    assert ("approval.requested", "ask") in seen([watcher.ask(after="")])
    assert stack.watchers() == 1
    stack.ask("POST", f"/runs/{run_id}/approve", {"by": "ana"})
    watcher.until("run.completed")
    watcher.close()
    until(lambda: stack.watchers() == 0, "the connection is forgotten")
    assert stack.denials() == []


def test_links_are_signed_read_and_let_in_without_a_key(stack: Guarded) -> None:
    run_id = stack.ask("POST", "/workflows/linked-heavy/runs", {})["run_id"]
    outside = {"x-api-key": ""}
    url = reaches(stack, run_id, waiting_for="approval")["waiting_data"]["approval_links"]["ana"]
    path = url[url.index("/approvals/") :]
    assert stack.api.get(path, headers=outside).status_code == 200
    assert stack.api.post(path, data={"decision": "approved"}, headers=outside).status_code == 200
    url = reaches(stack, run_id, waiting_for="callback")["waiting_data"]["callback_url"]
    path = url[url.index("/callbacks/") :]
    statuses = [stack.api.post(path, json={"n": 1}, headers=outside).status_code for _ in range(2)]
    assert statuses == [200, 409]
    reaches(stack, run_id, status="completed")
    assert path.rpartition(".")[2] not in stack.log.read_text()
    assert stack.denials() == []


def test_a_caller_without_the_key_is_refused(stack: Guarded) -> None:
    assert stack.api.get("/runs", headers={"x-api-key": "another"}).status_code == 403


def test_a_role_that_loses_a_permission_is_denied(stack: Guarded) -> None:
    """That the emulator looks at the roles at all."""
    role = role_of(stack.stack, "webhooks")
    stack.emulator.client("iam").delete_role_policy(RoleName=role, PolicyName="engine")
    assert stack.hook("form-default", {"key": "A-3"}).status_code == 503
    assert any(role in line for line in stack.denials())
