"""Checks values that the operations of `ctx` take: as the run makes an operation, and as `check` reads its code."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from stepwell.definition import graph
from stepwell.definition.authoring import Retry, retry_of
from stepwell.definition.durations import show_duration
from stepwell.definition.expressions import compile_expression
from stepwell.definition.text import NAME, NAME_HINT
from stepwell.errors import ExpressionError, InvalidInput, UserError
from stepwell.limits import NAME_CHARACTERS

_TOLERATE = 'write {"count": 3} or {"percent": 10}'


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
        raise _no_number(need)


def wrong_need(need: object) -> InvalidInput | None:
    """Returns the error of a number of approvals that `check_need` lets pass, and a definition would not."""
    return None if isinstance(need, int) and not isinstance(need, bool) else _no_number(need)


def _no_number(need: object) -> InvalidInput:
    return InvalidInput(f"`need` must be a whole number, not {need!r:.80}", code="bad_value")


def wrong_step(at_most_once: object, pool: object, limit_ms: int | None = None) -> InvalidInput | None:
    """Returns the error of a step's option that would be taken for something else."""
    if at_most_once is not None and not isinstance(at_most_once, bool):
        return InvalidInput(f"`at_most_once` must be True or False, not {at_most_once!r:.80}", code="bad_value",
                            hint="leave it out for the function's own")  # fmt: skip
    if pool is not None and not is_name(pool):
        return InvalidInput(f"`pool` cannot be {pool!r:.80}", code="bad_value", hint=NAME_HINT)
    return _no_time("timeout") if limit_ms == 0 else None


def check_name(name: object) -> str:
    """Returns the name of an operation. Raises InvalidInput."""
    if not is_name(name):
        raise InvalidInput(f"{name!r:.80} cannot be a name", code="bad_name", hint=NAME_HINT)
    return str(name)


def is_name(name: object) -> bool:
    """Tells whether this can name an operation, or a pool."""
    return isinstance(name, str) and len(name) <= NAME_CHARACTERS and NAME.fullmatch(name) is not None


def check_at_once(max_concurrency: object) -> int:
    """Returns how many operations may run at once; 0: all. Raises InvalidInput: it may come from the run's input."""
    if max_concurrency is None:
        return 0
    if isinstance(max_concurrency, bool) or not isinstance(max_concurrency, int) or max_concurrency < 0:
        raise InvalidInput(f"`max_concurrency` must be a whole number, not {max_concurrency!r:.80}", code="bad_value",
                           hint="write how many may run at once; 0 for all of them")  # fmt: skip
    return max_concurrency


def check_tolerate(tolerate: object) -> dict[str, Any]:
    """Returns how many of several operations may fail, as written. Raises InvalidInput."""
    given = {} if tolerate is None else tolerate
    if (
        not isinstance(given, dict)
        or given.keys() - {"count", "percent"}
        or not all(isinstance(one, int | float) and one >= 0 for one in given.values())
    ):
        raise InvalidInput(f"{tolerate!r:.80} does not say how many may fail", code="bad_value",
                           hint=_TOLERATE)  # fmt: skip
    return given


def wrong_tolerate(given: Mapping[str, Any]) -> InvalidInput | None:
    """Returns the error of a `tolerate` that `check_tolerate` lets pass, and a definition would not."""
    count, percent = given.get("count", 0), given.get("percent", 0)
    if len(given) == 2:
        message = "`tolerate` has count and percent"
    elif isinstance(count, bool) or not isinstance(count, int):
        message = f"the count of `tolerate` must be a whole number, not {count!r:.80}"
    elif isinstance(percent, bool) or not percent <= 100:
        message = f"the percent of `tolerate` must be a number from 0 to 100, not {percent!r:.80}"
    else:
        return None
    return InvalidInput(message, code="bad_value", hint=_TOLERATE)


def _no_time(option: str) -> InvalidInput:
    """Returns the error of a time limit that is over at once: what it limits would always fail."""
    return InvalidInput(f"`{option}` must be longer than 0", code="bad_value", hint=f'for example {option}="5m"')


def late_heartbeat(beat_ms: int | None, limit_ms: int | None) -> InvalidInput | None:
    """Returns the error of a heartbeat that is due at once, or after its wait has ended."""
    if beat_ms == 0:
        return _no_time("heartbeat")
    if beat_ms is None or limit_ms is None or beat_ms < limit_ms:
        return None
    return InvalidInput(f"`heartbeat` of {show_duration(beat_ms)} is not shorter than the wait", code="bad_value",
                        hint=f"the wait ends after {show_duration(limit_ms)}: write less")  # fmt: skip
