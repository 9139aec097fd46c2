"""Steps that a definition names without a module are looked for in the code of its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.cli.folder.checking import check_path

STEPS = """
from stepwell import step
from shop.mail import notify
@step
def charge(): ...
@step(name="send_message")
def send(): ...
def plain(): ...
"""
MAIL = """
from stepwell import step
@step
def notify(): ...
@step(name="call-up")
def phone(): ...
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workflow folder in a project with a package."""
    (tmp_path / "pyproject.toml").write_text("[tool.stepwell]\npackages = ['shop']\n")
    for name, text in (("shop/mail.py", MAIL), ("shop/__init__.py", ""), ("workflows/steps.py", STEPS)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "workflows"


def hints(folder: Path, text: str) -> list[tuple[int, str]]:
    (folder / "w.yaml").write_text(text)
    found = check_path(folder)[1]
    assert {(one.code, one.severity) for one in found} <= {("unknown_step_name", "warning")}, found
    return [(one.line, one.hint) for one in found]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("charge", ""),
        ("send_message", ""),
        ("notify", ""),
        ("send_mesage", "did you mean `send_message`?"),
        ("plain", "mark it with @step, or write python:steps.plain"),
        ("steps.charge", "write python:steps.charge"),
        ("call-up", "write python:shop.mail.phone; a step goes by its name only in the modules of the workflow folder"),
    ],
)
def test_a_step_that_is_named_is_looked_for_in_the_folder(folder: Path, name: str, hint: str) -> None:
    found = hints(folder, f"workflow: w\nsteps:\n  - {{name: a, agent: {name}, timeout: 1m}}\n")
    assert found == ([(3, hint)] if hint else [])


def test_actions_time_outs_and_compensations_name_steps_too(folder: Path) -> None:
    """The types of actions that Stepwell has are no names of steps, nor are the agents that it runs."""
    text = """
agent: w
failure_policy: compensate
actions:
  - {actionType: chrage, timeout: 1m, compensate: {run: unchrage, timeout: 1m}}
  - actionType: wait_for_response
    parameters: {threadId: 1, timeoutActions: [{actionType: sent_message, timeout: 1m}]}
  - {actionType: trigger_agent, parameters: {agent: w}}
"""
    assert [line for line, _ in hints(folder, text.strip())] == [4, 4, 6]


@pytest.mark.parametrize(
    "more", ["from installed_steps import *", "from stepwell import step\nother = step(name='x')(print)", "def f(:"]
)
def test_nothing_is_said_where_the_code_may_make_other_steps(folder: Path, more: str) -> None:
    (folder / "more.py").write_text(more)
    (folder / "w.yaml").write_text("workflow: w\nsteps: [{name: a, agent: whoever, timeout: 1m}]")
    assert "unknown_step_name" not in {one.code for one in check_path(folder)[1]}


def test_a_name_that_two_steps_have_is_told(folder: Path) -> None:
    (folder / "more.py").write_text('from stepwell import step\n@step(name="charge")\ndef charge_again(): ...\n')
    (folder / "w.yaml").write_text("workflow: w\nsteps:\n  - {name: a, agent: charge, timeout: 1m}\n")
    (found,) = check_path(folder)[1]
    assert (found.code, found.severity, found.line) == ("ambiguous_step_name", "warning", 3)
    assert found.message == "2 steps are named `charge`: python:more.charge_again, python:steps.charge"
