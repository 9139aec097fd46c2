"""What `explain` says of an approval: who is still asked, what has been answered, and who is asked next and when."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.cli.hints import with_commands
from tests.api.kit import World, event

SIGN = """
workflow: sign
timeline:
  - name: sign
    wait: {for: approval, timeout: 1d, approvers: {need: 2, of: [ana, leo, kim]}, escalate: {after: 4h, to: [boss]}}
"""
ONE = "workflow: one\ntimeline: [{name: sign, wait: {for: approval, approvers: {of: [ana]}}}]"
TWO = "workflow: two\ntimeline: [{name: sign, wait: {for: approval, approvers: {need: 2}}}]"
EITHER = "workflow: either\ntimeline: [{name: sign, wait: {for: approval, approvers: {of: [leo, kim]}}}]"
ANY = "workflow: any\ntimeline: [{name: sign, wait: {for: approval}}]"
BOTH = """
workflow: both
timeline:
  - name: hold
    wait:
      all:
        - {for: approval, approvers: {of: [ana]}}
        - {for: approval, approvers: {of: [leo, kim]}}
"""
BESIDE = """
workflow: beside
steps:
  - {name: sign, wait: {for: approval, timeout: 1d, approvers: {of: [ana]}}}
  - {name: nap, sleep: 2h}
