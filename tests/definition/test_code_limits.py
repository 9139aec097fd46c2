"""Limits that the code of a folder names, and that `limits.yaml` must have."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.runtime.folder.code import check_folder_code

LIMITS = "limits: {stripe: {concurrency: 5}, mail: {concurrency: 1}}"
CODE = """
from stepwell import step, workflow

SLOW = "mial"

@step(throttle="strpie")
def charge(n: int) -> int:
    return n

async def helper(ctx):
    async with ctx.limit("strip", key="k"):
        await ctx.step(charge, 1, throttle={"limit": "letters", "key": "k"})

@workflow
async def flow(ctx, name: str):
    async with ctx.limit(SLOW), ctx.limit("stripe"), ctx.limit(name):
        await ctx.step(charge, 1, throttle="mail")
    await helper(ctx)
"""


def found(folder: Path) -> list[tuple[int, str, str]]:
    problems = [one for one in check_folder_code(folder) if one.code == "unknown_limit"]
    assert {Path(one.file).name for one in problems} <= {"flow.py"}
    return sorted((one.line, one.message.split("'")[1], one.hint) for one in problems)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flow.py").write_text(CODE, encoding="utf-8")
    return tmp_path


def test_each_name_that_limits_yaml_does_not_have_is_told_with_its_line_and_the_nearest(folder: Path) -> None:
    (folder / "limits.yaml").write_text(LIMITS, encoding="utf-8")
    assert found(folder) == [
        (6, "strpie", "did you mean `stripe`?"),
        (11, "strip", "did you mean `stripe`?"),
        (12, "letters", "known: stripe, mail"),
        (16, "mial", "did you mean `mail`?"),
    ]


def test_so_are_those_that_methods_name(folder: Path) -> None:
    (folder / "flow.py").write_text(
        "class Till:\n    async def pay(self, ctx):\n        async with ctx.limit('mial'): ...\n", encoding="utf-8"
    )
    (folder / "limits.yaml").write_text(LIMITS, encoding="utf-8")
    assert found(folder) == [(3, "mial", "did you mean `mail`?")]


def test_without_the_file_none_is_known(folder: Path) -> None:
    assert [(line, name) for line, name, _ in found(folder)][-1] == (17, "mail")
    assert len(found(folder)) == 6
    assert all(hint.startswith("add it to limits.yaml") for _, _, hint in found(folder))


def test_a_broken_file_is_told_for_itself_alone(folder: Path) -> None:
    (folder / "limits.yaml").write_text("limits: 3", encoding="utf-8")
    assert found(folder) == []


LONG = """
import stepwell
from stepwell import step, workflow

ALWAYS = "400d"

@step(timeout="400d")
def charge(n: int) -> int:
    return n

@stepwell.step(timeout="365d")
def wait_for_it() -> None: ...

@workflow
async def flow(ctx):
    await ctx.step(charge, 1, timeout=ALWAYS)
    await ctx.run(lambda: 1, timeout=34_560_000)
    await ctx.step(charge, 2, timeout="1h")
    await ctx.step(charge, 3, timeout=None)
    await ctx.step(charge, 4, timeout="soon")  # the run says so
    other(timeout="400d")
"""


def test_a_time_limit_of_a_step_over_a_year_is_named_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(LONG, encoding="utf-8")
    problems = [one for one in check_folder_code(tmp_path) if one.code == "timeout_too_long"]
    assert [(one.line, one.severity, one.hint) for one in problems] == [
        (7, "error", "at most 365d"), (16, "error", "at most 365d"), (17, "error", "at most 365d"),
    ]  # fmt: skip
    assert problems[0].message == "`timeout` of 400d is over the maximum of a step"
