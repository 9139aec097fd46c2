"""What a schedule gives its runs, and what the function takes that they begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.cli.folder.checking import check_path

STEPS = "def list_shops(day: str, ctx) -> list: ...\ndef plain(schedule, scheduled_at, day=''): ...\n"
GRAPH = """\
workflow: nightly
triggers:
  - {event: asked}
  - {schedule: 0 2 * * *%s}
nodes:
  list: {run: python:etl.%s, timeout: 1m%s}
"""
FUNCTION = """
from stepwell import WorkflowContext, workflow

@workflow(triggers=[{"schedule": "0 2 * * *"%s}])
async def nightly(ctx: WorkflowContext, %s) -> None: ...
"""
DAY = ', input: {day: "{{ event.scheduled_at }}"}'


def found_in(folder: Path) -> list[tuple[str, int, str]]:
    problems = check_path(folder)[1]
    return [(Path(one.file).name, one.line, one.message) for one in problems if one.code == "unfit_schedule"]


@pytest.mark.parametrize(
    ("given", "name", "step"),
    [
        (DAY, "list_shops", ""),
        ("", "list_shops", ", input: {day: '{{ input.scheduled_at }}'}"),
        ("", "plain", ""),
    ],
)
def test_a_schedule_may_give_what_the_first_step_takes(tmp_path: Path, given: str, name: str, step: str) -> None:
    (tmp_path / "etl.py").write_text(STEPS)
    (tmp_path / "nightly.yaml").write_text(GRAPH % (given, name, step))
    assert [one for one in found_in(tmp_path) if "schedule" in one[2]] == []


def test_a_schedule_that_lacks_what_the_first_step_takes_is_an_error_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "etl.py").write_text(STEPS)
    (tmp_path / "nightly.yaml").write_text(GRAPH % ("", "list_shops", ""))
    message = (
        "no run of the schedule 0 2 * * * can begin: list_shops needs 'day', and its input has schedule, scheduled_at"
    )
    assert found_in(tmp_path) == [("nightly.yaml", 4, message)]


@pytest.mark.parametrize(
    ("given", "parameters", "is_told"),
    [
        ("", "day: str", True),
        (', "input": {"day": "{{ event.scheduled_at }}"}', "day: str", False),
        ("", "day: str = ''", False),
        ("", "scheduled_at: str", False),
        ("", "event: dict", False),
    ],
)
def test_so_is_one_that_lacks_a_parameter_of_a_function(
    tmp_path: Path, given: str, parameters: str, is_told: bool
) -> None:
    (tmp_path / "etl.py").write_text(FUNCTION % (given, parameters))
    message = (
        "no run of the schedule 0 2 * * * can begin: nightly needs 'day', and its input has schedule, scheduled_at"
    )
    assert found_in(tmp_path) == ([("etl.py", 5, message)] if is_told else [])
