"""A stored history against today's code: what fits it, and how it is told what does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepwell.errors import NotFound, UserError
from stepwell.local.replaying import exported, read_exports, replay
from stepwell.testing.kit import Run, Stepwell
from stepwell.testing.replays import assert_replays

CODE = """
from stepwell import step, workflow

@step
def double(n: int) -> int:
    assert not REPLAYED, "a replay runs no step"
    return n * 2

REPLAYED = False

async def twice(ctx, n: int) -> int:
    first = await ctx.step(double, n)
    return first + await ctx.step(double, first)

@workflow
async def order(ctx, n: int = 1, lives: int = 0) -> int:
    found = await ctx.step(double, n)
    if lives:
        return ctx.continue_as(order, n, lives - 1)
    a, b = await ctx.all(twice(ctx, 1), twice(ctx, 2))
    await ctx.map(double, [1, 2, 3])
    ctx.log.info(ctx.callback(name="shipped").url)
    await ctx.event("paid")
    return found + a + b
"""


BEGIN = "tasks that begin"


def folder_of(path: Path, code: str) -> Path:
    path.mkdir()
    (path / f"shop_{path.name}.py").write_text(code)
    return path


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Of three lives, with branches, waiting for an event."""
    run = Stepwell(folder_of(tmp_path / "old", CODE)).start("order", {"lives": 2})
    assert run.waiting_for == "event"
    return run


def told(run: Run, folder: Path, *changes: tuple[str, str]) -> str:
    """What a replay says of code that was changed so."""
    code = CODE.replace("REPLAYED = False", "REPLAYED = True")
    for before, after in changes:
        assert before in code
        code = code.replace(before, after)
    name = run.export()[0]["definition"]["function"].rpartition(".")[0].removeprefix("python:")
    folder.mkdir()
    (folder / f"{name}.py").write_text(code)
    return str(replay(exported(run.export(), "a run"), folder)).removeprefix(f"{run.id} (order) ")


def test_a_run_that_waits_replays_and_says_what_it_awaits(run: Run, tmp_path: Path) -> None:
    assert told(run, tmp_path / "new") == "replays: 11 operations, would now await event paid"


def test_an_export_that_another_program_has_written_anew_is_read(run: Run, tmp_path: Path) -> None:
    """Such as jq, which escapes no separator of lines but the line feed."""
    first, *others = run.export()
    tags = {"note": "one\u2028two\x85three"}
    lines = [{**first, "run": {**first["run"], "tags": tags}}, *others]
    (tmp_path / "run.jsonl").write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n")
    (export,) = read_exports(tmp_path / "run.jsonl")
    assert (export.run["tags"], len(export.logs)) == (tags, len({line["token"] for line in others}))


def test_a_run_that_ended_replays_to_its_end(run: Run, tmp_path: Path) -> None:
    run.event("paid")
    assert run.status == "completed"
    assert told(run, tmp_path / "new") == "replays: 12 operations, then return, as it did"


def test_what_the_replay_of_a_run_writes_and_performs_is_nothing(run: Run) -> None:
    before = run.export()
    (replayed,) = run._kit.replay(run)
    assert (replayed.difference, run.export()) == (None, before)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (('ctx.event("paid")', 'ctx.event("settled")'), "record 14: expected event paid, came event settled"),
        (("    await ctx.map(double, [1, 2, 3])\n", ""), "record 12: expected all double, came event paid"),
        (("[1, 2, 3]", "[1, 2]"), "record 12: expected all double of 3, came all double of 2"),
        (("found = await", "await ctx.sleep(1); found = await"), "record 0: expected step double, came sleep"),
        (("if lives:", "if lives > 1:"), "record 3: expected begin anew, came await step double, step double"),
        (("return first + await ctx.step(double, first)", "return 3"),
         f"record 7: expected {BEGIN} step double, came {BEGIN} nothing"),
        (("return first +", "await ctx.sleep(1); return"),
         f"record 7: expected {BEGIN} step double, came {BEGIN} sleep"),
        (("@workflow\n", ""), "version_gone: python:shop_old.order is not the workflow order any more"),
    ],
)  # fmt: skip
def test_the_first_difference_is_told_with_both_sides(
    run: Run, tmp_path: Path, change: tuple[str, str], difference: str
) -> None:
    assert told(run, tmp_path / "new", change).removeprefix("differs: ").startswith(difference)


def test_what_is_new_behind_a_patch_fits(run: Run, tmp_path: Path) -> None:
    patched = ("await ctx.event", "if ctx.patched('nap'): await ctx.sleep(1)\n    await ctx.event")
    assert told(run, tmp_path / "new", patched).startswith("replays")


