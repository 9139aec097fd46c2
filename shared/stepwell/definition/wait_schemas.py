"""The schema of each kind of wait: its keys in a definition, its time limits, its event. Standard library only.

Each kind has one row here and one file in `stepwell.engine.waits`.
"""

from __future__ import annotations

from stepwell.limits import DAY_MS, HOUR_MS, MINUTE_MS, YEAR_MS
from stepwell.values import dataclass

_OUTCOME = ("on_timeout", "max_retries", "timeout_actions")
_EVENT = ("key", "match", "data", "timeout", *_OUTCOME)


@dataclass(frozen=True, slots=True)
class WaitSchema:
    """A kind of wait that definitions and step code can use."""

    ended_by: str  # for the docs
    longest_ms: int
    timeout_ms: int | None = None  # the default
    keys: tuple[str, ...] = ()  # besides `for`; empty: `for` cannot name this kind
    event: str = ""  # the name of the event that ends it
    is_event_named: bool = False  # the definition may name another event
    is_timer: bool = False  # it waits for its time only, which must be given
    has_url: bool = False  # of the node that waits, so that no second wait of a list can be told from it


@dataclass(frozen=True, slots=True)
class SeveralSchema:
    """A wait for several things, in a list of waits."""

    keys: tuple[str, ...]
    of_the_whole: tuple[str, ...]  # keys that the waits in the list cannot have
    ends: str
    needs_each: bool


SCHEMAS: dict[str, WaitSchema] = {
    "approval": WaitSchema(
        "approve, reject",
        30 * DAY_MS,
        24 * HOUR_MS,
        ("type", "data", "timeout", "on_reject", "approvers", "escalate", *_OUTCOME),
    ),
    "response": WaitSchema("", 7 * DAY_MS, 24 * HOUR_MS, _EVENT, "MESSAGE_RECEIVED"),
    "event": WaitSchema(
        "the event it names, else `EVENT_COMPLETED`",
        30 * DAY_MS,
        24 * HOUR_MS,
        ("name", *_EVENT),
        "EVENT_COMPLETED",
        is_event_named=True,
    ),
    "document": WaitSchema("", 30 * DAY_MS, 7 * DAY_MS, ("documents", *_EVENT), "DOCUMENT_UPLOADED"),
    "signature": WaitSchema("", 30 * DAY_MS, 7 * DAY_MS, _EVENT, "SIGNATURE_COMPLETED"),
    "test": WaitSchema("", 30 * DAY_MS, 7 * DAY_MS, _EVENT, "TEST_COMPLETED"),
    "callback": WaitSchema(
        "a post to its URL",
        YEAR_MS,
        24 * HOUR_MS,
        ("data", "timeout", "heartbeat", *_OUTCOME),
        "CALLBACK_COMPLETED",
        has_url=True,
    ),
    "delay": WaitSchema("its timer", 30 * DAY_MS, keys=("timeout", "data"), is_timer=True),
    "sleep": WaitSchema("its timer", YEAR_MS, keys=("timeout", "data"), is_timer=True),
    "children": WaitSchema("the child runs", DAY_MS, 5 * MINUTE_MS),
    "workflow": WaitSchema("the child run", DAY_MS, HOUR_MS),  # a `run: workflow:name`
    "agent": WaitSchema("the agent that was triggered", DAY_MS, HOUR_MS),  # a `trigger_agent` that waits
}
SEVERAL: dict[str, SeveralSchema] = {
    "any": SeveralSchema(("any", "data", "timeout", *_OUTCOME), _OUTCOME, "the first that ends wins", needs_each=False),
    "all": SeveralSchema(
        ("all", "data", "timeout", *_OUTCOME),
        ("timeout", *_OUTCOME),
        "it ends when each of them has",
        needs_each=True,
    ),
}


def keys_of(kind: str) -> tuple[str, ...]:
    """Returns the keys that a wait of this kind may have in a definition, besides `for`."""
    return SEVERAL[kind].keys if kind in SEVERAL else SCHEMAS[kind].keys


def written_kinds() -> list[str]:
    """Returns the kinds that `for` may name, in the order of lists for people."""
    return [kind for kind, schema in SCHEMAS.items() if schema.keys]
