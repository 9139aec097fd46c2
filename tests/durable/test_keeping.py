"""What a process keeps of durable functions is bounded, however many it has run."""

from __future__ import annotations

from pathlib import Path

from stepwell.testing.kit import Stepwell

MODULE = """
from stepwell import workflow

async def leg(ctx):
    await ctx.event("go")

@workflow
async def flow(ctx):
    await ctx.all(leg(ctx), leg(ctx))
"""


def test_of_functions_and_of_their_forks_so_many_are_kept_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "keeping.py").write_text(MODULE)
    kit = Stepwell(tmp_path, sessions=4)
    for _ in range(10):
        assert kit.start("flow").status == "waiting"
    sessions = kit._steps._real._sessions
    assert sessions is not None
    assert (len(sessions._warm._sessions), len(sessions._warm._forked)) == (4, 4)
    kit.close()


def test_a_function_that_has_ended_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "keeping.py").write_text(MODULE)
    kit = Stepwell(tmp_path, sessions=100)
    run = kit.start("flow")
    assert run.status == "waiting"
    sessions = kit._steps._real._sessions
    assert sessions is not None
    assert sessions._warm._sessions
    assert sessions._warm._forked
    for _ in range(2):
        run.event("go")
    assert run.status == "completed"
    assert (len(sessions._warm._sessions), len(sessions._warm._forked)) == (0, 0)
    kit.close()
