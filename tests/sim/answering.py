"""What is known of answered steps beside the store: when they began, and what their clients were told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What a client was told. `again`: it had asked before, and did not hear the answer."""

    callback: str
    n: int
    is_error: bool
    answer: Any  # None: accepted; else the code of the refusal
    again: bool


@dataclass
class Answering:
    """What the laws need to know of a run's answered steps and their clients."""

    calls: dict[tuple[str, int], list[int]] = field(default_factory=dict)  # (key, attempt) -> when each call began
    answers: list[Answer] = field(default_factory=list)
