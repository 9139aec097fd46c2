"""Child runs that the code of a folder starts by a name that no workflow of the folder has."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.errors import Problem
from stepwell.runtime.folder.code import check_folder_code

CODE = """
from stepwell import workflow

@workflow(name="screening")
async def screen(ctx, order): ...

async def leg(ctx, order):
    return await ctx.child("sreening", order)

@workflow
async def flow(ctx, order, name: str):
    await ctx.child("screening", order)
    await ctx.child("packing", order)
    await ctx.child(screen, order)
    await ctx.child(name, order)
    return await ctx.child("nope", order, detached=True)
"""
PACKING = "workflow: packing\nnodes: {a: {}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flow.py").write_text(CODE, encoding="utf-8")
    (tmp_path / "packing.yaml").write_text(PACKING, encoding="utf-8")
    return tmp_path


def found(folder: Path) -> list[Problem]:
    return [one for one in check_folder_code(folder) if one.code == "unknown_workflow"]


def test_a_workflow_that_there_is_not_is_told_with_its_line_and_the_nearest(folder: Path) -> None:
    assert [(one.line, one.column, one.message, one.hint, one.severity) for one in found(folder)] == [
        (8, 28, "there is no workflow 'sreening'", "did you mean `screening`?", "error"),
        (16, 28, "there is no workflow 'nope'", "known: flow, packing, screening", "error"),
    ]


def test_nothing_is_told_while_a_file_that_may_define_it_is_broken(folder: Path) -> None:
    (folder / "nope.yaml").write_text("workflow: nope\nnodes: {a: {colour: red}}\n", encoding="utf-8")
    assert found(folder) == []


def test_a_package_beside_the_folder_may_mean_a_workflow_of_another_one(tmp_path: Path) -> None:
    flows, package = tmp_path / "workflows", tmp_path / "shop"
    flows.mkdir()
    package.mkdir()
    (flows / "packing.yaml").write_text(PACKING, encoding="utf-8")
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "legs.py").write_text("async def leg(ctx): return await ctx.child('nope')\n", encoding="utf-8")
    (problem,) = [one for one in check_folder_code(flows, [package]) if one.code == "unknown_workflow"]
    assert (Path(problem.file).name, problem.severity) == ("legs.py", "warning")
