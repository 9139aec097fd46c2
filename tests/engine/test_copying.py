"""Copies are those of `dataclasses.replace`, and what is read lacks no field."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepwell.engine.codec import decode_record
from stepwell.engine.copying import changed
from stepwell.engine.token import Token
from stepwell.errors import EngineFault


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
