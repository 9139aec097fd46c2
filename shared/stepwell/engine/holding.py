"""Holding: which tokens a pause stops. What ends goes on, and a run that gathers starts is closed first."""

from __future__ import annotations

from stepwell.engine.records import RunInfo
from stepwell.engine.starts import is_open
from stepwell.engine.token import Token


def is_held(run: RunInfo, token: Token) -> bool:
    """Tells whether the token's worker is to rest, because the run is paused."""
    return run.is_paused and may_rest(run, token)


def may_rest(run: RunInfo, token: Token) -> bool:
    """Tells whether a pause stops the token's worker. A run that gathers starts is closed first, once it is due.

    Its starts move the token and wake nobody, so a worker that rested there would be forgotten.
    """
    return can_be_held(token) and not is_open(run, token)


def can_be_held(token: Token) -> bool:
    """Tells whether a pause holds the token. What ends is not held."""
    return token.end is None and token.undoing is None and token.cleaning is None
