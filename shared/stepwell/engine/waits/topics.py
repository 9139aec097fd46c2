"""Topics: the meeting points of events and waits."""

from __future__ import annotations

from stepwell.definition.wait_schemas import SCHEMAS
from stepwell.engine.records import Arm, Topic
from stepwell.engine.token import Token

CALLBACK_EVENT = SCHEMAS["callback"].event


def event_topic(name: str, key: str) -> Topic:
    """Returns the topic of events for every wait for this name and key."""
    return Topic(name, f"={key}" if key else "")


def run_topic(name: str, run_id: str) -> Topic:
    """Returns the topic of events for one run only."""
    return Topic(name, f"@{run_id}")


def branch_topic(name: str, run_id: str, branch: str) -> Topic:
    """Returns the topic of events for one branch of a run only: a redrive sends them."""
    return Topic(name, f"@{run_id}/{branch}")


def callback_topic(callback: str) -> Topic:
    """Returns the topic of a callback: each has its own."""
    return Topic(CALLBACK_EVENT, f"!{callback}")


def is_callback(topic: Topic) -> bool:
    """Tells whether this is the topic of a callback."""
    return topic.name == CALLBACK_EVENT and topic.key.startswith("!")


def topics(name: str, key: str, run_id: str) -> tuple[Topic, ...]:
    """Where a wait for an event of this name and key looks: among events for anybody, and for its run alone."""
    return event_topic(name, key), run_topic(name, run_id)


def own_topics(token: Token, arm: Arm) -> list[Topic]:
    """Where a wait also looks: among events for its branch alone, if that was redriven."""
    if token.branch is None or not token.origin:
        return []
    runs = ((topic.name, run_of(topic)) for topic in arm.topics)
    return [branch_topic(name, run_id, token.id) for name, run_id in runs if run_id is not None]


def run_of(topic: Topic) -> str | None:
    """Returns the only run that can wait under this topic; None if any run can."""
    return topic.key[1:].partition("/")[0] if topic.key.startswith("@") else None


def branch_of(topic: Topic) -> str:
    """Returns the only branch that can wait under this topic; "" if any token can."""
    return topic.key.partition("/")[2] if topic.key.startswith("@") else ""