"""


@pytest.fixture
def world() -> World:
    return World(SIGN, ONE, TWO, EITHER, ANY, BOTH)


def explained(world: World, run_id: str) -> tuple[str, list[tuple[str, str]]]:
    told = world.get(f"/runs/{run_id}/explain").json
    return told["why"], [(one["what"], one["detail"]) for one in told["wakers"]]


def answer(world: World, run_id: str, call: str, **body: Any) -> None:
    assert world.post(f"/runs/{run_id}/{call}", body).status == 200
    world.drain()


def test_an_approval_of_several_says_who_is_asked_how_many_must_agree_and_who_is_asked_next(world: World) -> None:
    run_id = world.start("sign")
    why, wakers = explained(world, run_id)
    assert why.endswith(". 2 of ana, leo and kim must agree; nobody has answered yet.")
    assert wakers == [
        ("call", f'POST /runs/{run_id}/approve or /reject with "by": "ana", "leo" or "kim"'),
        ("timer", "boss is asked too"),
        ("timer", "the wait times out then"),
    ]
    times = [one["at"] for one in world.get(f"/runs/{run_id}/explain").json["wakers"]]
    assert times == [None, "2027-01-15T12:00:00.000Z", "2027-01-16T08:00:00.000Z"]


def test_it_says_who_has_answered_and_who_was_asked_instead(world: World) -> None:
    run_id = world.start("sign")
    answer(world, run_id, "approve", by="ana")
    answer(world, run_id, "delegate", by="leo", to="bea")
    why, wakers = explained(world, run_id)
    assert why.endswith(". 2 of ana, bea and kim must agree; ana approved.")
    assert wakers[0] == ("call", f'POST /runs/{run_id}/approve or /reject with "by": "bea" or "kim"')


def test_once_it_has_escalated_the_others_are_asked_and_no_timer_asks_them_again(world: World) -> None:
    run_id = world.start("sign")
    answer(world, run_id, "reject", by="kim")
    world.advance(5 * 3600)
    why, wakers = explained(world, run_id)
    assert why.endswith(". 2 of ana, leo, kim and boss must agree; kim rejected.")
    assert wakers == [
        ("call", f'POST /runs/{run_id}/approve or /reject with "by": "ana", "leo" or "boss"'),
        ("timer", "the wait times out then"),
    ]


@pytest.mark.parametrize(
    ("workflow", "words", "detail"),
    [
        ("one", "ana must agree; nobody has answered yet.", 'with "by": "ana"'),
        ("two", "2 people must agree; nobody has answered yet.", "by the approver"),
        ("either", "One of leo and kim must agree; nobody has answered yet.", 'with "by": "leo" or "kim"'),
    ],
)
def test_who_is_asked_is_told_in_words(world: World, workflow: str, words: str, detail: str) -> None:
    run_id = world.start(workflow)
    why, wakers = explained(world, run_id)
    assert why.endswith(f". {words}")
    assert wakers[0] == ("call", f"POST /runs/{run_id}/approve or /reject {detail}")


def test_of_an_approval_by_anybody_there_is_nothing_more_to_say(world: World) -> None:
    run_id = world.start("any")
    why, wakers = explained(world, run_id)
    assert "agree" not in why
    assert wakers[0] == ("call", f"POST /runs/{run_id}/approve or /reject by the approver")


def test_each_of_several_approvals_is_told_by_its_name(world: World) -> None:
    run_id = world.start("both")
    why, wakers = explained(world, run_id)
    assert "approval: ana must agree; nobody has answered yet. approval_2: one of leo and kim must agree" in why
    assert [detail for what, detail in wakers if what == "call"] == [
        f'POST /runs/{run_id}/approve or /reject with "wait": "hold/approval" and "by": "ana"',
        f'POST /runs/{run_id}/approve or /reject with "wait": "hold/approval_2" and "by": "leo" or "kim"',
    ]
    answer(world, run_id, "approve", by="ana", wait="hold/approval")
    left = [detail for what, detail in explained(world, run_id)[1] if what == "call"]
    assert [detail.partition(" with ")[2] for detail in left] == ['"wait": "hold/approval_2" and "by": "leo" or "kim"']


@pytest.mark.parametrize(
    ("asked", "command"),
    [
        ('with "by": "ana"', "stepwell approve r1 --by ana, or stepwell reject r1 --by ana"),
        (
            'with "by": "ana lee", "leo" or "kim"',
            "stepwell approve r1 --by 'ana lee', or stepwell reject r1 --by 'ana lee'; or by leo or kim",
        ),
        (
            'with "wait": "hold/approval_2" and "by": "leo" or "kim"',
            "stepwell approve r1 --step hold/approval_2 --by leo, "
            "or stepwell reject r1 --step hold/approval_2 --by leo; or by kim",
        ),
    ],
)
def test_the_command_says_by_whom(asked: str, command: str) -> None:
    """Without `--by`, it would be refused."""
    assert with_commands(f"POST /runs/r1/approve or /reject {asked}") == command


@pytest.mark.parametrize(
    "authorizer", [{"iam": {"userArn": "arn:aws:iam::1:user/ana"}}, {"jwt": {"claims": {"email": "ana@example.com"}}}]
)
@pytest.mark.parametrize(
    ("workflow", "calls", "command"),
    [
        (
            "either",
            ['by "leo" or "kim"'],
            'stepwell approve RUN, or stepwell reject RUN, by "leo" or "kim", whose credentials must say so',
        ),
        (
            "both",
            ['with "wait": "hold/approval" by "ana"', 'with "wait": "hold/approval_2" by "leo" or "kim"'],
            "stepwell approve RUN --step hold/approval, or stepwell reject RUN --step hold/approval, "
            'by "ana", whose credentials must say so',
        ),
        ("any", ["by the approver"], "stepwell approve RUN, or stepwell reject RUN, by the approver"),
    ],
)
def test_who_is_known_by_credentials_is_not_told_to_name_who_answers(
    world: World, authorizer: dict[str, Any], workflow: str, calls: list[str], command: str
) -> None:
    """There `by` decides nothing: the API would refuse the command."""
    run_id = world.start(workflow)
    call = event("GET", f"/runs/{run_id}/explain")
    call["requestContext"]["authorizer"] = authorizer
    told = [one["detail"] for one in world.send(call).json["wakers"] if one["what"] == "call"]
    ends = ["" if one.startswith("by the") else ", whose credentials must say so" for one in calls]
    assert told == [f"POST /runs/{run_id}/approve or /reject {one}{end}" for one, end in zip(calls, ends, strict=True)]
    assert with_commands(told[0]) == command.replace("RUN", run_id)


def test_a_paused_run_shows_the_timers_of_its_wait_which_go_on(world: World) -> None:
    run_id = world.start("sign")
    assert world.post(f"/runs/{run_id}/pause").status == 200
    why, wakers = explained(world, run_id)
    assert "2 of ana, leo and kim must agree" in why
    assert wakers == [
        ("call", f"POST /runs/{run_id}/unpause has it go on"),
        ("timer", "boss is asked too, though it is paused"),
        ("timer", "the wait times out then, though it is paused"),
    ]


def test_a_paused_run_shows_the_timers_of_its_steps_that_wait_beside_each_other() -> None:
    world = World(BESIDE)
    run_id = world.start("beside")
    world.post(f"/runs/{run_id}/pause")
    _, wakers = explained(world, run_id)
    assert sorted(wakers) == [
        ("call", f"POST /runs/{run_id}/unpause has it go on"),
        ("timer", "the time it waits for is over then, though it is paused"),
        ("timer", "the wait times out then, though it is paused"),
    ]
