"""Claim checks: a large body is a blob of its run, and the log has the reference."""

from __future__ import annotations

import json
from collections.abc import Mapping

from stepwell.definition.graph import Json
from stepwell.engine import formats
from stepwell.limits import CLAIM_CHECK_BYTES
from stepwell.runtime.ports import Blobs
from stepwell.runtime.stores.blobs import of_run

_CLAIM = "claim"  # no record, snapshot or batch begins with it: their first field is another
_BEGINS = f'{{"{_CLAIM}":'
_WIDEST = 4  # bytes of a character in UTF-8


async def stow(
    body: str,
    blobs: Blobs,
    run_id: str = "",
    most_bytes: int = CLAIM_CHECK_BYTES,
    beside: Mapping[str, Json] | None = None,
) -> str:
    """The body itself, or for a large one a claim check on the run's blob that holds it; nobody's without one.

    `beside`: what the claim check says as well, for those who need not fetch the body.
    """
    if len(body) * _WIDEST <= most_bytes or len(data := body.encode()) <= most_bytes:
        return body
    return claim_check(await blobs.put(data, of_run(run_id) if run_id else ""), beside)


def claim_check(reference: str, beside: Mapping[str, Json] | None = None) -> str:
    return json.dumps({_CLAIM: reference, **(beside or {}), formats.KEY: formats.FORMAT}, separators=(",", ":"))


async def fetch(body: str, blobs: Blobs) -> str:
    """The inverse of `stow`. Raises NewerFormat, and EngineFault for a claim check that cannot be read."""
    reference = claim_of(body)
    return (await blobs.get(reference)).decode() if reference else body


def claim_of(body: str) -> str:
    """The reference to the blob that a stowed body stands for; empty where it is the body itself."""
    if not body.startswith(_BEGINS):
        return ""
    try:
        claim = json.loads(body)
        formats.check_format(claim.get(formats.KEY, formats.OLDEST), "claim_check")
        return str(claim[_CLAIM])
    except formats.BROKEN as error:
        raise formats.unreadable("claim_check", error) from error
