"""Lines that the code of a run logged: kept in a file here, in CloudWatch Logs on AWS; read page by page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line. Its `id` tells it from all others of the run."""

    id: str
    at_ms: int
    level: str
    step: str
    attempt: int
    message: str


@dataclass(frozen=True, slots=True)
class Asked:
    """Which lines of a run are asked for. `until_ms`: none was logged after it; None: the run may log more."""

    run_id: str
    since_ms: int
    until_ms: int | None
    limit: int
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class LogPage:
    """Lines of a page. It may have none and a cursor: there is more to look through."""

    lines: Sequence[LogLine]
    next_cursor: str = ""


class RunLogs(Protocol):
    """Where the lines are. Raises PortError; InvalidInput `bad_cursor`."""

    async def read(self, asked: Asked) -> LogPage: ...


class NoRunLogs:
    """Of a process that keeps none."""

    async def read(self, asked: Asked) -> LogPage:
        return LogPage(())
