"""What a token is at that its log has not got yet: the next attempt, from when it is due, and a wait that is over.

The log has an attempt only after it has ended, and has a wait's end some time before its node is left if a pause came.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stepwell.engine.copying import changed
from stepwell.engine.forks.marks import is_waiting
from stepwell.engine.records import RetryAt
from stepwell.engine.token import Token
from stepwell.runtime.calls.survey import Surveyed
from stepwell.runtime.log.standing import Standing


def tried(token: Token, now_ms: int) -> Token:
    """Returns the token with the attempt that runs now, if one before it failed; a wait that is over does not wait."""
    view, last = token.steps.get(token.node), token.last
    if view is None or last is None or token.ended or is_waiting(token):
        return token
    if view.status == "waiting":
        return changed(token, steps={**token.steps, token.node: changed(view, status="running")})
    if view.status != "running":
        return token
    if isinstance(last.next, RetryAt) and last.next.at_ms > now_ms:
        return token
    return changed(token, steps={**token.steps, token.node: changed(view, attempts=token.attempt + 1)})


def tried_at(at: Standing, now_ms: int) -> Standing:
    """Returns the run or branch with the attempts that run now. While it is paused, no further one begins."""
    now_ms = at.header.paused_ms or now_ms
    return changed(at, token=tried(at.token, now_ms), branches=tuple(tried(one, now_ms) for one in at.branches))


def tried_in(at: Standing, forks: Iterable[Surveyed], now_ms: int) -> tuple[Surveyed, ...]:
    """Returns the forks of a run in the same way."""
    now_ms = at.header.paused_ms or now_ms
    return tuple(_tried_in(fork, now_ms) if fork.is_open else fork for fork in forks)


def _tried_in(fork: Surveyed, now_ms: int) -> Surveyed:
    branches = tuple(tried(one, now_ms) for one in fork.branches)
    inner = tuple(_tried_in(one, now_ms) if one.is_open else one for one in fork.inner)
    return replace(fork, branches=branches, inner=inner)
