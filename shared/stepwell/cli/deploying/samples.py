"""An input that a workflow takes, for the commands that Stepwell prints: what its `input_schema` requires."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_BY_TYPE: Mapping[str, Any] = {"string": "text", "integer": 1, "number": 1, "boolean": True, "array": [], "null": None}


def sample_of(schema: Mapping[str, Any] | None) -> Any:
    """Returns a value with what the schema requires: its own example where it has one, else a plain value."""
    if not schema:
        return {}
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    for key in ("examples", "enum"):
        if schema.get(key):
            return schema[key][0]
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind != "object":
        return _BY_TYPE.get(kind)
    parts = schema.get("properties", {})
    return {name: sample_of(parts.get(name, {"type": "string"})) for name in schema.get("required", ())}
