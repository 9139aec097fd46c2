"""The names of events: those of the table of waits, and those that only Stepwell sends. Standard library only."""

from __future__ import annotations

WAITED_FOR = {
    "response": "MESSAGE_RECEIVED",
    "document": "DOCUMENT_UPLOADED",
    "signature": "SIGNATURE_COMPLETED",
    "test": "TEST_COMPLETED",
    "event": "EVENT_COMPLETED",  # where the wait gives no name of its own
    "callback": "CALLBACK_COMPLETED",
}
OWN_EVENTS = frozenset({"SCHEDULE_REACHED", "AGENT_COMPLETED"})  # a timer's and a child run's end
OWN_PREFIX = "stepwell."  # of what is kept as an event, and never sent
OWN_PREFIXES = ("governance.", OWN_PREFIX)


def is_own(name: str) -> bool:
    """Whether only Stepwell itself sends events of this name."""
    return name in OWN_EVENTS or name.startswith(OWN_PREFIXES)
