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
from stepwell.errors import ExpressionError

_NAME_KEYS = ("document", "name", "type")  # of an event: which document it brings


class DocumentWait(EventWait):
    """Its parts are the documents by name."""

    def arm(self, wait: Wait, place: Place) -> Arm:
        asked = texts(wait.documents, place.names, "documents")
        if wait.documents is not None and not asked:  # of none, a document of any name would end the wait
            raise ExpressionError("`documents` named none", hint="name one at least, or pass over the wait by a rule")
        return replace(super().arm(wait, place), parts=asked, need=max(len(asked), 1))

    def part(
        self, arm: Arm, resumption: Resumption, received: Sequence[Resumption], *, complete: bool
    ) -> Resumption | None:
        """A document that is sent again takes the place of the first."""
        return None if self.flaw(arm, resumption.payload) else replace(resumption, part=_name(resumption.payload))

    def flaw(self, arm: Arm, payload: Json) -> str:
        name = _name(payload)
        if not name:
            return f"the payload names no document: write its name under {', '.join(_NAME_KEYS)}"
        if arm.parts and name not in arm.parts:
            return f"{name[:80]!r} is not asked for: send {', '.join(arm.parts)}"
        url = payload.get("url", "")
        return "" if isinstance(url, str) else f"the `url` of {name[:80]!r} is not text"

    def progress(self, arm: Arm, resumptions: Sequence[Resumption]) -> dict[str, Json]:
        received = list(dict.fromkeys(one.part for one in resumptions))
        return {"received": received, "missing": [name for name in arm.parts if name not in received]}

    def value(self, arm: Arm, resumptions: Sequence[Resumption]) -> Json:
        return {one.part: one.payload.get("url", one.payload) for one in resumptions}


def _name(payload: Json) -> str:
    """The document that an event brings; "" where it names none."""
    found = payload if isinstance(payload, dict) else {}
    return next((found[key] for key in _NAME_KEYS if isinstance(found.get(key), str)), "")


DOCUMENT = DocumentWait("document", of_people=True, judges=True, sets={"documentUrls": ()})
