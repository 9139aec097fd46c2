"""Which failures are tried again, and when: the three backoffs, the cap, the jitter, the categories."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.definition.authoring import StepDefaults
from stepwell.definition.graph import DEFAULT_POOL, Retry, Step
from stepwell.engine.records import Failure, RetryAt, Status
from stepwell.engine.retry import backoff_ms, is_retried, resolve_policy, retry_delay_ms
from tests.engine.kit import NOW_MS, Play, failure, play

CATEGORIES = ("transient", "step", "timeout", "validation", "external", "governance", "worker_lost")


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [("constant", [5, 5, 5, 5]), ("linear", [5, 10, 15, 20]), ("exponential", [5, 10, 20, 40])],
)
def test_the_three_backoffs(backoff: str, delays: list[int]) -> None:
    retry = Retry(9, backoff, 5_000, 1_000_000)
    assert [backoff_ms(retry, attempt) // 1_000 for attempt in (1, 2, 3, 4)] == delays


@pytest.mark.parametrize("backoff", ["constant", "linear", "exponential"])
def test_no_delay_is_longer_than_max_delay(backoff: str) -> None:
    retry = Retry(10_000, backoff, 7_000, 60_000)
    assert max(backoff_ms(retry, attempt) for attempt in (1, 2, 10, 100, 9_999)) <= 60_000


@given(st.integers(1, 10_000), st.integers(0, 10**7), st.integers(0, 10**7), st.floats(0, 1, exclude_max=True))
def test_full_jitter_comes_after_the_cap_and_is_never_longer_than_the_delay(
    attempt: int, initial_ms: int, most_ms: int, jitter: float
) -> None:
    plain = Retry(10_000, "exponential", initial_ms, most_ms)
    full = Retry(10_000, "exponential", initial_ms, most_ms, "full")
    error = failure("E", "transient")
    delay_ms = retry_delay_ms(plain, error, attempt, jitter)
    assert delay_ms is not None
    jittered_ms = retry_delay_ms(full, error, attempt, jitter)
    assert jittered_ms is not None
    assert 0 <= jittered_ms <= delay_ms <= most_ms
    assert retry_delay_ms(full, error, attempt, 0.0) == 0


def test_without_jitter_the_delay_does_not_depend_on_chance() -> None:
    assert {retry_delay_ms(Retry(), failure("E", "transient"), 1, chance) for chance in (0.0, 0.3, 0.99)} == {1_000}


@pytest.mark.parametrize(("asked_ms", "delay_ms"), [(7_000, 7_000), (500, 1_000), (600_000, 600_000), (0, 1_000)])
def test_a_failure_that_asks_for_a_longer_delay_gets_it_whatever_the_cap(asked_ms: int, delay_ms: int) -> None:
    error = Failure("http_429", "external", "later", retry_after_ms=asked_ms)
    assert retry_delay_ms(Retry(3), error, 1, 0) == delay_ms


def test_max_retries_counts_the_tries_after_the_first() -> None:
    error = failure("E", "transient")
    assert [retry_delay_ms(Retry(2), error, attempt, 0) is not None for attempt in (1, 2, 3)] == [True, True, False]
    assert retry_delay_ms(Retry(0), error, 1, 0) is None


@pytest.mark.parametrize("category", CATEGORIES)
def test_by_itself_a_policy_retries_what_is_transient_and_nothing_else(category: str) -> None:
    assert is_retried(Retry(), failure("E", category)) is (category == "transient")


@pytest.mark.parametrize("status", [400, 429, 500, 501, 502, 503, 504])
def test_by_itself_a_policy_retries_the_answers_that_say_not_now(status: int) -> None:
    category = "step" if status == 400 else "external"
    answered = failure(f"http_{status}", category)
    assert is_retried(Retry(), answered) is (status in {429, 502, 503, 504})
    assert is_retried(Retry(on=frozenset({"external"})), answered) is (category == "external")


@pytest.mark.parametrize("category", CATEGORIES)
def test_on_names_further_categories_but_never_validation_or_governance(category: str) -> None:
    named = Retry(on=frozenset({category}))
    assert is_retried(named, failure("E", category)) is (category not in {"validation", "governance"})


def test_on_names_types_too() -> None:
    assert is_retried(Retry(on=frozenset({"CardDown"})), failure("CardDown", "step"))
    assert not is_retried(Retry(on=frozenset({"CardDown"})), failure("CardLost", "step"))


def test_without_a_policy_a_failed_attempt_fails_at_once() -> None:
    one = play("workflow: w\ntimeline: [{name: a, run: python:m.a}]")
    one.ends(failure=failure("E", "transient"))
    assert one.status is Status.FAILED


def test_the_definition_overrides_the_function_and_the_function_our_defaults() -> None:
    own = StepDefaults(retry=Retry(7), timeout_ms=9_000, at_most_once=True)
    silent = resolve_policy(Step("python:m.a"), own)
    assert (silent.retry, silent.timeout_ms, silent.at_most_once) == (Retry(7), 9_000, True)
    said = resolve_policy(Step("python:m.a", retry=Retry(1), timeout_ms=0, at_most_once=False), own)
    assert (said.retry, said.timeout_ms, said.at_most_once) == (Retry(1), 0, False)
    ours = resolve_policy(Step("python:m.a"), StepDefaults())
    assert (ours.retry, ours.timeout_ms, ours.at_most_once) == (None, 300_000, False)


def retrying(policy: str) -> Play:
    return play(f"workflow: w\ntimeline: [{{name: a, run: python:m.a, retry: {{{policy}}}}}]")


def test_a_run_tries_again_when_the_delay_is_over_and_not_before() -> None:
    one = retrying("max_retries: 3, backoff: exponential, initial_delay: 1s, max_delay: 3s")
    delays = []
    for attempt in (1, 2, 3):
        assert one.asked().attempt == attempt
        following = one.ends(failure=failure("E", "transient")).next
        assert isinstance(following, RetryAt)
        delays.append(following.at_ms - one.now_ms)
        one.now_ms = following.at_ms - 1
        assert one.rests_until() == following.at_ms
        one.now_ms = following.at_ms
    assert delays == [1_000, 2_000, 3_000]
    one.ends(failure=failure("E", "transient"))
    assert (one.status, one.error and one.error.attempts) == (Status.FAILED, 4)


def test_every_try_of_one_visit_has_the_same_key_and_another_visit_another() -> None:
    one = play("""
