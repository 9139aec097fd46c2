"""Pushing: of all messages about a token, the one that wrote its last record goes on with it, and no other."""

from __future__ import annotations

import pytest

from stepwell.engine.pushing import in_place_of, is_stale, pushes, pushes_end
from stepwell.engine.records import Kind, Record
from stepwell.engine.table import Phase
from stepwell.engine.token import Token


def at(slot: int, by: str, kind: Kind = Kind.STEP, phase: Phase = Phase.EXECUTING_STEP) -> Token:
    return Token(id="0", slot=slot, last=Record(slot, kind, by, 0), phase=phase)


def test_who_wrote_the_last_record_goes_on_in_each_delivery() -> None:
    assert pushes(at(3, "wake:0:1"), "wake:0:1")
    assert not pushes(at(3, "wake:0:1"), "wake:0:3")
    assert not pushes(Token(), "wake:0:-1")


def test_a_wake_goes_on_where_it_was_sent_for_or_where_it_wrote() -> None:
    assert not is_stale(at(1, "event:paid"), 1, "wake:0:1")
    assert not is_stale(at(4, "wake:0:1"), 1, "wake:0:1")
    assert is_stale(at(2, "event:paid"), 1, "wake:0:1")
    assert not is_stale(Token(), -1, "wake:0:-1")
    assert is_stale(Token(), 0, "wake:0:0")


@pytest.mark.parametrize(
    ("token", "sent_for", "stale"),
    [
        (at(2, "vote:ana", Kind.RECEIVED, Phase.WAITING_FOR_APPROVAL), 1, False),
        (at(2, "vote:ana", Kind.RECEIVED, Phase.EXECUTING_STEP), 1, True),  # the wait is over
        (at(2, "start:2", Kind.GATHERED, Phase.INITIALIZING), -1, False),
        (at(2, "start:2", Kind.GATHERED, Phase.INITIALIZING), 0, False),  # it was due as this start came
    ],
)
def test_whose_writers_push_nothing_makes_no_wake_stale(token: Token, sent_for: int, stale: bool) -> None:
    assert is_stale(token, sent_for, "wake:0:0") is stale


def test_a_dead_letter_goes_on_for_the_wake_and_with_what_it_wrote() -> None:
    assert not is_stale(at(2, "dead:1"), 1, "wake:0:1", "dead:1")


def test_who_pushes_the_end_of_a_branch_stands_in_for_who_wrote_it() -> None:
    ended = at(0, "cancelled by one who died")
    assert in_place_of(ended, "mine") == ("mine", "cancelled by one who died")
    assert pushes(at(2, "cancelled by one who died"), *in_place_of(ended, "mine"))
    assert in_place_of(Token(), "mine") == ("mine",)


def test_a_caller_who_repeats_a_cancel_goes_on_with_it_under_another_name() -> None:
    ended = at(2, "cancel:a", Kind.ENDED)
    assert pushes_end(ended, "cancel:b")
    assert pushes_end(ended, "cancel:a")
    assert not pushes_end(ended, "deadline:b")
    assert not pushes_end(at(2, "deadline:a", Kind.ENDED), "cancel:b")
    assert not pushes_end(Token(), "cancel:b")
