"""Large values under their content hash, in a dictionary."""

from __future__ import annotations

from stepwell.errors import PortError
from stepwell.runtime.ports import BROKEN_BLOB
from stepwell.runtime.stores.blobs import checked_owner, place_of, reference_of


class MemoryBlobs:
    """The Blobs port on a dictionary."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}

    async def put(self, data: bytes, owner: str = "") -> str:
        reference = reference_of(data, owner)
        self._blobs[place_of(reference)] = bytes(data)
        return reference

    async def get(self, reference: str) -> bytes:
        data = self._blobs.get(place_of(reference))
        if data is None:
            raise PortError(f"the blob {reference[:100]!r} does not exist", code=BROKEN_BLOB)
        return data

    async def link(self, reference: str) -> str:
        return ""

    async def drop(self, owner: str) -> None:
        gone = f"{checked_owner(owner)}/"
        self._blobs = {place: data for place, data in self._blobs.items() if not place.startswith(gone)}

    async def remove(self, reference: str) -> None:
        self._blobs.pop(place_of(reference), None)
