"""References to blobs: the hash of the content, and its owner, with whom it is deleted.

    sha256:<hash>                 kept for ever: definitions, and what was written before blobs had owners
    sha256:<hash>@run-<digest>    a run's: deleted with its log when its retention is over
    sha256:<hash>@days-<number>   deleted so many days after it was last put: events, deliveries

Each owner has a copy of its own, so nothing counts who else refers to the content.
"""

from __future__ import annotations

import hashlib
import re

from stepwell.errors import PortError
from stepwell.limits import BLOB_DAYS, BLOB_SPARE_MS, DAY_MS
from stepwell.runtime.ports import BROKEN_BLOB

_OWNER = re.compile(r"run-[0-9a-f]{32}|days-[0-9]{1,3}")
_REFERENCE = re.compile(rf"sha256:([0-9a-f]{{64}})(?:@({_OWNER.pattern}))?")


def of_run(run_id: str) -> str:
    """The owner of a run's blobs. A digest: an id may differ from another one by case alone, which a disk may not."""
    return f"run-{hashlib.sha256(run_id.encode(errors='surrogatepass')).hexdigest()[:32]}"


def for_time(kept_ms: int) -> str:
    """The owner of blobs that are read for so long from now on."""
    days = (days for days in BLOB_DAYS if kept_ms + BLOB_SPARE_MS <= days * DAY_MS)
    return f"days-{next(days, BLOB_DAYS[-1])}"


def reference_of(data: bytes, owner: str = "") -> str:
    """sha256:<hex> of the content, and `@` with its owner where it has one."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}{'@' if owner else ''}{owner}"


def place_of(reference: str) -> str:
    """The path below all blobs. A reference comes out of a record: what is not one must never become a path."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        message = f"not a blob's reference: {reference[:100]!r}"
        raise PortError(message, code=BROKEN_BLOB, hint="expected sha256:<64 hex digits>[@OWNER]")
    digest, owner = match.groups()
    return f"{owner or digest[:2]}/{digest}"


def checked_owner(owner: str) -> str:
    """The owner, as part of a path. Raises PortError for what is none: all blobs would be its own."""
    if not _OWNER.fullmatch(owner):
        raise PortError(f"not an owner of blobs: {owner[:100]!r}", hint="expected run-<digest> or days-<number>")
    return owner


def check_blob(data: bytes, reference: str) -> bytes:
    """The data, whose hash the reference names. Raises PortError for other data."""
    if hashlib.sha256(data).hexdigest() != reference[7:71]:
        raise PortError(f"the blob {reference} is damaged", code=BROKEN_BLOB, hint="its content has another hash")
    return data