workflow: w
timeline:
  - {name: a, run: python:m.a, retry: {on: [step]}, branch: [{when: "result == 1", back_to: a, max: 1}]}
""")
    keys = [one.asked().key]
    one.ends(failure=failure())
    one.now_ms += 60_000
    keys.append(one.asked().key)
    one.ends(1)
    keys.append(one.asked().key)
    assert keys[0] == keys[1] != keys[2]


def test_a_retry_that_succeeds_leaves_no_error_behind() -> None:
    one = retrying("max_retries: 1")
    one.ends(failure=failure("E", "transient"))
    assert one.token.steps["a"].status == "running"
    one.now_ms = NOW_MS + 60_000
    one.ends(5)
    assert (one.status, one.token.error, one.token.steps["a"].attempts) == (Status.COMPLETED, None, 2)


def test_the_function_s_own_retry_is_used_where_the_definition_is_silent() -> None:
    one = play("workflow: w\ntimeline: [{name: a, run: python:m.a}]")
    following = one.ends(failure=failure(), defaults=StepDefaults(retry=Retry(1, on=frozenset({"step"})))).next
    assert isinstance(following, RetryAt)


@pytest.mark.parametrize(
    ("own", "of_function", "pool"),
    [(None, None, DEFAULT_POOL), (None, "big", "big"), ("gpu", "big", "gpu"), ("gpu", None, "gpu")],
)
def test_the_definition_s_pool_goes_before_the_function_s_own(
    own: str | None, of_function: str | None, pool: str
) -> None:
    assert resolve_policy(Step("python:m.a", pool=own), StepDefaults(pool=of_function)).pool == pool