CANCELLED = """
from stepwell import step, workflow

@step
def book(n: int) -> int:
    return n

@workflow
async def tidy(ctx):
    try:
        await ctx.step(book, 1)
        await ctx.event("never")
    finally:
        await ctx.step(book, 2)
"""


def test_a_cancelled_run_replays_with_what_it_cleaned_up(tmp_path: Path) -> None:
    kit = Stepwell(folder_of(tmp_path / "cancels", CANCELLED))
    run = kit.start("tidy")
    run.cancel()
    assert run.status == "cancelled"
    assert [one.operations for one in kit.replay(run)] == [2]


def test_a_run_that_was_terminated_and_one_that_has_no_record_replay(tmp_path: Path) -> None:
    kit = Stepwell(folder_of(tmp_path / "ends", CANCELLED))
    run, idle = kit.start("tidy"), kit.start("tidy", create_only=True)
    assert run.status == "waiting"
    run.terminate()
    assert str(kit.replay(run)[0]).endswith("1 operation, failed where it would await event never")
    assert str(kit.replay(idle)[0]).endswith("0 operations, would now await step book")


def test_a_branch_that_has_not_begun_is_no_matter(tmp_path: Path) -> None:
    kit = Stepwell(folder_of(tmp_path / "old", CODE.replace("n * 2", "1 / 0")))
    run = kit.start("order")
    assert run.status == "failed"
    assert [str(one) for one in kit.replay(run)] == [
        f"{run.id} (order) replays: 1 operation, then raise ZeroDivisionError, as it did"
    ]


def test_a_test_replays_all_exports_of_a_folder(run: Run, tmp_path: Path) -> None:
    exports = tmp_path / "exports"
    exports.mkdir()
    lines = [json.dumps(line) for line in run.export()]
    (exports / "one.jsonl").write_text("\n".join(lines) + "\n")
    assert [one.operations for one in assert_replays(tmp_path / "old", exports)] == [11]
    assert run._kit.replay(exports / "one.jsonl")[0].run_id == run.id
    other = folder_of(tmp_path / "older", CODE.replace("twice(ctx, 1), ", ""))
    (other / "shop_older.py").rename(other / "shop_old.py")
    with pytest.raises(
        AssertionError, match="expected tasks that begin step double, step double, came tasks that begin step double"
    ):
        assert_replays(other, exports)


TASKS_OF_LIVES = """
import asyncio
from stepwell import step, workflow

@step
def double(n: int) -> int:
    return n * 2

async def late(ctx, n):
    await ctx.all(ctx.step(double, n), ctx.sleep(2))
    return await ctx.event("never")

@workflow
async def order(ctx, lives: int = 2) -> int:
    left = asyncio.create_task(late(ctx, lives))
    await asyncio.gather(ctx.step(double, lives), ctx.sleep(3))
    left.cancel()
    return ctx.continue_as(order, lives - 1) if lives else lives
"""


def test_a_run_that_began_anew_after_tasks_replays(tmp_path: Path) -> None:
    """Each life's tasks are those of the code as it began them, and not of the life that the run is in."""
    kit = Stepwell(folder_of(tmp_path / "old", TASKS_OF_LIVES))
    run = kit.start("order")
    kit.advance("4s")
    assert run.status == "running"
    assert [one.difference for one in kit.replay(run)] == [None]
    kit.advance("10s")
    assert run.status == "completed"
    assert [one.difference for one in kit.replay(run)] == [None]
    assert run._kit.replay(run)[0].stands == "then return, as it did"


def test_tasks_of_an_earlier_life_that_differ_are_told(tmp_path: Path) -> None:
    kit = Stepwell(folder_of(tmp_path / "old", TASKS_OF_LIVES))
    run = kit.start("order")
    kit.advance("4s")
    exported_run = exported(run.export(), "a run")
    other = folder_of(tmp_path / "new", TASKS_OF_LIVES.replace("(double, lives), ctx.sleep(3)", "(double, lives)"))
    (other / "shop_new.py").rename(other / "shop_old.py")
    assert f"record 0: expected {BEGIN} all, step double, sleep" in str(replay(exported_run, other))


def test_what_is_no_export_says_so(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    with pytest.raises(NotFound, match="there is no export"):
        assert_replays(tmp_path, file)
    file.write_text('{"format": "other"}\n')
    with pytest.raises(UserError, match="its format is 'other'"):
        assert_replays(tmp_path, file)


def test_runs_of_graphs_are_not_replayed(tmp_path: Path) -> None:
    kit = Stepwell(tmp_path)
    kit.define("workflow: flow\ntimeline: [{name: nap, sleep: 60s}]")
    run = kit.start("flow")
    with pytest.raises(UserError, match="a replay needs a durable function"):
        replay(exported(run.export(), "a run"), tmp_path)
    with pytest.raises(AssertionError, match="none of the exports"):
        kit.replay(run)
