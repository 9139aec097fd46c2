"""Turns notices of a run into notifications for the endpoints that subscribed to them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from stepwell.definition.graph import Json
from stepwell.engine.names import iso
from stepwell.limits import NOTIFICATION_BYTES
from stepwell.runtime.notify.endpoints import Endpoint, Notification
from stepwell.runtime.notify.telling import Notice, notice_json, without_data
from stepwell.runtime.stores.jsontext import encode


def notifications_of(notice: Notice, endpoints: Collection[Endpoint]) -> list[Notification]:
    """Returns a notification for each endpoint that wants the notice, without data if it were too large."""
    wanting = [one.name for one in endpoints if one.wants(notice.entry.type, notice.run.workflow)]
    if not wanting:
        return []
    content = _content(notice)
    if len(encode(content).encode()) > NOTIFICATION_BYTES:
        content = _content(without_data(notice))
    return [Notification(name, _id_of(notice), content) for name in wanting]


def _content(notice: Notice) -> dict[str, Json]:
    """Returns the notice in the form that Standard Webhooks recommends."""
    return {"type": notice.entry.type, "timestamp": iso(notice.entry.at_ms), "data": notice_json(notice)}


def _id_of(notice: Notice) -> str:
    """Returns the id of the notice's notifications: a hash, as its own id has full stops.

    Those would make the signed text ambiguous. The run's time is included because a run's id may be used again when its
    retention is over.
    """
    text = f"{notice.run.created_ms} {notice.id}"
    return f"msg_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
