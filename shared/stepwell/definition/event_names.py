"""Event names that only Stepwell sends. Standard library only."""

from __future__ import annotations

OWN_EVENTS = frozenset({"SCHEDULE_REACHED", "AGENT_COMPLETED"})  # a timer's and a child run's end
OWN_PREFIX = "stepwell."  # for data that is stored as an event and never sent
OWN_PREFIXES = ("governance.", OWN_PREFIX)


def is_own(name: str) -> bool:
    """Returns whether only Stepwell itself sends events of this name."""
    return name in OWN_EVENTS or name.startswith(OWN_PREFIXES)
