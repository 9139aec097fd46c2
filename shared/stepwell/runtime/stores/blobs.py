"""References to blobs: the hash of the content, and the owner with whom the blob is deleted.

     sha256:<hash>                 kept for ever: definitions, and what was written before blobs had owners
     sha256:<hash>@run-<digest>    a run's: deleted with its log when its retention is over
     sha256:<hash>@days-<number>   deleted so many days after it was last put: events, deliveries

Each owner has its own copy, so nothing counts references to the content.
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
    """Returns the owner of a run's blobs.

    It is a digest because ids may differ by case alone, which a disk may not distinguish.
    """
    return f"run-{hashlib.sha256(run_id.encode(errors='surrogatepass')).hexdigest()[:32]}"


def for_time(kept_ms: int) -> str:
    """Returns the owner of blobs that are needed for this time from now on."""
    days = (days for days in BLOB_DAYS if kept_ms + BLOB_SPARE_MS <= days * DAY_MS)
    return f"days-{next(days, BLOB_DAYS[-1])}"


def reference_of(data: bytes, owner: str = "") -> str:
    """Returns sha256:<hex> of the content, and `@` with its owner if it has one."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}{'@' if owner else ''}{owner}"


def place_of(reference: str) -> str:
    """Returns the path below all blobs. Raises PortError if the text is not a reference.

    A reference comes from a record: any other text must never become a path.
    """
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        message = f"not a blob's reference: {reference[:100]!r}"
        raise PortError(message, code=BROKEN_BLOB, hint="expected sha256:<64 hex digits>[@OWNER]")
    digest, owner = match.groups()
    return f"{owner or digest[:2]}/{digest}"


def checked_owner(owner: str) -> str:
    """Returns the owner, as part of a path. Raises PortError for other text: it might name all blobs."""
    if not _OWNER.fullmatch(owner):
        raise PortError(f"not an owner of blobs: {owner[:100]!r}", hint="expected run-<digest> or days-<number>")
    return owner


def check_blob(data: bytes, reference: str) -> bytes:
    """Returns the data if it has the hash in the reference. Raises PortError for other data."""
    if hashlib.sha256(data).hexdigest() != reference[7:71]:
        raise PortError(f"the blob {reference} is damaged", code=BROKEN_BLOB, hint="its content has another hash")
    return data
