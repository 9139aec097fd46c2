"""Waypoints: tokens cached on the way through a long log, so that its next page is not folded from the start.

page 1   0 ─────▶ 100 ────▶ 200        kept: the token at 100, at 200
page 2                      200 ────▶ 300
"""

from __future__ import annotations

from stepwell.engine.token import Token
from stepwell.limits import FORKS_KEPT_BYTES, FORKS_KEPT_MS
from stepwell.runtime.log.lately import Lately
from stepwell.runtime.log.sizes import token_bytes

STRIDE = 100  # slots from one to the next
KEPT = 128


class Waypoints:
    """A cache of folded tokens: a token at a slot never changes, so a reader folds one stride at most."""

    def __init__(self) -> None:
        self._tokens: Lately[tuple[str, str, int], Token] = Lately(KEPT, FORKS_KEPT_BYTES, FORKS_KEPT_MS)

    def keep(self, run_id: str, token: Token, now_ms: int) -> None:
        """Keeps the token if its slot ends a stride."""
        if token.slot > 0 and token.slot % STRIDE == 0:
            self._tokens.keep((run_id, token.id, token.slot), token, token_bytes(token), now_ms)

    def before(self, run_id: str, token_id: str, slot: int, now_ms: int) -> Token | None:
        """Returns the last cached token before the slot; None if it is not cached."""
        return self._tokens.get((run_id, token_id, (slot - 1) // STRIDE * STRIDE), now_ms) if slot > 0 else None
