"""A wait for a signed document."""

from stepwell.engine.waits.event import EventWait

SIGNATURE = EventWait(
    "signature",
    of_people=True,
    sets={"signedDocumentUrl": ("signedDocumentUrl", "url"), "signedAt": ("signedAt", "signed_at")},
)
