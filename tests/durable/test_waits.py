"""A durable function's waits: sleeps, events, approvals, callbacks."""

from __future__ import annotations

import sys

import pytest

from stepwell.errors import Conflict
from tests.durable.conftest import Flows

HEAD = """
from datetime import timedelta
from stepwell import Rejected, StepFailed, WaitTimedOut, workflow

"""


def test_a_sleep_is_as_long_as_it_says_in_words_seconds_or_a_timedelta(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx):
    start = ctx.now()
    await ctx.sleep("1h")
    await ctx.sleep(1.5)
    await ctx.sleep(timedelta(days=2))
    return (ctx.now() - start).total_seconds()
"""
    )
    run = kit.start("flow")
    kit.advance("30m")
    assert (run.status, run.phase, run.waiting_for) == ("waiting", "sleeping", "sleep")
    kit.advance("3d")
    assert run.result == 3600 + 1.5 + 2 * 86400


UNTIL = """
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo
from stepwell import workflow

@workflow
async def flow(ctx, hours: float, is_zoned: bool = True):
    start = ctx.now()
    when = (start + timedelta(hours=hours)).astimezone(ZoneInfo("Europe/Madrid"))
    await ctx.sleep(when if is_zoned else when.replace(tzinfo=None))
    return (ctx.now() - start).total_seconds() / 3600
"""


@pytest.mark.parametrize(("hours", "slept"), [(36, 36), (-36, 0)])
def test_a_sleep_until_a_time_ends_then_and_at_once_if_the_time_has_passed(
    flows: Flows, hours: int, slept: int
) -> None:
    kit = flows(UNTIL)
    run = kit.start("flow", {"hours": hours})
    kit.advance("3d")
    assert run.result == slept


def test_a_sleep_until_a_time_without_a_zone_fails_and_says_how_to_give_it_one(flows: Flows) -> None:
    run = flows(UNTIL).start("flow", {"hours": 1, "is_zoned": False})
    error = run.error or {}
    assert (run.status, error["type"]) == ("failed", "bad_value")
    assert "has no time zone (give it one: when.replace(tzinfo=UTC)" in error["message"]


def test_a_sleep_until_a_time_of_more_than_a_year_ahead_is_refused(flows: Flows) -> None:
    error = flows(UNTIL).start("flow", {"hours": 24 * 400}).error or {}
    assert error["type"] == "timeout_too_long"


def test_an_event_ends_the_wait_for_its_name_its_key_and_what_it_must_hold(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx, order: int):
    return await ctx.event("paid", key=order, match="event.amount >= 10")
"""
    )
    run = kit.start("flow", {"order": 7})
    assert run.waiting_for == "event"
    kit.event("paid", {"amount": 50}, key="8")
    kit.event("paid", {"amount": 5}, key="7")
    assert run.status == "waiting"
    kit.event("paid", {"amount": 10}, key="7")
    assert run.result == {"amount": 10}


def test_an_event_for_every_waiter_is_for_one_wait_of_a_function_only(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow(events={"price": {"consume_on_read": False}})
async def flow(ctx):
    return [await ctx.event("price") for _ in range(3)]
"""
    )
    run = kit.start("flow")
    for price in (10, 20, 30):
        assert run.status == "waiting"
        kit.event("price", price)
    assert run.result == [10, 20, 30]


def test_an_event_that_came_before_the_function_waited_is_not_lost(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx):
    await ctx.sleep("1h")
    return await ctx.event("paid", key="k")
"""
    )
    run = kit.start("flow")
    kit.event("paid", 1, key="k")
    kit.advance("1h")
    assert run.result == 1


def test_a_wait_that_runs_out_of_time_raises_what_can_be_caught(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx):
    try:
        await ctx.event("paid", timeout="1h")
    except WaitTimedOut as error:
        return [error.type, error.category]
"""
    )
    run = kit.start("flow")
    kit.advance("1h")
    assert run.result == ["event_timeout", "timeout"]


def test_a_wait_that_runs_out_of_time_uncaught_ends_the_run_as_timed_out(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx):
    await ctx.event("paid", timeout="24h")
"""
    )
    run = kit.start("flow")
    kit.advance("24h")
    assert run.error is not None
    assert (run.status, run.error["type"], run.error["step"]) == ("timed_out", "event_timeout", "paid")


