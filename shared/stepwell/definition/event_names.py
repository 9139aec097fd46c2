"""Event names: those of the table of waits, and those that only Stepwell sends. Standard library only."""

from __future__ import annotations

WAITED_FOR = {
    "response": "MESSAGE_RECEIVED",
    "document": "DOCUMENT_UPLOADED",
    "signature": "SIGNATURE_COMPLETED",
    "test": "TEST_COMPLETED",
    "event": "EVENT_COMPLETED",  # the default of a wait without a name
    "callback": "CALLBACK_COMPLETED",
}
OWN_EVENTS = frozenset({"SCHEDULE_REACHED", "AGENT_COMPLETED"})  # a timer's and a child run's end
OWN_PREFIX = "stepwell."  # for data that is stored as an event and never sent
OWN_PREFIXES = ("governance.", OWN_PREFIX)


def is_own(name: str) -> bool:
    """Returns whether only Stepwell itself sends events of this name."""
    return name in OWN_EVENTS or name.startswith(OWN_PREFIXES)
