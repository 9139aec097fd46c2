"""Event names that only Stepwell sends. Standard library only."""

from __future__ import annotations

AGENT_ENDED = "AGENT_COMPLETED"  # an agent's run ended; the key is the run's id
SCHEDULE_FIRED = "SCHEDULE_REACHED"  # a schedule's time came; the key is the schedule's name
OWN_EVENTS = frozenset({SCHEDULE_FIRED, AGENT_ENDED})
OWN_PREFIX = "stepwell."  # of what is kept as an event, and never sent
OWN_PREFIXES = ("governance.", OWN_PREFIX)


def is_own(name: str) -> bool:
    """Returns whether only Stepwell itself sends events of this name."""
    return name in OWN_EVENTS or name.startswith(OWN_PREFIXES)
