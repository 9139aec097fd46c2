"""Turns under a rate limit: the rate holds whoever gives turns back, and none of them is lost to others."""

from __future__ import annotations

import json
import random

import pytest

from stepwell.engine.actions import Pace
from stepwell.engine.limits.pacing import FREE_RANGES, given_back, is_spent, next_ms, reserved

HOUR_MS = 3_600_000
PACES = [Pace("a", 60_000, 1), Pace("a", 1000 / 3, 1), Pace("a", 60_000, 4), Pace("a", 7.7, 2)]


def turns(pace: Pace, seed: int, most: int) -> tuple[list[int], str]:
    """The turns that were used, of runs that come, are cancelled and wait; and the note in the end."""
    rng, now_ms, body = random.Random(seed), 1_000_000, None
    waiting: list[int] = []
    used: list[int] = []
    for number in range(most):
        what = rng.random()
        if what < 0.5:
            one = reserved(pace, body, str(number), now_ms)
            body, _ = one.body, waiting.append(one.at_ms)
        elif what < 0.8 and waiting:
            at_ms = waiting.pop(rng.randrange(len(waiting)))
            body = given_back(pace, body, at_ms, str(number), now_ms) or body
        else:
            now_ms += int(rng.random() * 2 * pace.interval_ms)
        used += [at_ms for at_ms in waiting if at_ms <= now_ms]
        waiting = [at_ms for at_ms in waiting if at_ms > now_ms]
    assert body is not None
    return sorted(used + waiting), body


@pytest.mark.parametrize(
    "pace", [Pace("a", 60_000, 1), Pace("a", 1000 / 3, 1), Pace("a", 60_000, 4), Pace("a", 7.7, 2)]
)
@pytest.mark.parametrize("seed", range(20))
def test_the_rate_holds_for_turns_that_were_given_back_and_taken_again(pace: Pace, seed: int) -> None:
    found, body = turns(pace, seed, 600)
    for first, after in zip(found, found[pace.burst :], strict=False):
        assert after - first >= pace.interval_ms - 1, (first, after)
    assert len(json.loads(body).get("free", [])) <= FREE_RANGES
    assert len(body) < 1_000


def test_turns_that_follow_each_other_are_kept_as_one_range_whatever_their_order() -> None:
    pace, body = Pace("a", HOUR_MS, 1), None
    taken = []
    for number in range(1_000):
        one = reserved(pace, body, str(number), 0)
        body, _ = one.body, taken.append(one.at_ms)
    for at_ms in (*taken[1:500:2], *taken[999:500:-1], *taken[2:501:2][:10]):
        body = given_back(pace, body, at_ms, "x", 0) or body
    assert body is not None
    assert next_ms(body) == HOUR_MS
    assert len(json.loads(body)["free"]) <= FREE_RANGES
    assert [reserved(pace, body, "y", 0).at_ms, reserved(pace, body, "y", 30 * HOUR_MS).at_ms] == [
        HOUR_MS,
        31 * HOUR_MS,
    ]


def test_a_slower_rate_counts_the_turns_that_are_taken_and_not_the_free_ones() -> None:
    body = None
    for number in range(11):
        body = reserved(Pace("a", 1_000, 1), body, str(number), 0).body
    body = given_back(Pace("a", 1_000, 1), body, 4_000, "x", 0)
    assert reserved(Pace("a", HOUR_MS, 1), body, "y", 0).at_ms == 10 * HOUR_MS


def test_a_note_of_an_earlier_version_is_read_and_one_that_has_passed_is_spent() -> None:
    body = '{"due_ms": 5000.0, "by": "x"}'
    assert reserved(Pace("a", 1_000, 1), body, "y", 0).at_ms == 5_000
    assert given_back(Pace("a", 1_000, 1), None, 3_000, "y", 0) is None
    assert (is_spent(body, 4_999), is_spent(body, 5_000)) == (False, True)
