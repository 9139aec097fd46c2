"""A cache of the forks that were read last, for the next messages to this process.

small forks   eight of them, 2 MB in all
large forks   two, beside the small ones: a Map over a file of 5 MB has 1,000 messages, and one of them reads the file
"""

from __future__ import annotations

from stepwell.engine.forks.branches import parent_of
from stepwell.limits import (
    FORKS_KEPT_BYTES,
    FORKS_KEPT_MS,
    LARGE_FORKS_KEPT,
    LARGE_FORKS_KEPT_BYTES,
)
from stepwell.runtime.log.lately import Lately
from stepwell.runtime.log.standing import ForkedParent, Standing, own_bytes, standing_bytes

Key = tuple[str, str, int]  # the run, and the fork's place


class KeptForks:
    """Forks in two caches, so that many small forks do not evict a large one, which costs most to read again."""

    def __init__(self, count: int) -> None:
        """`count`: how many small forks; 0: nothing is cached."""
        self._small: Lately[Key, ForkedParent] = Lately(count, FORKS_KEPT_BYTES, FORKS_KEPT_MS)
        large = min(count, LARGE_FORKS_KEPT)
        self._large: Lately[Key, ForkedParent] = Lately(large, LARGE_FORKS_KEPT_BYTES, FORKS_KEPT_MS)

    def get(self, key: Key, now_ms: int) -> ForkedParent | None:
        return self._small.get(key, now_ms) or self._large.get(key, now_ms)

    def keep(self, key: Key, fork: ForkedParent, now_ms: int) -> None:
        size_bytes = self._size_bytes(key[0], fork.parent)
        forks = self._small if size_bytes <= FORKS_KEPT_BYTES else self._large
        forks.keep(key, fork, size_bytes, now_ms)

    def _size_bytes(self, run_id: str, parent: Standing) -> int:
        """Returns the size of the parent's data. What surrounds a branch was measured when its own fork was cached."""
        if (place := parent_of(parent.token.id)) is None:
            return standing_bytes(parent)
        around = (run_id, *place[:2])
        known_bytes = self._small.size_bytes(around) or self._large.size_bytes(around)
        return own_bytes(parent) + known_bytes if known_bytes else standing_bytes(parent)
