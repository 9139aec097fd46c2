"""Snapshots on this machine: a run leaves the same file in the data folder that it leaves in the bucket on AWS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.definition.graph import Json
from stepwell.local.wiring import Local, open_local
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.starts.starting import Start

WAITS = "workflow: waits\nsnapshot: on_wait\ntimeline: [{name: ok, wait: {for: approval}}]"


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    folder = tmp_path / "workflows"
    folder.mkdir()
    (folder / "waits.yaml").write_text(WAITS)
    (folder / "ends.yaml").write_text(WAITS.replace("waits", "ends").replace("on_wait", "on_end"))
    (folder / "none.yaml").write_text(WAITS.replace("waits", "none").replace("on_wait", "none"))
    made = open_local(tmp_path / "data", folder, load_folder(folder).graphs)
    yield made
    made.close()


def started(local: Local, workflow: str) -> str:
    run_id = run_now(local.parts.service.start(Start(workflow))).header.run_id
    deliver(local)
    return run_id


def deliver(local: Local) -> None:
    now_ms = local.parts.ports.clock.now_ms()
    while (one := local.inbox.receive(ALL_LANES, now_ms, 60_000)) is not None:
        run_now(dispatch(local.parts, one.lane, one.message, Unlimited(one.deliveries)))
        local.inbox.delete(one)


def kept(tmp_path: Path) -> dict[str, list[dict[str, Json]]]:
    """The files under `runs/`, by their name."""
    root = tmp_path / "data" / "runs"
    return {
        str(file.relative_to(root)): [json.loads(line) for line in file.read_text().splitlines()]
        for file in root.rglob("*")
        if file.is_file()
    }


def test_a_run_is_kept_when_it_waits_and_when_it_ends_if_its_definition_says_so(local: Local, tmp_path: Path) -> None:
    waits, ends, none = (started(local, workflow) for workflow in ("waits", "ends", "none"))
    assert {name: lines[0]["status"] for name, lines in kept(tmp_path).items()} == {f"waits/{waits}.jsonl": "waiting"}
    for run_id in (waits, ends, none):
        run_now(local.parts.service.approve(run_id, who="eva"))
    deliver(local)
    found = kept(tmp_path)
    assert sorted(found) == sorted([f"waits/{waits}.jsonl", f"ends/{ends}.jsonl"])
    assert {lines[0]["status"] for lines in found.values()} == {"completed"}
    assert {lines[-1]["type"] for lines in found.values()} == {"run.completed"}


def test_a_run_that_cannot_be_kept_ends_all_the_same(
    local: Local, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "data" / "runs").write_text("in the way")
    run_id = started(local, "ends")
    run_now(local.parts.service.cancel(run_id))
    assert run_now(local.parts.service.header(run_id)).status == "cancelled"
    assert f"no snapshot of run {run_id}" in caplog.text


def test_a_change_that_was_made_by_one_who_died_is_kept_by_the_next(local: Local, tmp_path: Path) -> None:
    run_id = run_now(local.parts.service.start(Start("waits"))).header.run_id
    one = local.inbox.receive(ALL_LANES, local.parts.ports.clock.now_ms(), 60_000)
    assert one is not None
    run_now(dispatch(local.parts, one.lane, one.message, Unlimited(one.deliveries)))
    (tmp_path / "data" / "runs" / "waits" / f"{run_id}.jsonl").unlink()
    run_now(dispatch(local.parts, one.lane, one.message, Unlimited(2)))  # the message was not deleted: it comes again
    assert list(kept(tmp_path)) == [f"waits/{run_id}.jsonl"]
