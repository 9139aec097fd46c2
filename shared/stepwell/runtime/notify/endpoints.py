"""The endpoints of outgoing webhooks, and their notifications: a notification is one notice for one endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from stepwell.definition.graph import Json
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A subscriber: its URL, its events, and the workflows whose runs it is told about; None: all workflows."""

    name: str
    url: str
    references: tuple[str, ...]  # of the secrets that sign its notifications
    events: frozenset[str]
    workflows: frozenset[str] | None = None

    def wants(self, event: str, workflow: str) -> bool:
        return event in self.events and (self.workflows is None or workflow in self.workflows)


@dataclass(frozen=True, slots=True)
class Notification:
    """A message for an endpoint. `id` is the same in each try, and each time the notice is told."""

    endpoint: str
    id: str
    content: Json
    tries: int = 0
    refusals: int = 0  # the tries that the endpoint refused
    at_ms: int = 0  # the earliest time of the next try


def endpoints_of(document: Mapping[str, Json] | None) -> dict[str, Endpoint]:
    """Returns the endpoints of a checked `webhooks.yaml` by name; none for None."""
    given: Mapping[str, Mapping[str, Json]] = document["out"] if document else {}
    return {
        name: Endpoint(
            name,
            one["url"],
            tuple(one["secret"]),
            frozenset(one["events"]),
            None if one["workflows"] is None else frozenset(one["workflows"]),
        )
        for name, one in given.items()
    }


def notification_json(notification: Notification) -> dict[str, Json]:
    """Returns the notification as a queue carries it."""
    return asdict(notification)


def notification_of(message: Mapping[str, Json]) -> Notification:
    """Decodes a notification. Raises TypeError for a message that is none."""
    return Notification(**message)
