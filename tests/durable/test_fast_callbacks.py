"""A callback that is posted while a function's step still runs is kept, whatever the function awaited before."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.engine.actions import Outcome
from stepwell.engine.records import Pause
from stepwell.limits import DAY_MS
from stepwell.runtime.calls.callbacks import step_callback
from stepwell.runtime.calls.links import CallbackLink
from stepwell.runtime.steps.port import StepCall
from stepwell.testing.kit import Stepwell

MODULE = """
from stepwell import step, workflow
@step
def ask(): pass
@workflow
async def flow(ctx):
    BEFORE
    return await ctx.step(ask, throttle=THROTTLE)
"""


@pytest.mark.parametrize("before", ["pass", "await ctx.sleep('1m')", "await ctx.step(ask)"])
@pytest.mark.parametrize("throttle", ["None", "'few'"])
def test_a_callback_that_is_faster_than_a_function_s_step_is_kept(tmp_path: Path, before: str, throttle: str) -> None:
    (tmp_path / "shop.py").write_text(MODULE.replace("BEFORE", before).replace("THROTTLE", throttle))
    (tmp_path / "limits.yaml").write_text("limits: {few: {concurrency: 1}}")
    kit = Stepwell(tmp_path)

    async def asks(call: StepCall) -> Outcome:
        callback = step_callback(call.run_id, call.token, call.key)
        assert callback is not None
        link = CallbackLink(callback, kit.service.ports.clock.now_ms() + DAY_MS)
        await kit.service.callbacks.complete(link, {"n": 2})
        return Outcome(pause=Pause("callback", timeout_ms=DAY_MS, result={"sent": 1}))

    kit._steps.run = asks  # type: ignore[method-assign]  # of these steps
    run = kit.start("flow")
    kit.advance("1h")
    assert (run.status, run.result) == ("completed", {"sent": 1, "n": 2})
    kit.close()
