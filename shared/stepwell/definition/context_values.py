"""Checks values that the operations of `ctx` take: as the run makes an operation, and as `check` reads its code."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from stepwell.definition import graph
from stepwell.definition.authoring import Retry, retry_of
from stepwell.definition.durations import show_duration
from stepwell.definition.expressions import compile_expression
from stepwell.errors import ExpressionError, InvalidInput, UserError


def policy_of(retry: Retry | Mapping[str, Any] | None) -> graph.Retry | None:
    """Returns the retry policy of a step; None leaves it to the function's own. Raises InvalidInput."""
    try:
        return None if retry is None else retry_of(retry).policy()
    except UserError as error:
        raise InvalidInput(error.message, code="bad_value", hint=error.hint) from error


def condition(text: str) -> str:
    """Returns the text of a condition. Raises InvalidInput if it is not CEL, since no event could satisfy it."""
    if not isinstance(text, str):
        raise InvalidInput(f"`match` must be text, not {text!r:.80}", code="bad_value", hint='match="event.total > 5"')
    return _compiled(text)


@lru_cache(maxsize=1_024)
def _compiled(text: str) -> str:
    try:
        compile_expression(text)
    except ExpressionError as error:
        raise InvalidInput(f"`match` cannot be read: {error.message}", code=error.code, hint=error.hint) from error
    return text


def check_need(need: object) -> None:
    """Raises InvalidInput if the number of approvals is no number."""
    if not isinstance(need, int | float):
        raise InvalidInput(f"`need` must be a whole number, not {need!r:.80}", code="bad_value")


def late_heartbeat(beat_ms: int | None, limit_ms: int | None) -> InvalidInput | None:
    """Returns the error of a heartbeat that is due after its wait has ended."""
    if beat_ms is None or limit_ms is None or beat_ms < limit_ms:
        return None
    return InvalidInput(f"`heartbeat` of {show_duration(beat_ms)} is not shorter than the wait", code="bad_value",
                        hint=f"the wait ends after {show_duration(limit_ms)}: write less")  # fmt: skip
