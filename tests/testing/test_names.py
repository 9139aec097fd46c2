"""A name that no step has is refused, so that the real step does not run unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.errors import UserError
from stepwell.testing.kit import Stepwell
from stepwell.testing.verify import verify

LETTER = """
workflow: letter
failure_policy: compensate
timeline:
  - {name: draft, run: python:post.write, compensate: {run: python:post.burn}}
  - {name: ask, wait: {for: approval, timeout: 1d, timeout_actions: [{run: python:post.remind}]}}
  - {name: send, run: python:post.mail}
"""
POST = "def write(): return 1\ndef burn(): return 1\ndef remind(): return 1\ndef mail(): return 1\n"
FUNCTION = """
from stepwell import step, workflow
from shelf import fetch

@step
def look(number: int) -> int:
    return number

@step
def mend() -> int:
    return 0

@workflow
async def repair(ctx, count: int = 2):
    for number in range(count):
        await ctx.step(look, number, name=f"look-{number}")
    await ctx.run(fetch)
    if count > 5:
        await ctx.step(mend, name="mend-it")
"""


@pytest.fixture
def letter(tmp_path: Path) -> Path:
    (tmp_path / "letter.yaml").write_text(LETTER)
    (tmp_path / "post.py").write_text(POST)
    return tmp_path


@pytest.fixture
def repair(tmp_path: Path) -> Path:
    (tmp_path / "repair.py").write_text(FUNCTION)
    (tmp_path / "shelf.py").write_text("def fetch():\n    return 1\n")
    return tmp_path


def test_a_mock_of_no_step_of_the_definitions_is_refused_at_once(letter: Path) -> None:
    with pytest.raises(UserError, match=r"mock: no step is called 'sendd' \(did you mean `send`\?\)") as refused:
        Stepwell(letter).mock("sendd")
    assert refused.value.code == "no_such_name"


@pytest.mark.parametrize("name", ["draft", "write", "python:post.write", "draft.compensate", "burn", "remind", "mail"])
def test_a_mock_may_have_each_name_of_a_step(letter: Path, name: str) -> None:
    kit = Stepwell(letter)
    kit.mock(name)
    kit.close()


def test_a_mock_may_come_before_the_workflow_is_defined(tmp_path: Path) -> None:
    kit = Stepwell(tmp_path)
    kit.mock("write")
    kit.define(LETTER)
    kit.close()
    kit = Stepwell(tmp_path)
    kit.mock("wriet")
    kit.define(LETTER)
    with pytest.raises(UserError, match="did you mean `write`"):
        kit.close()


def test_a_mock_that_no_step_of_a_function_had_is_refused_at_the_end(repair: Path) -> None:
    kit = Stepwell(repair)
    kit.mock("lok")
    assert kit.start("repair").status == "completed"
    with pytest.raises(UserError, match="did you mean `look`"):
        kit.close()


@pytest.mark.parametrize("name", ["look", "look-1", "fetch", "mend", "mend-it"])
def test_a_mock_may_have_a_name_that_only_the_function_tells(repair: Path, name: str) -> None:
    """Also one that this run did not come to."""
    kit = Stepwell(repair)
    kit.mock(name, returns=1)
    assert kit.start("repair").status == "completed"
    kit.close()


@pytest.mark.parametrize("given", [{"fails": ["wriet"]}, {"steps": {"wriet": 1}}])
def test_verify_refuses_a_name_that_no_step_has(letter: Path, given: dict[str, object]) -> None:
    with pytest.raises(UserError, match="did you mean `write`"):
        verify(letter, "letter", approve_all=True, **given)  # type: ignore[arg-type]  # its options are given by name


def test_verify_refuses_a_name_that_no_step_of_a_function_had(repair: Path) -> None:
    assert verify(repair, "repair", fails=["look-1"], shuffles=1).verdict
    with pytest.raises(UserError, match="no step is called 'look-7'"):
        verify(repair, "repair", fails=["look-7"], shuffles=1)
