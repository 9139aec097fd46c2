"""Locks in a token's log: asked for before the node begins, held until it is left, and what a record lets go."""

from __future__ import annotations

import pytest

from stepwell.engine.effect_kinds import Arrive, Open, ReleaseLocks, ShowStatus, TakeLocks
from stepwell.engine.effects import effects
from stepwell.engine.limits.locks import is_before_first
from stepwell.engine.records import Kind, Status
from stepwell.engine.stored.codec import decode_record, encode_record
from stepwell.engine.stored.snapshots import decode_token, encode_token
from stepwell.engine.table import Phase
from stepwell.engine.token import Locks, Token
from tests.engine.kit import Play, failure, play

OF_RUN = "workflow: flow\nlock: [b, a, '{{ input.id }}']\ntimeline: [{name: one, run: x}, {name: two, run: y}]"
OF_STEP = """
workflow: flow
nodes:
  one: {run: x, lock: a, retry: {max_retries: 1, on: [step]}, transitions: [{to: two}]}
  two: {run: y}
"""


def locked(run: Play) -> Play:
    """It has what it asked for."""
    return run.came("locked")


def released(run: Play) -> list[tuple[str, ...]]:
    found = effects(run.graph, run.token)
    return [locks.names for effect in found if isinstance(effect, ReleaseLocks) for locks in effect.locks]


def test_a_run_asks_for_its_locks_by_name_before_its_first_node() -> None:
    run = play(OF_RUN, {"id": 7}).settle()
    assert run.last.kind is Kind.WAITING
    assert run.last.parked is not None
    assert run.last.parked.locks == ("7", "a", "b")
    assert (run.token.phase, run.token.node) == (Phase.WAITING_FOR_EVENT, "")
    (take,) = effects(run.graph, run.token)
    assert isinstance(take, TakeLocks)
    assert take.names == ("7", "a", "b")


def test_a_run_that_has_its_locks_begins() -> None:
    run = locked(play(OF_RUN, {"id": 7}))
    assert run.token.locks == Locks(("7", "a", "b"), 0, held=True)
    assert [type(one) for one in effects(run.graph, run.token)] == [ShowStatus]
    assert run.asked().node == "one"
    assert run.asked().key == "r1:0:2"


def test_a_run_lets_go_with_its_last_record() -> None:
    run = locked(play(OF_RUN, {"id": 7}))
    run.ends(1)
    assert released(run) == []
    run.ends(2)
    assert (run.status, released(run), run.token.locks) == (Status.COMPLETED, [("7", "a", "b")], None)


@pytest.mark.parametrize("waits", [True, False])
def test_a_run_that_is_ended_from_outside_lets_go(waits: bool) -> None:
    run = play(OF_RUN, {"id": 7}).settle() if waits else locked(play(OF_RUN, {"id": 7}))
    run.ended_by(Status.CANCELLED)
    assert released(run) == [("7", "a", "b")]


def test_a_step_holds_its_lock_while_it_is_tried_again() -> None:
    run = locked(play(OF_STEP))
    run.ends(failure=failure())
    assert (released(run), run.token.steps["one"].status) == ([], "running")
    run.now_ms += 10**6
    run.ends(1)
    assert released(run) == [("a",)]
    run.ends(2)
    assert released(run) == []


def test_who_ends_a_run_lets_go_what_the_record_before_did() -> None:
    """Whoever wrote that one may have died before."""
    run = locked(play(OF_STEP))
    run.ends(1)
    run.ended_by(Status.CANCELLED)
    assert released(run) == [("a",)]


def test_locks_are_let_go_before_branches_begin_and_before_a_branch_arrives() -> None:
    run = locked(
        play("""
workflow: flow
nodes:
  one: {run: x, lock: a, transitions: [{to: two, foreach: "[1, 2]"}]}
  two: {run: y, lock: b, transitions: [{to: three}]}
  three: {fan_in: {policy: all}}
""")
    )
    run.ends(1)
    assert [type(one) for one in effects(run.graph, run.token)] == [ReleaseLocks, Open]
    assert Arrive not in [type(one) for one in effects(run.graph, run.token)]


def test_a_queue_that_is_full_is_a_failure_that_rules_can_take() -> None:
    run = play(OF_STEP.replace("[{to: two}]", "[{to: two, when: \"error.type == 'lock_queue_full'\"}]"))
    run.came("lock_refused", name="a").settle()
    assert (run.went_to(), run.last.error and run.last.error.category) == ("two", "transient")
    whole = play(OF_RUN, {"id": 7}).came("lock_refused", name="a").settle()
    assert (whole.status, released(whole)) == (Status.FAILED, [("7", "a", "b")])


def test_what_is_held_and_let_go_survives_its_encoding() -> None:
    for run in (play(OF_RUN, {"id": 7}).settle(), locked(play(OF_RUN, {"id": 7})), locked(play(OF_STEP))):
        assert decode_token(encode_token(run.token)) == run.token
        assert [decode_record(encode_record(record)) for record in run.log] == run.log
    run.ends(1)
    assert decode_token(encode_token(run.token)) == run.token
    assert run.token.released == (Locks(("a",), 0, "one", held=True),)


@pytest.mark.parametrize(("slot", "node", "is_before"), [(2, "", True), (3, "", True), (4, "", False), (2, "a", False)])
def test_a_run_that_waits_for_its_own_locks_or_has_just_got_them_has_not_begun(
    slot: int, node: str, is_before: bool
) -> None:
    assert is_before_first(Token(slot=slot, locks=Locks(("till",), 2, node))) is is_before
