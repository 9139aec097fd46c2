"""The forks that a run's history tells of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_FORKS = frozenset({"fork.opened", "fork.reopened"})  # a redriven run has its branches under the fork it reopened


def forks_of(entries: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Returns the ids of the forks in a history, such as `0/3`, each with the step that opened it, in their order."""
    found: dict[str, str] = {}
    for entry in entries:
        if entry.get("type") in _FORKS:
            token, _, place = str(entry.get("id")).partition("@")  # TOKEN@SLOT.NUMBER
            fork = f"{token}/{place.partition('.')[0]}"
            found.pop(fork, None)  # the one that was opened last comes last
            found[fork] = str(entry.get("step") or "")
    return found


def last_fork(entries: Iterable[Mapping[str, Any]]) -> str:
    """Returns the id of the last fork in a history; "" if there is none."""
    return next(reversed(forks_of(entries)), "")
