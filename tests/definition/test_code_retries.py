"""Retry policies that the code of a folder writes."""

from __future__ import annotations

from pathlib import Path

from stepwell.runtime.folder.code import check_folder_code

CODE = """
import stepwell as sw
from stepwell import Retry, step, workflow

SLOW = Retry(3, on=["timeuot", "CardDeclined"])

@step(retry=Retry(on=("transeint", "timeout")))
def charge(n: int) -> int:
    return n

@sw.step(retry={"max_retries": 3, "on": ["validation"]})
def check() -> None: ...

class Till:
    @step(retry=sw.Retry(1, "linear", "1s", "9s", "none", ("timeouts",)))
    def pay(self) -> None: ...

@workflow
async def flow(ctx, chosen: str):
    await ctx.step(charge, 1, retry=sw.Retry(on={"worker-lost"}))
    await ctx.step(charge, 2, retry=Retry(on=("out_of_stock", chosen)))
    await ctx.step(charge, 3, retry=Policy(on=("transeint",)))
"""


def test_a_category_that_is_misspelt_or_never_retried_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(CODE, encoding="utf-8")
    found = [one for one in check_folder_code(tmp_path) if one.code in {"unknown_category", "never_retried"}]
    assert {(Path(one.file).name, one.severity) for one in found} == {("flow.py", "warning")}
    assert sorted((one.line, one.column, one.message.split("`")[1], one.hint) for one in found) == [
        (5, 21, "timeuot", "did you mean `timeout`?"),
        (7, 23, "transeint", "did you mean `transient`?"),
        (11, 42, "validation", "remove it, or name a type of errors"),
        (15, 60, "timeouts", "did you mean `timeout`?"),
        (20, 50, "worker-lost", "did you mean `worker_lost`?"),
    ]
