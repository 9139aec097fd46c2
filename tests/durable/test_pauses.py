"""A pause that meets a function between the record that begins an operation and the message that lets it begin."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from stepwell.errors import PortError
from stepwell.runtime.loop.driving import run_now
from tests.durable.conftest import Flows

FLOW = """
from stepwell import workflow
def ship(): return "shipped"
@workflow
async def flow(ctx):
    items = []

    @ctx.update("add")
    def add(item):
        items.append(item)
        return len(items)

    await ctx.event("go")
    shipped = ctx.start(ctx.step(ship))
    await ctx.until(lambda: items)
    return [items, await shipped]
"""


def test_an_operation_begins_though_its_worker_died_before_a_pause_and_others_wrote_during_it(flows: Flows) -> None:
    kit = flows(FLOW)
    run = kit.start("flow")
    kit.settle()

    async def dies(*_: Any) -> None:
        patched.stop()
        run_now(kit.service.pause(run.id))
        raise PortError("the worker died here")

    patched = mock.patch.object(kit.service.ports.queue, "send_all", dies)  # it lets the operation begin
    patched.start()
    run.event("go")
    with pytest.raises(PortError):
        kit.settle()
    kit.advance("2m")  # its message comes again
    assert run.status == "paused"
    assert run.update("add", {"item": "pen"}) == 1
    kit.settle()
    run.unpause()
    assert (run.status, run.result) == ("completed", [["pen"], "shipped"]), run.error
