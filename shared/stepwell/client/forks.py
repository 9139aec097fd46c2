"""The forks that a run's history tells of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_FORKS = frozenset({"fork.opened", "fork.reopened"})  # a redriven run has its branches under the fork it reopened


def last_fork(entries: Iterable[Mapping[str, Any]]) -> str:
    """Returns the id of the last fork in a history, such as `0/3`; "" if there is none."""
    found = ""
    for entry in entries:
        if entry.get("type") in _FORKS:
            token, _, place = str(entry.get("id")).partition("@")  # TOKEN@SLOT.NUMBER
            found = f"{token}/{place.partition('.')[0]}"
    return found
