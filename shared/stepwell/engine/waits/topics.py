"""Topics: where events and the waits for them meet."""

from __future__ import annotations

from stepwell.definition.wait_schemas import SCHEMAS
from stepwell.engine.records import Topic

CALLBACK_EVENT = SCHEMAS["callback"].event


def event_topic(name: str, key: str) -> Topic:
    """Where an event for whoever waits for name and key meets its waits."""
    return Topic(name, f"={key}" if key else "")


def run_topic(name: str, run_id: str) -> Topic:
    """Where an event for one run alone meets that run's waits."""
    return Topic(name, f"@{run_id}")


def callback_topic(callback: str) -> Topic:
    """Where a callback meets its wait: each has a topic of its own."""
    return Topic(CALLBACK_EVENT, f"!{callback}")


def topics(name: str, key: str, run_id: str) -> tuple[Topic, ...]:
    """Where a wait for an event of this name and key looks: among events for anybody, and for its run alone."""
    return event_topic(name, key), run_topic(name, run_id)


def run_of(topic: Topic) -> str | None:
    """The run that alone can wait under this topic; None for a topic that is open to all."""
    return topic.key[1:] if topic.key.startswith("@") else None
