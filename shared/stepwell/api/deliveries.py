"""The API's view of stored webhook deliveries."""

from __future__ import annotations

from typing_extensions import TypedDict

from stepwell.engine.names import iso
from stepwell.runtime.notify.deliveries import Listed


class DeliveryView(TypedDict):
    """A delivery and its outcome. `made` is the id of its event or run."""

    source: str
    id: str
    at: str
    outcome: str  # published | started | ignored | refused
    detail: str  # the event's name and key, the workflow, or the reason of a refusal
    made: str | None
    replays: list[str]  # the ids of the events or runs of its replays, oldest first
    bytes: int
    expires_at: str


class DeliveryPage(TypedDict):
    items: list[DeliveryView]
    next_cursor: str | None


class ReplayView(TypedDict, total=False):
    event_id: str
    run_id: str
    ignored: bool  # the source's current `match` is false
    replay: int  # its number


def delivery_view(listed: Listed) -> DeliveryView:
    came = listed.came
    return DeliveryView(
        source=came.source,
        id=came.id,
        at=iso(came.at_ms),
        outcome=came.outcome.value,
        detail=came.detail,
        made=came.made or None,
        replays=[one.made for one in listed.replays],
        bytes=came.size_bytes,
        expires_at=iso(came.expires_ms),
    )