def test_a_heartbeat_that_is_missing_uncaught_ends_the_run_as_timed_out(flows: Flows) -> None:
    kit = flows(HEAD + '\n@workflow\nasync def flow(ctx):\n    await ctx.callback(heartbeat="1m")\n')
    run = kit.start("flow")
    kit.advance("1m")
    assert run.error is not None
    assert (run.status, run.error["type"]) == ("timed_out", "heartbeat_timeout")


def test_an_expression_that_cannot_be_read_fails_the_run(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx):
    await ctx.event("paid", match="event.amount >")
"""
    )
    run = kit.start("flow")
    assert run.error is not None
    assert (run.status, run.error["category"]) == ("failed", "validation")


def test_an_approval_gives_who_decided_and_what_they_said(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx, amount: int):
    yes = await ctx.approval("manager", {"amount": amount})
    return [yes["decision"], yes["by"], yes["data"]]
"""
    )
    run = kit.start("flow", {"amount": 80})
    shown = run.view["waiting_data"]
    assert (run.waiting_for, shown["type"], shown["amount"]) == ("approval", "manager", 80)
    run.approve({"note": "fine"}, by="ana")
    assert run.result == ["approved", "ana", {"note": "fine"}]
    with pytest.raises(Conflict):
        run.approve(by="bob")


def test_a_no_is_raised_with_its_reason(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx, take: bool):
    try:
        await ctx.approval("manager")
    except Rejected as error:
        if not take:
            raise
        return [str(error), error.type]
"""
    )
    taken, not_taken = kit.start("flow", {"take": True}), kit.start("flow", {"take": False})
    taken.reject("too dear", by="ana")
    not_taken.reject("too dear", by="ana")
    assert taken.result == ["too dear (by ana)", "rejected"]
    assert not_taken.error is not None
    assert (not_taken.status, not_taken.error["type"], not_taken.error["message"]) == (
        "failed",
        "rejected",
        "too dear (by ana)",
    )


def test_two_of_three_approvers_are_enough(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx):
    yes = await ctx.approval("board", approvers=["ana", "bob", "eve"], need=2)
    return yes["by"]
"""
    )
    run = kit.start("flow")
    run.approve(by="ana")
    assert run.status == "waiting"
    run.approve(by="eve")
    assert run.status == "completed"


def test_two_must_agree_though_anybody_may(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx):
    yes = await ctx.approval("board", need=2)
    return yes["by"]
"""
    )
    run = kit.start("flow")
    run.approve(by="ana")
    assert run.status == "waiting"
    run.approve(by="ana")
    assert run.status == "waiting"
    run.approve(by="eve")
    assert (run.status, run.result) == ("completed", "eve")


@pytest.mark.parametrize("given", ["[]", '[""]', "[None]", '["ana", "ana"], need=2', "None, need=0"])
def test_approvers_are_names_and_as_many_as_must_agree(flows: Flows, given: str) -> None:
    """Else anybody could approve where a list came out empty."""
    kit = flows(
        HEAD
        + f"""
@workflow
async def flow(ctx):
    await ctx.approval("board", approvers={given})
"""
    )
    run = kit.start("flow")
    assert run.error is not None
    assert (run.status, run.error["type"], run.error["category"]) == ("failed", "bad_value", "validation")


def test_a_callback_is_given_away_and_its_url_ends_the_wait_once(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
SENT = []

def send(url: str):
    SENT.append(url)

@workflow
async def flow(ctx):
    callback = ctx.callback(timeout="2d", type=dict[str, int])
    await ctx.step(send, callback.url)
    return (await callback)["paid"]
""",
        sessions=0,
    )
    run = kit.start("flow")
    assert run.waiting_for == "callback"
    kit.callback(_sent(), {"paid": 3})
    assert run.result == 3


def _sent() -> str:
    return str(sys.modules["flow"].SENT[0])


