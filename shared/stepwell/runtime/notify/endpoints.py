"""The endpoints of outgoing webhooks, and their notifications: a notification is one notice for one endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from stepwell.definition.graph import Json


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Who is told, of which events and of which workflows' runs; None: of all of them."""

    name: str
    url: str
    references: tuple[str, ...]  # of the secrets that a notification is signed with
    events: frozenset[str]
    workflows: frozenset[str] | None = None

    def wants(self, event: str, workflow: str) -> bool:
        return event in self.events and (self.workflows is None or workflow in self.workflows)


@dataclass(frozen=True, slots=True)
class Notification:
    """What an endpoint is to be sent. `id` is the same in each try, and whenever the notice is told again."""

    endpoint: str
    id: str
    content: Json
    tries: int = 0
    refusals: int = 0  # those of them that the endpoint refused
    at_ms: int = 0  # not before


def endpoints_of(document: Mapping[str, Json] | None) -> dict[str, Endpoint]:
    """The endpoints of a `webhooks.yaml` that was checked, by name; None: there are none."""
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
    """As a queue carries it."""
    return asdict(notification)


def notification_of(message: Mapping[str, Json]) -> Notification:
    """Raises TypeError for a message that is no notification."""
    return Notification(**message)
