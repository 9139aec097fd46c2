"""What the package of a function holds of the workflow folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from stepwell.definition.graph import Json
from stepwell.errors import EngineFault

PACKED_FILE = "workflows.json"


def read_packed(root: Path) -> Mapping[str, Json]:
    """What `stepwell.runtime.starts.pack` wrote at deployment. Raises EngineFault when it is not there."""
    try:
        packed: Mapping[str, Json] = json.loads((root / PACKED_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise EngineFault(f"the function's package has no {PACKED_FILE}: deploy again") from error
    return packed
