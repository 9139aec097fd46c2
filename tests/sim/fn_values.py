"""The statements of a durable program, and the values that they pass on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from zlib import crc32

Statement = Mapping[str, Any]


def digest(value: Any) -> int:
    """Small, and another for another value."""
    return crc32(json.dumps(value, sort_keys=True).encode())
