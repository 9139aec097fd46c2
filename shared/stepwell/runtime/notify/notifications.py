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
    """One for each endpoint that wants the notice, without its data where that would make it too large."""
    wanting = [one.name for one in endpoints if one.wants(notice.entry.type, notice.run.workflow)]
    if not wanting:
        return []
    content = _content(notice)
    if len(encode(content).encode()) > NOTIFICATION_BYTES:
        content = _content(without_data(notice))
    return [Notification(name, _id_of(notice), content) for name in wanting]


def _content(notice: Notice) -> dict[str, Json]:
    """In the form that Standard Webhooks recommends."""
    return {"type": notice.entry.type, "timestamp": iso(notice.entry.at_ms), "data": notice_json(notice)}


def _id_of(notice: Notice) -> str:
    """A notice's own id has full stops, which would make the signed text ambiguous. With the run's time, because a
    run's id may be another run's when its retention is over."""
    text = f"{notice.run.created_ms} {notice.id}"
    return f"msg_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
