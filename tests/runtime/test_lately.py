"""What a process keeps of what it has read: by count, by size, by time."""

from __future__ import annotations

from stepwell.runtime.log.lately import Lately


def test_what_was_asked_for_longest_ago_goes_first() -> None:
    kept: Lately[str, int] = Lately(2, 100, 1_000)
    kept.keep("a", 1, 10, 0)
    kept.keep("b", 2, 10, 0)
    assert kept.get("a", 0) == 1
    kept.keep("c", 3, 10, 0)
    assert [kept.get(key, 0) for key in "abc"] == [1, None, 3]


def test_all_that_is_kept_is_no_larger_than_the_bound() -> None:
    kept: Lately[str, int] = Lately(10, 100, 1_000)
    kept.keep("a", 1, 60, 0)
    kept.keep("b", 2, 60, 0)
    assert [kept.get(key, 0) for key in "ab"] == [None, 2]
    kept.keep("b", 3, 40, 0)  # in its own place
    kept.keep("c", 4, 60, 0)
    assert [kept.get(key, 0) for key in "bc"] == [3, 4]
    kept.keep("d", 5, 101, 0)
    assert [kept.get(key, 0) for key in "bcd"] == [3, 4, None]


def test_nothing_is_given_after_its_time_or_by_a_clock_that_was_set_back() -> None:
    kept: Lately[str, int] = Lately(10, 100, 1_000)
    for now_ms in (5_000 + 1_000, 5_000 - 1):
        kept.keep("a", 1, 10, 5_000)
        assert kept.get("a", 5_999) == 1
        assert kept.get("a", now_ms) is None
        assert kept.get("a", 5_500) is None


def test_a_process_that_is_to_keep_nothing_keeps_nothing() -> None:
    kept: Lately[str, int] = Lately(0, 100, 1_000)
    kept.keep("a", 1, 10, 0)
    assert kept.get("a", 0) is None
