"""Lines that a run's code logged: kept in a file here, in CloudWatch Logs on AWS; read page by page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line. Its `id` is unique within the run."""

    id: str
    at_ms: int
    level: str
    step: str
    attempt: int
    message: str


@dataclass(frozen=True, slots=True)
class Asked:
    """Which lines of a run to read. `until_ms`: none was logged after it; None: the run may log more."""

    run_id: str
    since_ms: int
    until_ms: int | None
    limit: int
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class LogPage:
    """A page of lines. It may have no lines but a cursor: there is more to search."""

    lines: Sequence[LogLine]
    next_cursor: str = ""


class RunLogs(Protocol):
    """The store of the lines. Raises PortError; InvalidInput `bad_cursor`."""

    async def read(self, asked: Asked) -> LogPage: ...


class NoRunLogs:
    """Stands in for a process that keeps no lines."""

    async def read(self, asked: Asked) -> LogPage:
        return LogPage(())
