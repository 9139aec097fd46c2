"""Retries: which failures are retried, and when.

Backoff after the definition reference: constant 5 5 5, linear 5 10 15, exponential 1 2 4 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stepwell.definition.authoring import StepDefaults
from stepwell.definition.backoff import growing_ms
from stepwell.definition.graph import DEFAULT_POOL, NEVER_RETRIED, Retrier, Retry, Step
from stepwell.engine.actions import Outcome
from stepwell.engine.copying import quick
from stepwell.engine.records import Failure, RetryAt
from stepwell.engine.token import Token
from stepwell.limits import STEP_TIMEOUT_MS
from stepwell.values import dataclass

ALWAYS_RETRIED = frozenset({"transient"})  # by a policy that does not say otherwise in `on`
# Answers to an HTTP step that say "not now": they need not be named in `on` either.
RETRIED_ANSWERS = frozenset({"http_429", "http_502", "http_503", "http_504"})


@quick
@dataclass(frozen=True)
class Policy:
    """How a step runs: the definition, the function's settings and the defaults, merged."""

    retry: Retry | None
    timeout_ms: int
    at_most_once: bool
    pool: str = DEFAULT_POOL
    stuck: Failure | None = None  # why the step's code cannot be loaded
    retriers: tuple[Retrier, ...] = ()  # in place of `retry`


def resolve_policy(step: Step, defaults: StepDefaults) -> Policy:
    """Merges the definition, then the function's own defaults, then Stepwell's (5 minutes, no retry)."""
    timeout_ms = step.timeout_ms if step.timeout_ms is not None else defaults.timeout_ms
    once = step.at_most_once if step.at_most_once is not None else defaults.at_most_once
    return Policy(
        step.retry or defaults.retry or step.default_retry,
        timeout_ms if timeout_ms is not None else STEP_TIMEOUT_MS,
        bool(once),
        step.pool or defaults.pool or DEFAULT_POOL,
        retriers=step.retriers,
    )


def retry_delay_ms(retry: Retry | None, failure: Failure, attempt: int, jitter: float) -> int | None:
    """Returns the delay before the next attempt; None if there is none.

    `attempt` is the one that failed, from 1; `jitter` a number in [0, 1) that full jitter multiplies the delay by.
    If the failure asks for a longer one, that one, however long: who answered knows when to come again.
    """
    if retry is None or attempt > retry.max_retries or not is_retried(retry, failure):
        return None
    delay_ms = backoff_ms(retry, attempt)
    delay_ms = int(delay_ms * jitter) if retry.jitter == "full" else delay_ms
    return max(delay_ms, failure.retry_after_ms)


def is_retried(retry: Retry, failure: Failure) -> bool:
    """`transient` and answers that say "not now" by default; the rest where `on` names category or type; some never."""
    if failure.category in NEVER_RETRIED:
        return False
    named = failure.category in retry.on or failure.type in retry.on
    not_now = failure.category == "external" and failure.type in RETRIED_ANSWERS
    return named or not_now or failure.category in ALWAYS_RETRIED


def with_bases(policy: Policy, outcome: Outcome) -> Policy:
    """Returns the policy, with the failure's own type in `on` if that names a class above the exception's.

    It is decided while the exception is there: a record has the name of its class alone.
    """
    retry, failure = policy.retry, outcome.failure
    if retry is None or failure is None or retry.on.isdisjoint(outcome.bases):
        return policy
    return replace(policy, retry=replace(retry, on=retry.on | {failure.type}))


def backoff_ms(retry: Retry, attempt: int) -> int:
    """Returns the delay after this attempt (from 1), capped by `max_delay_ms`, before jitter."""
    match retry.backoff:
        case "constant":
            delay_ms = retry.initial_delay_ms
        case "linear":
            delay_ms = retry.initial_delay_ms * attempt
        case _:
            delay_ms = retry.initial_delay_ms * 2 ** min(attempt - 1, 40)  # the cap is reached long before
    return min(delay_ms, retry.max_delay_ms)


def used_before(token: Token) -> tuple[int, ...]:
    """Returns how often each retrier of the step was used, by the last record of its attempts."""
    before = token.last.next if token.last is not None and token.attempt else None
    return before.used if isinstance(before, RetryAt) else ()


def retry_by(
    retriers: Sequence[Retrier], used: Sequence[int], failure: Failure, now_ms: int, jitter: float
) -> RetryAt | None:
    """Returns the next try by the first retrier that takes the failure; None if none does, or it was used enough."""
    what = (failure.type, failure.category, failure.data)
    found = next((at for at, one in enumerate(retriers) if one.errors.take(*what)), None)
    counts = [*used, *[0] * (len(retriers) - len(used))]
    if found is None or counts[found] >= retriers[found].max_retries:
        return None
    counts[found] += 1
    delay_ms = max(growing_ms(retriers[found], counts[found], jitter), failure.retry_after_ms)
    return RetryAt(now_ms + delay_ms, tuple(counts))
