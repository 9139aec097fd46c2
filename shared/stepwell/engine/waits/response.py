"""A wait for a message from a person."""

from stepwell.engine.waits.event import EventWait

RESPONSE = EventWait("response", sets={"lastResponse": ()})
