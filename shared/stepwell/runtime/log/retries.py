"""What the body of a message that is sent again says: that it is, how often it was put off, how often it was dead."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.graph import Json
from stepwell.runtime.log.messages import Erase, Message, Update, Wake
from stepwell.runtime.ports import Lane

PUT_OFF, REPUBLISHED = "put_off", "republished"
AGAIN = "again"  # no counter: a worker may have begun with the message, whatever its queue counts
_OF_AGAIN = (PUT_OFF, REPUBLISHED, AGAIN)


def lane_of(message: Message) -> Lane:
    """Returns the lane that carries such messages."""
    return Lane.WORK if isinstance(message, Wake | Update | Erase) else Lane.RESUME


def fresh(body: Mapping[str, Json]) -> dict[str, Json]:
    """Returns the message's body as it was first sent."""
    return {name: value for name, value in body.items() if name not in _OF_AGAIN}


def again(body: Mapping[str, Json]) -> dict[str, Json]:
    """Returns the message as one with which a worker may have begun: its first delivery counts as another."""
    return {**body, AGAIN: True}


def may_have_begun(body: Mapping[str, Json]) -> bool:
    """Tells whether a worker may have begun with the message before it was sent as it is."""
    return any(name in body for name in _OF_AGAIN)


def times(body: Mapping[str, Json], counter: str) -> int:
    """Returns the counter's value; 0 if the message has none."""
    return int(body.get(counter, 0))
