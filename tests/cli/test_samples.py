"""The input in a command that is printed: one that the workflow takes."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.cli.deploying.samples import sample_of
from stepwell.definition.schemas import compile_schema


@pytest.mark.parametrize(
    ("schema", "sample"),
    [
        (None, {}),
        ({"type": "object"}, {}),
        ({"type": "object", "required": ["id", "sum"], "properties": {"id": {"type": "string"},
          "sum": {"type": "number"}, "note": {"type": "string"}}}, {"id": "text", "sum": 1}),
        ({"required": ["unknown"]}, {"unknown": "text"}),
        ({"type": ["integer", "null"]}, 1),
        ({"required": ["a"], "properties": {"a": {"enum": ["red", "blue"]}}}, {"a": "red"}),
        ({"required": ["a"], "properties": {"a": {"type": "array"}}}, {"a": []}),
        ({"type": "string", "examples": ["A-1"]}, "A-1"),
        ({"const": 7}, 7),
    ],
)  # fmt: skip
def test_a_sample_has_what_the_schema_requires_and_fits_it(schema: dict[str, Any] | None, sample: Any) -> None:
    assert sample_of(schema) == sample
    if schema:
        assert compile_schema(schema).problems(sample) == ()