@pytest.mark.parametrize("sessions", [1_000, 0], ids=["warm", "cold"])
def test_a_function_goes_on_after_the_key_of_its_callback_s_url_is_rotated(flows: Flows, sessions: int) -> None:
    """The new URL is another argument of the step that got the old one, which is still good."""
    kit = flows(
        HEAD
        + """
SENT = []

def send(mail: dict):
    SENT.append(mail["text"].split()[-1])

@workflow
async def flow(ctx):
    callback = ctx.callback()
    await ctx.step(send, {"text": f"post it to {callback.url}"})
    await ctx.sleep("1h")
    return await callback
""",
        sessions=sessions,
    )
    run = kit.start("flow")
    assert run.waiting_for == "sleep"
    sent, keys = _sent(), kit._links._keys()
    kit._links._keys = lambda: [b"the new key, " * 4, *keys]
    kit.reload()
    kit.advance("1h")
    assert run.waiting_for == "callback"
    kit.callback(sent, {"paid": 3})
    assert run.result == {"paid": 3}


def test_a_callback_can_bring_an_error(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
SENT = []

def send(url: str):
    SENT.append(url)

@workflow
async def flow(ctx):
    callback = ctx.callback()
    await ctx.step(send, callback.url)
    try:
        await callback
    except StepFailed as error:
        return [error.type, str(error), error.data]
"""
    )
    run = kit.start("flow")
    assert run.waiting_for == "callback"
    kit.callback(_sent(), error="Declined", message="no funds", body={"code": 5})
    assert run.result == ["Declined", "no funds", {"code": 5}]


def test_what_is_no_name_no_duration_or_too_long_is_told_with_a_code(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx, which: int):
    await [
        lambda: ctx.event("no spaces"), lambda: ctx.event("a", key=""), lambda: ctx.sleep("soon"),
        lambda: ctx.sleep("400d"), lambda: ctx.event("a", timeout="400d"), lambda: ctx.sleep(-1),
        lambda: ctx.approval(approvers=["a"], need=2), lambda: ctx.sleep(True),
        lambda: ctx.event("stepwell.update"), lambda: ctx.approval(approvers="ana"),
        lambda: ctx.step(print, timeout="400d"), lambda: ctx.run(print, timeout="400d"),
    ][which]()
"""
    )
    codes = ["bad_name", "bad_key", "bad_duration", "timeout_too_long", "timeout_too_long", "bad_duration", "bad_value",
             "bad_duration", "bad_name", "bad_value", "timeout_too_long", "timeout_too_long"]  # fmt: skip
    for which, code in enumerate(codes):
        run = kit.start("flow", {"which": which})
        assert run.error is not None, (which, run.view["waiting_data"])
        assert (run.status, run.error["type"], run.error["category"]) == ("failed", code, "validation")


def test_a_wait_has_no_time_limit_but_its_own(flows: Flows) -> None:
    kit = flows("""
from stepwell import workflow

@workflow
async def kid(ctx):
    await ctx.event("grown")
    return "grown"

@workflow
async def flow(ctx):
    approved = await ctx.approval("order")
    seen = await ctx.event("seen", timeout="365d")
    both = await ctx.all(ctx.child(kid), ctx.event("later"))
    return [approved["decision"], seen, both]
""")
    run = kit.start("flow")
    kit.advance("60d")
    run.approve()
    kit.advance("300d")
    kit.event("seen", 1)
    kit.advance("100d")
    kit.runs("kid")[0].event("grown")
    kit.event("later", 2)
    assert run.result == ["approved", 1, ["grown", 2]]


@pytest.mark.parametrize("awaited", ["ctx.event('e')", "ctx.child(kid)", "ctx.event('e'), ctx.child(kid)"])
def test_a_timer_ends_what_it_is_raced_with_and_nothing_else_does(flows: Flows, awaited: str) -> None:
    kit = flows(f"""
from stepwell import workflow

@workflow
async def kid(ctx):
    await ctx.event("grown")

@workflow
async def flow(ctx):
    began = ctx.now()
    late = await ctx.first({awaited}, ctx.timer("2h"))
    return [late.value, list(late), (ctx.now() - began).total_seconds()]
""")
    run = kit.start("flow")
    kit.advance("1d")
    assert run.result == [None, [None] * len(awaited.split(", ")), 7_200]
