"""Reads the workflow folder's data from a function's package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from stepwell.definition.graph import Json
from stepwell.errors import EngineFault
from stepwell.settings import read_deployment

PACKED_FILE = "workflows.json"


def package_root() -> Path:
    """Returns the folder of the function's package."""
    return read_deployment().root


def read_packed(root: Path) -> Mapping[str, Json]:
    """Reads the packed workflows. Raises EngineFault if it is missing."""
    try:
        packed: Mapping[str, Json] = json.loads((root / PACKED_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise EngineFault(f"the function's package has no {PACKED_FILE}: deploy again") from error
    return packed
