"""What is over is deleted with its blobs, and what is not keeps them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.definition.compiler import compile_definition
from stepwell.errors import PortError
from stepwell.limits import CLAIM_CHECK_BYTES, DAY_MS, DELIVERY_BYTES, HOUR_MS
from stepwell.local.wiring import Local, open_local
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.notify.deliveries import Deliveries, Delivery, Outcome
from stepwell.runtime.starts.starting import Start
from stepwell.runtime.stores.blobs import of_run

STEPS = f"def big():\n    return 'x' * {CLAIM_CHECK_BYTES + 1}\n"
FLOW = "workflow: {name}\nretention: {kept}\ntimeline: [{{name: big, run: python:steps.big}}]\n"


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    (tmp_path / "steps.py").write_text(STEPS)
    graphs = [
        compile_definition(FLOW.format(name=f"kept-{kept}", kept=kept), "flow.yaml").graph for kept in ("1h", "2d")
    ]
    opened = open_local(tmp_path / "data", tmp_path, tuple(graph for graph in graphs if graph is not None))
    yield opened
    opened.close()


def run(local: Local, workflow: str) -> str:
    """A run to its end."""
    run_id = run_now(local.parts.service.start(Start(workflow))).header.run_id
    clock = local.parts.ports.clock
    while (delivery := local.inbox.receive(ALL_LANES, clock.now_ms(), HOUR_MS)) is not None:
        run_now(dispatch(local.parts, delivery.lane, delivery.message, Unlimited(delivery.deliveries)))
        local.inbox.delete(delivery)
    assert run_now(local.parts.service.header(run_id)).status.terminal
    return run_id


def owners(data: Path) -> set[str]:
    return {path.name for path in (data / "blobs").glob("*")}


def test_the_blobs_of_a_run_are_deleted_with_it(local: Local, tmp_path: Path) -> None:
    gone, kept = run(local, "kept-1h"), run(local, "kept-2d")
    assert owners(tmp_path / "data") == {of_run(gone), of_run(kept)}
    assert local.purge(local.parts.ports.clock.now_ms() + 2 * HOUR_MS) == 1
    assert owners(tmp_path / "data") == {of_run(kept)}
    assert run_now(local.parts.service.standing(kept)).token.result == "x" * (CLAIM_CHECK_BYTES + 1)


def test_a_purge_that_cannot_delete_the_blobs_leaves_the_run_for_the_next_one(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(owner: str) -> None:
        raise PortError("the disk does not answer")

    gone = run(local, "kept-1h")
    late_ms = local.parts.ports.clock.now_ms() + 2 * HOUR_MS
    with monkeypatch.context() as broken:
        broken.setattr(local.parts.ports.blobs, "drop", refuse)
        with pytest.raises(PortError):
            local.purge(late_ms)
    assert run_now(local.parts.service.header(gone)).run_id == gone
    assert local.purge(late_ms) == 1


def test_the_body_of_a_kept_webhook_is_there_as_long_as_the_delivery_and_goes_by_its_age(
    local: Local, tmp_path: Path
) -> None:
    clock, deliveries = local.parts.ports.clock, Deliveries(local.parts.ports)
    now_ms = clock.now_ms()
    body = b"x" * (DELIVERY_BYTES + 1)
    run_now(deliveries.keep(Delivery("shop", "d1", now_ms, Outcome.PUBLISHED, now_ms + 7 * DAY_MS, body=body)))
    local.purge(now_ms + 6 * DAY_MS)
    found = run_now(deliveries.find("shop", "d1"))
    assert found is not None
    assert found.body == body
    local.purge(now_ms + 15 * DAY_MS)
    assert list((tmp_path / "data" / "blobs").rglob("*/*")) == []


def test_a_body_that_came_again_is_kept_from_then_on(local: Local, tmp_path: Path) -> None:
    """The age of a blob counts from the last time that it was put."""
    blobs, now_ms = local.parts.ports.blobs, local.parts.ports.clock.now_ms()
    reference = run_now(blobs.put(b"same", "days-14"))
    (file,) = (tmp_path / "data" / "blobs" / "days-14").iterdir()
    long_ago = now_ms / 1_000 - 20 * DAY_MS / 1_000
    os.utime(file, (long_ago, long_ago))
    run_now(blobs.put(b"same", "days-14"))
    local.purge(now_ms)
    assert run_now(blobs.get(reference)) == b"same"
