"""What pytest reports of a wrong folder or a wrong call: the message, and the user's own line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stepwell import wait_for_event
from stepwell.errors import UserError
from stepwell.testing.kit import Stepwell

FLOW = """
workflow: order
triggers: [{event: ordered}]
timeline:
  - {name: ask, wait: {any: [{for: event, name: paid, timeout: 1h}, {for: event, name: refused, timeout: 1h}]}}
"""
TEST = """
def test_order(stepwell):
    stepwell.mock("shipp", returns=1)
"""


def reported(folder: Path, flow: str, test: str = TEST) -> str:
    """What pytest prints of a test in a folder with this definition."""
    (folder / "workflows").mkdir()
    (folder / "workflows" / "order.yaml").write_text(flow)
    (folder / "workflows" / "shop.py").write_text('def ship(item):\n    raise ValueError("no stock of " + item)\n')
    (folder / "test_order.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", "."]
    return subprocess.run(  # noqa: S603
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    ).stdout


def test_a_broken_definition_is_reported_as_check_does_without_stepwells_code(tmp_path: Path) -> None:
    told = reported(tmp_path, "workflow: order\ntimeline: [{nme: ask}]\n")
    assert "order.yaml:2:" in told
    assert "unknown_key: unknown key `nme`" in told
    assert "testing/kit.py" not in told
    assert "testing/plugin.py" not in told


def test_a_wrong_call_is_reported_at_its_own_line(tmp_path: Path) -> None:
    told = reported(tmp_path, FLOW)
    assert "no step is called 'shipp'" in told
    assert '>   stepwell.mock("shipp", returns=1)' in told.replace(">       ", ">   ")
    assert "testing/kit.py" not in told
    assert "testing/names.py" not in told


@pytest.mark.parametrize(
    ("mocked", "lines"),
    [("", ['shop.py", line 2, in ship']), ('stepwell.mock("ship", raises=ValueError("no stock of cups"))', [])],
)
def test_the_log_of_a_failed_step_has_the_lines_of_the_users_code_alone(
    tmp_path: Path, mocked: str, lines: list[str]
) -> None:
    flow = "workflow: order\ntimeline: [{name: ship, run: python:shop.ship, timeout: 1m}]\n"
    told = reported(tmp_path, flow, f"def test_order(stepwell):\n    {mocked}\n"
                    "    assert stepwell.start('order', {'item': 'cups'}).status == 'completed'\n")  # fmt: skip
    assert "ship failed: ValueError: no stock of cups" in told
    assert [line.strip().rpartition("workflows/")[2] for line in told.splitlines() if "  File " in line] == lines


@pytest.mark.parametrize("name", ["paid", "refused", "ordered"])
def test_an_event_that_something_may_take_is_sent(tmp_path: Path, name: str) -> None:
    kit = Stepwell(tmp_path)
    kit.define(FLOW)
    kit.event(name)


def test_an_event_that_nothing_can_take_is_refused(tmp_path: Path) -> None:
    """It did nothing, and the test failed later, at another place."""
    kit = Stepwell(tmp_path)
    kit.event("early")  # nothing is defined yet
    kit.define(FLOW)
    run = kit.start("order")
    with pytest.raises(UserError, match="no event is called 'payd'") as refused:
        kit.event("payd")
    assert refused.value.hint == "did you mean `paid`?"
    assert run.waiting_for is not None


def test_a_durable_function_may_wait_for_any_event(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(
        "from stepwell import workflow\n@workflow\nasync def flow(ctx, name: str):\n    return await ctx.event(name)\n"
    )
    kit = Stepwell(tmp_path)
    kit.event("anything")
    kit.close()


STEP = "workflow: order\ntimeline: [{name: pay, run: python:shop.pay}]\n"


def test_a_step_may_wait_for_any_event(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from stepwell import wait_for_event\n\ndef pay():\n    return wait_for_event('paid')\n"
    )
    kit = Stepwell(tmp_path)
    kit.define(STEP)
    run = kit.start("order")
    kit.event("paid")
    assert run.status == "completed"
    kit.close()


@pytest.mark.parametrize("returns", [wait_for_event("paid"), lambda given: wait_for_event("paid")])
def test_so_may_a_mock(tmp_path: Path, returns: object) -> None:
    kit = Stepwell(tmp_path)
    kit.define(STEP)
    kit.mock("pay", returns=returns)
    run = kit.start("order")
    kit.event("paid")
    assert run.status == "completed"


def test_a_run_of_an_earlier_version_waits_for_what_that_one_names(tmp_path: Path) -> None:
    kit = Stepwell(tmp_path)
    kit.define(FLOW)
    run = kit.start("order")
    assert run.status == "waiting"
    kit.define(FLOW.replace("paid", "billed"))
    kit.event("paid")
    assert run.status == "completed"
