"""Lines that a run's code logged: kept in a file here, in CloudWatch Logs on AWS; read page by page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from stepwell.engine.records import ROOT
from stepwell.values import dataclass

_BRANCH = re.compile(rf"{ROOT}(/\d+\.\d+)+", re.ASCII)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line. Its `id` is unique within the run. `branch`: whose code logged it; "" if it is the run's own."""

    id: str
    at_ms: int
    level: str
    step: str
    attempt: int
    message: str
    branch: str = ""


def branch_of(token: object) -> str:
    """Returns the branch that a line is of, by the token that it names; "" for the run's own, and for what is none."""
    return token if isinstance(token, str) and _BRANCH.fullmatch(token) else ""


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
