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


def test_the_first_notes_of_a_kind_are_read_alone(store: Store) -> None:
    for name in ("w3", "h1", "w1", "w2"):
        run(store.put_note("permits", name, name.upper(), None))
    assert list(run(store.notes("permits", 3)).items()) == [("h1", "H1"), ("w1", "W1"), ("w2", "W2")]
    assert list(run(store.notes("permits", 9))) == ["h1", "w1", "w2", "w3"]


def test_a_note_that_replaces_another_needs_it_to_be_there(store: Store) -> None:
    assert not run(store.put_note("permits", "h1", "two", "one", replaces=True))
    assert run(store.get_note("permits", "h1")) is None
    run(store.put_note("permits", "h1", "one", None))
    assert not run(store.put_note("permits", "h1", "two", "zero", replaces=True))
    assert run(store.put_note("permits", "h1", "two", "one", replaces=True))
    assert run(store.put_note("permits", "h1", "two", "one", replaces=True))  # a caller that did not hear the answer
    assert run(store.get_note("permits", "h1")) == "two"


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
    assert not run(store.drop_note("lock", "nightly", "one", once=True))
    assert run(store.get_note("lock", "nightly")) is None


@pytest.mark.threads
def test_of_many_who_drop_the_same_one_has_done_it(store: Store) -> None:
    """It gives to others what the note was about: a turn that came back twice would be two claimants'."""
    run(store.put_note("pace", "turn", "one", None))
    assert at_once(16, lambda number: run(store.drop_note("pace", "turn"))).count(True) == 1
    run(store.put_note("pace", "turn", "60", None))
    assert not run(store.drop_note("pace", "turn", "30", once=True))
    assert at_once(16, lambda number: run(store.drop_note("pace", "turn", "60", once=True))).count(True) == 1


@pytest.mark.threads
def test_of_many_writers_who_know_the_same_one_wins(store: Store) -> None:
    run(store.put_note("firing", "nightly", "zero", None))
    won = at_once(16, lambda number: run(store.put_note("firing", "nightly", f"{number}", "zero")))
    assert sorted(won) == [*[False] * 15, True]
    assert run(store.get_note("firing", "nightly")) == f"{won.index(True)}"
