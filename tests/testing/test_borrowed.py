"""What a test writes out of habit with unittest.mock is answered with what to write here."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import UserError
from stepwell.testing.borrowed import BORROWED
from stepwell.testing.kit import Stepwell


@pytest.fixture
def kit(tmp_path: Path) -> Any:
    """Its type is left open: a type checker refuses these mistakes."""
    made = Stepwell(tmp_path)
    made.define("workflow: shop\ntimeline: [{name: charge, run: python:shop.charge}]")
    return made


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("return_value", 'write stepwell.mock("charge", returns=…)'),
        ("side_effect", 'write stepwell.mock("charge", raises=ValueError("no")), or returns=a function of the input'),
        ("return", "did you mean `returns`?"),
        ("raise_", "did you mean `raises`?"),
    ],
)
def test_an_option_that_mock_does_not_have_is_refused_with_the_one_that_is_meant(
    kit: Any, option: str, hint: str
) -> None:
    with pytest.raises(UserError, match=f"mock has no option '{option}'") as refused:
        kit.mock("charge", **{option: 1})
    assert refused.value.hint == hint


def test_a_result_by_position_is_refused_with_the_call_that_is_meant(kit: Any) -> None:
    with pytest.raises(UserError, match="takes the step's name alone by position") as refused:
        kit.mock("charge", 1)
    assert refused.value.hint == "write mock('charge', returns=1)"


def test_the_options_that_mock_has_are_taken_as_before(kit: Any) -> None:
    mock = kit.mock(name="charge", returns=7, times=2)
    assert (kit.start("shop").result, mock.calls) == (7, [{}])


@pytest.mark.parametrize("name", sorted(BORROWED))
def test_what_a_mock_of_unittest_has_is_told_with_what_to_write(kit: Any, name: str) -> None:
    """Setting it too: it would have no effect."""
    mock = kit.mock("charge", returns=1)
    for use in (lambda: getattr(mock, name), lambda: setattr(mock, name, 1)):
        with pytest.raises(AttributeError) as told:
            use()
        assert str(told.value) == f"a mock of Stepwell has no {name}: write {BORROWED[name]}"


def test_another_attribute_is_missing_as_ever_and_a_mock_can_be_copied(kit: Any) -> None:
    mock = kit.mock("charge", returns=1)
    assert not hasattr(mock, "anything")
    assert copy.deepcopy(mock).returns == 1
    mock.returns = 2
    assert kit.start("shop").result == 2
