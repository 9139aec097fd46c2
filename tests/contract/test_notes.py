"""Notes: small texts by kind and name, changed by whoever knows what was there."""

from __future__ import annotations

import pytest

from tests.contract.kit import Store, at_once, run


def test_a_note_is_read_as_it_was_written(store: Store) -> None:
    assert run(store.get_note("schedule", "nightly")) is None
    assert run(store.put_note("schedule", "nightly", '{"a": "ñ"}', None))
    assert run(store.get_note("schedule", "nightly")) == '{"a": "ñ"}'
    assert run(store.get_note("firing", "nightly")) is None


def test_only_who_knows_what_is_there_replaces_it(store: Store) -> None:
    run(store.put_note("firing", "nightly", "one", None))
    assert not run(store.put_note("firing", "nightly", "two", None))
    assert not run(store.put_note("firing", "nightly", "two", "zero"))
    assert run(store.put_note("firing", "nightly", "two", "one"))
    assert run(store.get_note("firing", "nightly")) == "two"


def test_a_note_written_twice_is_written(store: Store) -> None:
    """A caller that did not hear the answer asks again."""
    assert run(store.put_note("firing", "nightly", "one", None))
    assert run(store.put_note("firing", "nightly", "one", None))
    assert run(store.put_note("firing", "nightly", "two", "one"))
    assert run(store.put_note("firing", "nightly", "two", "one"))


def test_where_there_is_none_any_note_may_be_written(store: Store) -> None:
    assert run(store.put_note("firing", "nightly", "two", "one"))
    assert run(store.get_note("firing", "nightly")) == "two"


def test_the_notes_of_a_kind_come_by_name(store: Store) -> None:
    for name in ("b", "a:2", "a#1"):
        run(store.put_note("schedule", name, name.upper(), None))
    run(store.put_note("firing", "c", "C", None))
    assert list(run(store.notes("schedule")).items()) == [("a#1", "A#1"), ("a:2", "A:2"), ("b", "B")]
    assert run(store.notes("nothing")) == {}


def test_a_note_that_is_dropped_is_gone(store: Store) -> None:
    run(store.put_note("schedule", "nightly", "one", None))
    assert run(store.drop_note("schedule", "nightly"))
    assert not run(store.drop_note("schedule", "nightly"))
    assert run(store.get_note("schedule", "nightly")) is None


def test_only_who_knows_what_is_there_drops_it(store: Store) -> None:
    run(store.put_note("lock", "nightly", "one", None))
    assert not run(store.drop_note("lock", "nightly", "two"))
    assert run(store.get_note("lock", "nightly")) == "one"
    assert run(store.drop_note("lock", "nightly", "one"))
    assert run(store.drop_note("lock", "nightly", "one"))  # a caller that did not hear the answer asks again
    assert run(store.get_note("lock", "nightly")) is None


@pytest.mark.threads
def test_of_many_writers_who_know_the_same_one_wins(store: Store) -> None:
    run(store.put_note("firing", "nightly", "zero", None))
    won = at_once(16, lambda number: run(store.put_note("firing", "nightly", f"{number}", "zero")))
    assert sorted(won) == [*[False] * 15, True]
    assert run(store.get_note("firing", "nightly")) == f"{won.index(True)}"
