"""Updates of one run that come at once, and write the same slot of its log."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.runtime.calls.updates import Updates
from stepwell.runtime.log.messages import Update
from stepwell.runtime.loop.driving import run_now
from tests.durable.conftest import Flows

FLOW = """
from stepwell import workflow
@workflow
async def flow(ctx):
    items = []

    @ctx.update("add")
    def add(item):
        items.append(item)
        return len(items)

    await ctx.until(lambda: len(items) == 2)
    return items
"""


def test_an_update_that_loses_its_slot_to_another_takes_the_next_one_at_once(
    flows: Flows, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = flows(FLOW)
    run = kit.start("flow")
    kit.settle()
    write, began = Updates._write, kit.now

    async def after_another(self: Updates, *given: Any) -> bool:
        monkeypatch.setattr(Updates, "_write", write)
        await self.handle(Update(run.id, "other"))
        return await write(self, *given)

    for update_id in ("one", "other"):
        run_now(kit.service.update(run.id, "add", {"item": update_id}, update_id))
    monkeypatch.setattr(Updates, "_write", after_another)
    kit.settle()
    assert (run.status, run.result, kit.now) == ("completed", ["other", "one"], began)
