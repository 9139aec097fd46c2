"""Copies are those of `dataclasses.replace`, what is made is a dataclass, and what is read lacks no field."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, replace
from typing import Any

import pytest

from stepwell.engine.copying import changed, quick
from stepwell.engine.stored.codec import decode_record
from stepwell.engine.token import Token
from stepwell.errors import EngineFault


@quick
@dataclass(frozen=True)
class Place:
    name: str
    floor: int = 0


@pytest.mark.parametrize(("args", "given"), [(("a",), {}), (("a", 2), {}), ((), {"floor": 2, "name": "a"})])
def test_what_is_made_quickly_is_that_of_dataclasses(args: tuple[Any, ...], given: dict[str, Any]) -> None:
    made = Place(*args, **given)
    assert (made.name, made.floor) == ("a", 2 if given or len(args) > 1 else 0)
    assert replace(made, floor=3) == Place("a", 3)
    with pytest.raises(FrozenInstanceError):
        made.name = "b"  # type: ignore[misc]  # it is frozen


@pytest.mark.parametrize(
    ("args", "given"), [((), {}), ((), {"floor": 1}), (("a", 1, 2), {}), (("a",), {"flor": 1}), ((), {"x": 1, "y": 2})]
)
def test_what_is_made_quickly_takes_its_fields_and_no_other(args: tuple[Any, ...], given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"Place\.__init__\(\)"):
        Place(*args, **given)


def test_a_copy_is_that_of_dataclasses() -> None:
    token = Token(node="a", scope={"x": 1})
    assert changed(token, slot=3, node="b") == replace(token, slot=3, node="b")
    assert token == Token(node="a", scope={"x": 1})


def test_a_name_that_is_no_field_is_refused() -> None:
    with pytest.raises(TypeError, match="Token has no sloth"):
        changed(Token(), sloth=3)


def test_a_record_without_its_time_is_unreadable() -> None:
    with pytest.raises(EngineFault, match=r"it cannot be read \(TypeError\)"):
        decode_record('{"slot":0,"kind":"step","by":"w"}')
