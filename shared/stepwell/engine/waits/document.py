"""A wait for documents, one event for each.

WAITING ── RECEIVED (cv) ── RECEIVED (photo) ── RESUMED (id card) ──▶
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stepwell.definition.graph import Json, Wait
from stepwell.engine.records import Arm, Resumption
from stepwell.engine.waits.event import EventWait
from stepwell.engine.waits.kind import Place
from stepwell.engine.waits.templates import texts

_NAME_KEYS = ("document", "name", "type")  # of an event: which document it brings


class DocumentWait(EventWait):
    """Its parts are the documents by name."""

    def arm(self, wait: Wait, place: Place) -> Arm:
        asked = texts(wait.documents, place.names, "documents")
        return replace(super().arm(wait, place), parts=asked, need=max(len(asked), 1))

    def part(self, arm: Arm, came: Resumption, received: Sequence[Resumption], *, complete: bool) -> Resumption | None:
        """A document that is sent again replaces the first."""
        found = came.payload if isinstance(came.payload, dict) else {}
        name = next((found[key] for key in _NAME_KEYS if isinstance(found.get(key), str)), "")
        return replace(came, part=name) if name and (not arm.parts or name in arm.parts) else None

    def value(self, arm: Arm, came: Sequence[Resumption]) -> Json:
        return {one.part: one.payload.get("url", one.payload) for one in came}


DOCUMENT = DocumentWait("document", sets={"documentUrls": ()})
