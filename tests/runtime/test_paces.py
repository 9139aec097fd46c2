"""Turns under a rate limit: no two claimants have one, and one that nobody needs comes to whoever asks next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepwell.engine.actions import Pace
from stepwell.limits import MINUTE_MS
from stepwell.memory.store import MemoryStore
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.waits.paces import Paces
from tests.runtime.kit import NOW_MS

PACE = Pace("flow", MINUTE_MS, 1)


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    assert turn(store, "first") == NOW_MS
    return store


def turn(store: MemoryStore, who: str, now_ms: int = NOW_MS) -> int:
    return run_now(Paces(store).turn(PACE, who, now_ms))


def give_back(store: MemoryStore, who: str, now_ms: int = NOW_MS, *, is_used: bool = False) -> None:
    run_now(Paces(store).give_back(PACE, who, now_ms, is_used=is_used))


def meanwhile(store: Any, call: str, does: Callable[[], object]) -> None:
    """Does something right before the next such call to the store."""
    method = getattr(store, call)

    async def late(*given: Any, **named: Any) -> Any:
        setattr(store, call, method)
        does()
        return await method(*given, **named)

    setattr(store, call, late)


def test_of_two_copies_of_a_message_that_ask_at_once_each_has_the_same_turn_and_the_other_one_is_free(
    store: MemoryStore,
) -> None:
    asked: list[int] = []
    meanwhile(store, "put_note", lambda: asked.append(turn(store, "run")))
    assert [turn(store, "run"), *asked] == [NOW_MS + MINUTE_MS] * 2
    assert turn(store, "next") == NOW_MS + 2 * MINUTE_MS


def test_a_turn_that_a_late_copy_stored_for_a_run_that_has_begun_comes_to_another(store: MemoryStore) -> None:
    late_ms = turn(store, "first")  # it went on at once
    give_back(store, "first", is_used=True)
    assert turn(store, "next") == late_ms == NOW_MS + MINUTE_MS


def test_a_turn_that_was_used_by_a_worker_whose_clock_is_ahead_is_not_free(store: MemoryStore) -> None:
    used_ms = turn(store, "second")
    give_back(store, "second", used_ms - 2_000, is_used=True)
    assert turn(store, "next", used_ms - 1_000) == used_ms + MINUTE_MS


def test_of_two_who_give_a_turn_back_at_once_one_does(store: MemoryStore) -> None:
    free_ms = turn(store, "second")
    meanwhile(store, "drop_note", lambda: give_back(store, "second"))
    give_back(store, "second")
    assert [turn(store, who) for who in ("third", "fourth")] == [free_ms, free_ms + MINUTE_MS]


def test_copies_of_a_message_that_ask_at_once_do_not_give_one_turn_back_twice(store: MemoryStore) -> None:
    taken: list[int] = []

    def ended() -> None:
        give_back(store, "run")
        taken.append(turn(store, "next"))

    def copy() -> None:
        turn(store, "run")
        meanwhile(store, "put_note", ended)

    meanwhile(store, "put_note", copy)
    turn(store, "run")
    give_back(store, "run")
    assert [*taken, turn(store, "last")] == [NOW_MS + MINUTE_MS, NOW_MS + 2 * MINUTE_MS]
