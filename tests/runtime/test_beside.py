"""Work beside the branch whose step takes time: how much of it there may be, and what becomes of its errors."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from pathlib import Path

import pytest

from stepwell.definition.expressions import compile_expression
from stepwell.errors import PortError
from stepwell.local.pump import LEASE_MS
from stepwell.local.wiring import Local, open_local
from stepwell.runtime.assembly import Assembly, assemble
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.loop.beside import Beside
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.loop.sharing import Sharing
from stepwell.runtime.ports import Lane
from stepwell.runtime.starts.starting import Start

STEPS = """
import threading

MEET = threading.Barrier(3)

def work(n):
    MEET.wait(timeout=60)
    return n
"""
FORK = """
workflow: fork
nodes:
  fork: {fan_out: all, transitions: [{to: work, foreach: "{{ input.numbers }}", as: n}]}
  work: {run: "python:steps.work", input: {n: "{{ branch.item }}"}, transitions: [{to: gather}]}
  gather: {fan_in: {policy: all}}
"""
ID: ContextVar[str] = ContextVar("an id in the lines of a log")


def one_message(local: Local, parts: Assembly) -> None:
    delivery = local.inbox.receive((Lane.WORK,), parts.ports.clock.now_ms(), LEASE_MS)
    assert delivery is not None
    run_now(dispatch(parts, delivery.lane, delivery.message, Unlimited(delivery.deliveries)))
    local.inbox.delete(delivery)


def test_what_a_worker_may_not_run_at_once_gets_messages(tmp_path: Path) -> None:
    """Three of ten branches run for their message; the seven others have not begun, and have a message each."""
    folder = tmp_path / "workflows"
    folder.mkdir()
    (folder / "steps.py").write_text(STEPS)
    (folder / "fork.yaml").write_text(FORK)
    local = open_local(tmp_path / "data", folder, load_folder(folder).graphs)
    parts = assemble(
        local.parts.ports,
        local.parts.catalog,
        local.steps,
        compile_expression=compile_expression,
        new_id=lambda: "1",
        jitter=lambda: 0.5,
        sharing=Sharing(step_ms=1, steps=3),
    )
    run_id = run_now(parts.service.start(Start("fork", {"numbers": list(range(10))}))).header.run_id
    one_message(local, parts)
    one_message(local, parts)
    found = run_now(parts.service.branches(run_id, "", 0, 10))
    assert [at.token.ended for at in found] == [True] * 3 + [False] * 7
    assert local.inbox.pending() == 7
    local.close()


def test_an_error_of_one_is_raised_when_all_are_over() -> None:
    """So that nobody works on a message that has been given back."""
    beside, is_over = Beside(2), threading.Event()

    async def fails() -> None:
        raise PortError("no answer")

    async def ends() -> None:
        threading.Event().wait(0.05)
        is_over.set()

    beside.start(fails())
    beside.start(ends())
    assert not beside.has_room
    with pytest.raises(PortError, match="no answer"):
        beside.join()
    assert is_over.is_set()


def test_a_worker_that_runs_one_step_at_a_time_has_no_room() -> None:
    beside = Beside(0)
    assert not beside.has_room
    beside.join()


def test_work_beside_knows_what_its_message_is_about() -> None:
    found: list[str] = []

    async def tells() -> None:
        found.append(ID.get())

    ID.set("r1")
    beside = Beside(1)
    beside.start(tells())
    beside.join()
    assert found == ["r1"]
