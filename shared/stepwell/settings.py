"""What the environment says, read here and nowhere else in the package.

| variable | means | default |
|---|---|---|
| `STEPWELL_URL` | the API that the command line talks to | `http://127.0.0.1:8787` |
| `STEPWELL_DATA` | where `stepwell dev` keeps its data | `.stepwell` |
| `STEPWELL_LOG_LEVEL` | `debug`, `info`, `warning` or `error` | `info` |
| `NO_COLOR` | anything: no colours (no-color.org) | |
| `USER`, `USERNAME` | who approves, rejects, cancels, unless `--by` says so | |
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stepwell.errors import UserError

DEFAULT_PORT = 8787
DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a process."""

    url: str = DEFAULT_URL
    no_color: bool = False
    log_level: str = "info"
    data_dir: Path = Path(".stepwell")
    user: str = ""


def read_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """Raises UserError `bad_setting` for a value that cannot be. An empty variable counts as one that is not set."""
    log_level = environ.get("STEPWELL_LOG_LEVEL", "").lower() or "info"
    if log_level not in LOG_LEVELS:
        raise UserError(
            f"STEPWELL_LOG_LEVEL is {log_level[:40]!r}", code="bad_setting", hint=f"one of {', '.join(LOG_LEVELS)}"
        )
    return Settings(
        url=environ.get("STEPWELL_URL", "").strip() or DEFAULT_URL,
        no_color=bool(environ.get("NO_COLOR")),
        log_level=log_level,
        data_dir=Path(environ.get("STEPWELL_DATA", "") or ".stepwell"),
        user=environ.get("USER", "") or environ.get("USERNAME", ""),
    )
