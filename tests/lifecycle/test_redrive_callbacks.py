"""A step that waits for a callback has a URL of its own in the run that goes on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stepwell.testing.kit import Stepwell

MODULE = """
from stepwell import step, wait_for_callback, workflow
URLS = []
@step
def ask(ctx, n=0):
    URLS.append(ctx.callback_url("1h"))
    if len(URLS) == 1:
        raise ValueError("no luck")
    return wait_for_callback(timeout="1h")
@workflow
async def alone(ctx):
    return await ctx.step(ask)
@workflow
async def mapped(ctx):
    return (await ctx.map(ask, [1]))[0]
"""
GRAPH = "workflow: graph\ntimeline: [{name: a, run: python:asking.ask}]"


@pytest.mark.parametrize("workflow", ["graph", "alone", "mapped"])
def test_a_redriven_step_waits_for_its_callback(tmp_path: Path, workflow: str) -> None:
    (tmp_path / "asking.py").write_text(MODULE)
    kit = Stepwell(tmp_path)
    kit.define(GRAPH)
    run = kit.start(workflow)
    assert run.status == "failed"
    again = run.redrive()
    assert again.waiting_for == "callback"
    kit.callback(sys.modules["asking"].URLS[-1], {"n": 2})
    assert (again.status, again.result) == ("completed", {"n": 2})
    kit.close()
