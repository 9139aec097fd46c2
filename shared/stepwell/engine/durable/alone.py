"""What surrounds the code of a durable function: nothing, unless a session overrides these methods.

The runtime's session does, which has updates, unawaited operations, and URLs that a new key changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from stepwell.engine.durable.turns import Asked
from stepwell.engine.records import Failure, Resumption
from stepwell.errors import EngineFault


class Alone:
    """A session whose function has nothing beside its own code."""

    def update(self, resumption: Resumption) -> Failure | None:
        """What goes wrong with an update that the log tells of."""
        raise EngineFault(f"this session takes no update {resumption.name}", code="broken_session")

    @property
    def takes_updates(self) -> bool:
        """Tells whether an update can change what the function waits for."""
        return False

    @property
    def awaits_in_updates(self) -> bool:
        """Tells whether an update may begin operations of its own."""
        return False

    def unawaited(self) -> Iterable[Asked]:
        """Returns the operations that were made and that nobody has awaited yet."""
        return ()

    def holds_link(self, asked: Asked) -> bool:
        """Tells whether the arguments hold a signed URL, which a new key changes."""
        return False

    def forgotten(self, value: object) -> Failure | None:
        """What is wrong with a function that returns this and has left something undone."""
        return None
