"""Lines that the code of a run logged, as `stepwell logs` shows them: from a file here, from CloudWatch on AWS."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line. Its `id` tells it from all others of the run."""

    id: str
    at_ms: int
    level: str
    step: str
    attempt: int
    message: str


ReadLines: TypeAlias = Callable[[int], Iterable[LogLine]]  # those since a time in milliseconds, in order
