"""Claim checks: a large body is stored as a blob of its run, and the log has the reference."""

from __future__ import annotations

import json
from collections.abc import Mapping

from stepwell.definition.graph import Json
from stepwell.engine.stored import formats
from stepwell.limits import CLAIM_CHECK_BYTES
from stepwell.runtime.ports import Blobs
from stepwell.runtime.stores.blobs import of_run

_CLAIM = "claim"  # no record, snapshot or batch has this as its first field
_BEGINS = f'{{"{_CLAIM}":'
_WIDEST = 4  # the most bytes of a character in UTF-8


async def stow(
    body: str,
    blobs: Blobs,
    run_id: str = "",
    most_bytes: int = CLAIM_CHECK_BYTES,
    beside: Mapping[str, Json] | None = None,
) -> str:
    """Returns the body; if it is too large, stores it as a blob and returns a claim check.

    The blob belongs to the run; to none if `run_id` is "". `beside`: more fields of the claim check, for readers that
    need not fetch the body.
    """
    if len(body) * _WIDEST <= most_bytes or len(data := body.encode()) <= most_bytes:
        return body
    return claim_check(await blobs.put(data, of_run(run_id) if run_id else ""), beside)


def claim_check(reference: str, beside: Mapping[str, Json] | None = None) -> str:
    return json.dumps({_CLAIM: reference, **(beside or {}), formats.KEY: formats.FORMAT}, separators=(",", ":"))


async def fetch(body: str, blobs: Blobs) -> str:
    """Returns the body that was stowed. Raises NewerFormat, and EngineFault for a claim check that cannot be read."""
    reference = claim_of(body)
    return (await blobs.get(reference)).decode() if reference else body


def claim_of(body: str) -> str:
    """Returns the reference of a claim check; "" if the body is not one. Raises as `fetch` does."""
    if not body.startswith(_BEGINS):
        return ""
    try:
        claim = json.loads(body)
        formats.check_format(claim.get(formats.KEY, formats.OLDEST), "claim_check")
        return str(claim[_CLAIM])
    except formats.BROKEN as error:
        raise formats.unreadable("claim_check", error) from error
