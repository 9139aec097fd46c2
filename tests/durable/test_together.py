"""`all`, `first` and `map`: what they give, what becomes of those that lose, and how they nest."""

from __future__ import annotations

import pytest

from stepwell.runtime.durable import gathering
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Stepwell
from tests.durable.conftest import Flows

HEAD = """
from stepwell import ChildFailed, OperationFailed, Rejected, StepFailed, WaitTimedOut, workflow

def double(n: int) -> int:
    return n * 2

def broken(n: int = 0):
    raise ValueError(f"no {n}")

@workflow
async def child(ctx, n: int) -> int:
    await ctx.sleep("30m")
    return n

async def leg(ctx, n):
    doubled = await ctx.step(double, n)
    await ctx.sleep(60 * n)
    return doubled

async def nothing(ctx):
    return "at once"

"""


def beat(kit: Stepwell, url: str) -> None:
    """Tells that whoever works on the callback lives."""
    run_now(kit.service.callbacks.beat(kit._links.callback(url.rpartition("/")[2], kit._clock.now_ms())))


@pytest.fixture(params=[1_000, 0], ids=["warm", "cold"])
def sessions(request: pytest.FixtureRequest) -> int:
    """How many functions are kept between two operations: with none, each is replayed from its log."""
    return int(request.param)


def ended(kit: Stepwell, body: str) -> object:
    """What the workflow gave, with two hours for it."""
    run = kit.start("flow")
    kit.advance("2h")
    assert run.status == "completed", (run, run.error, run.view["waiting_data"])
    return run.result


def flow(body: str, parameters: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return f"{HEAD}@workflow\nasync def flow(ctx{parameters}):\n{lines}"


def test_all_gives_the_results_in_order_whatever_it_is_made_of(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
got = await ctx.all(
    ctx.step(double, 1), leg(ctx, 2), ctx.sleep(5), ctx.child(child, 3), ctx.event("e", timeout="3h"), nothing(ctx),
    ctx.all(ctx.step(double, 4), ctx.step(double, 5)), ctx.all(), ctx.map(double, [6, 7]),
    ctx.all(ctx.child(child, 8), ctx.child(child, 9)), ctx.all(ctx.event("f"), ctx.event("g")),
)
return got
"""), sessions=sessions)  # fmt: skip
    run = kit.start("flow")
    for name in "efg":
        kit.event(name, name.upper())
    kit.advance("1h")
    assert run.result == [2, 4, None, 3, "E", "at once", [8, 10], [], [12, 14], [8, 9], ["F", "G"]]


def test_waits_that_are_awaited_together_are_one_wait(flows: Flows) -> None:
    kit = flows(
        flow("""
return await ctx.all(ctx.event("a"), ctx.approval("boss"), ctx.event("b", key=1))
""")
    )
    run = kit.start("flow")
    kit.event("b", 2, key="1")
    run.approve(by="ana")
    kit.event("a", 1)
    a, yes, b = run.result
    assert (a, yes["by"], b) == (1, "ana", 2)
    assert run.view["cost"]["records"] == 5  # one that waits, one for each that came, and the end


def test_the_time_limit_of_a_wait_ends_with_it_and_not_the_wait_beside_it(flows: Flows, sessions: int) -> None:
    """As one wait, both would have the limit of the first, whose event had come in time."""
    kit = flows(flow('return await ctx.all(ctx.event("a", timeout="1m"), ctx.event("b"))'), sessions=sessions)
    run = kit.start("flow")
    kit.event("a", 1)
    kit.advance("2m")
    assert run.status == "waiting", run.error
    kit.event("b", 2)
    assert run.result == [1, 2]
    late = kit.start("flow")
    kit.event("b", 2)
    kit.advance("2m")
    assert (late.status, late.error and late.error["type"]) == ("timed_out", "event_timeout")


def test_a_callback_needs_no_heartbeat_because_another_beside_it_does(flows: Flows, sessions: int) -> None:
    body = """
one, two = ctx.callback(heartbeat="1m"), ctx.callback()
ctx.state["urls"] = [one.url, two.url]
return await ctx.all(one, two)
"""
    kit = flows(flow(body), sessions=sessions)
    run = kit.start("flow")
    one, two = run.state["urls"]
    kit.callback(one, 1)
    kit.advance("5m")
    assert run.status == "waiting", run.error
    kit.callback(two, 2)
    assert run.result == [1, 2]


def test_a_wait_for_all_that_was_begun_with_one_limit_for_all_goes_on(
    flows: Flows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier version recorded it so."""
    kit = flows(flow('return await ctx.all(ctx.event("a", timeout="1m"), ctx.event("b"))'), sessions=0)
    run = kit.start("flow")
    with monkeypatch.context() as earlier:
        earlier.setattr(gathering, "_have_one_limit", lambda operations: True)
        assert run.waiting_for == "event"
    kit.event("a", 1)
    kit.event("b", 2)
    assert run.result == [1, 2]


def test_the_time_out_of_a_race_names_the_wait_whose_limit_it_is(flows: Flows, sessions: int) -> None:
    """The whole goes by the kind that people end; `all` names the first that has not come."""
    kit = flows(
        flow(
            """
waits = [ctx.approval("boss", timeout=one), ctx.event("paid", timeout=two), ctx.callback(timeout=three)]
return await (ctx.all if one == two else ctx.first)(*waits)
""",
            parameters=", one: int, two: int, three: int",
        ),
        sessions=sessions,
    )
    for limits, kind, what in (
        ((60, 120, 90), "approval_timeout", "approval"),
        ((120, 60, 90), "event_timeout", "event paid"),
        ((120, 90, 60), "callback_timeout", "callback"),
        ((60, 60, 60), "event_timeout", "event paid"),
    ):
        run = kit.start("flow", dict(zip(("one", "two", "three"), limits, strict=True)))
        if limits == (60, 60, 60):
            run.approve()
        kit.advance("59s")
        assert run.status == "waiting"
        kit.advance("2s")
        assert run.status == "timed_out"
        assert run.error is not None
        assert (run.error["type"], f"waited for {what} until" in run.error["message"]) == (kind, True), run.error


def test_a_heartbeat_is_for_the_callback_that_it_was_sent_to(flows: Flows, sessions: int) -> None:
    body = """
one, two, three = ctx.callback(heartbeat="1m"), ctx.callback(heartbeat=beat), ctx.callback()
ctx.state["urls"] = [one.url, two.url, three.url]
return (await ctx.first(one, two, three)).winner
"""
    kit = flows(flow(body, parameters=", beat: str"), sessions=sessions)
    run = kit.start("flow", {"beat": "3m"})
    one, two, three = run.state["urls"]
    for _ in range(9):
        for url in (one, two, three):
            beat(kit, url)
        kit.advance("40s")
        assert run.status == "waiting", run.error
    kit.callback(three, 1)
    assert run.result == 2
    alike = kit.start("flow", {"beat": "1m"})
    one, two, _ = alike.state["urls"]
    for _ in range(3):
        beat(kit, one)
        kit.advance("25s")
    assert (alike.status, alike.error and alike.error["type"]) == ("timed_out", "heartbeat_timeout")


def test_first_gives_a_value_for_each_that_is_no_timer(flows: Flows, sessions: int) -> None:
    kit = flows(
        flow("""
paid, voided = await ctx.first(ctx.event("paid"), ctx.event("voided"), ctx.timer("1h"))
late = await ctx.first(ctx.event("paid"), ctx.event("voided"), ctx.timer("1h"))
return [paid, voided, list(late), late.winner, late.value]
"""),
        sessions=sessions,
    )
    run = kit.start("flow")
    kit.event("voided", {"by": "ana"})
    kit.advance("1h")
    assert run.result == [None, {"by": "ana"}, [None, None], 2, None]


def test_first_of_anything_cancels_the_losers_with_their_timers_and_children(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
got = await ctx.first(
    leg(ctx, 50), ctx.event("never"), ctx.timer("90m"), ctx.child(child, 1), leg(ctx, 1), ctx.approval(),
    ctx.all(ctx.step(double, 1), ctx.event("nor-this")), ctx.first(ctx.sleep("1d"), leg(ctx, 30)), ctx.callback(),
)
await ctx.sleep("1h")
return [got.winner, got.value]
"""), sessions=sessions)  # fmt: skip
    run = kit.start("flow")
    kit.advance("1m")
    assert run.waiting_for == "sleep"
    (lost,) = kit.runs("child")
    assert lost.status == "cancelled"
    assert {one["status"] for one in run.branches("0/0")} == {"completed", "cancelled"}
    kit.event("never")
    kit.event("nor-this")
    kit.advance("1h")
    assert run.result == [4, 2]
    before = len(run.history)
    kit.advance("3d")
    assert len(run.history) == before


def test_first_of_nested_combinators_reads_the_winner_as_it_is_typed(flows: Flows, sessions: int) -> None:
    kit = flows(
        flow("""
from datetime import date
got = await ctx.first(ctx.all(ctx.event("a", type=date), ctx.event("b")), ctx.timer("1h"), leg(ctx, 100))
again = await ctx.all(ctx.first(ctx.event("c", type=date), ctx.timer("1h")), nothing(ctx))
return [got.value[0].year, got.value[1], again[0].value.year, again[0].winner, list(again[0])[0].month]
"""),
        sessions=sessions,
    )
    kit.event("a", "2031-05-06")
    kit.event("b", 1)
    kit.event("c", "2032-07-08")
    assert ended(kit, "") == [2031, 1, 2032, 0, 7]


def test_a_coroutine_that_ends_at_once_wins(flows: Flows, sessions: int) -> None:
    kit = flows(flow('return (await ctx.first(nothing(ctx), ctx.sleep("1d"))).value'), sessions=sessions)
    assert ended(kit, "") == "at once"


@pytest.mark.parametrize(
    ("awaited", "raised", "kind"),
    [
        ("ctx.all(ctx.step(double, 1), ctx.step(broken), ctx.sleep('1d'))", "ValueError", "ValueError"),
        ("ctx.all(ctx.sleep(1), ctx.event('a', timeout=1))", "WaitTimedOut", "event_timeout"),
        ("ctx.all(ctx.event('a', timeout=1), ctx.event('b'))", "WaitTimedOut", "event_timeout"),
        ("ctx.map(broken, range(3))", "ValueError", "ValueError"),
        ("ctx.first(ctx.step(broken), ctx.sleep('1d'))", "ValueError", "ValueError"),
        ("ctx.all(ctx.child('nobody'), ctx.sleep(1))", "ChildFailed", "unknown_workflow"),
        ("ctx.all(ctx.all(ctx.step(broken), ctx.sleep(1)), ctx.sleep('1d'))", "ValueError", "ValueError"),
    ],
)
def test_a_branch_that_fails_raises_its_own_failure_and_ends_the_others(
    flows: Flows, awaited: str, raised: str, kind: str
) -> None:
    kit = flows(
        HEAD
        + f"""
@workflow
async def flow(ctx):
    try:
        await {awaited}
    except OperationFailed as error:
        return [type(error).__name__, error.type]
"""
    )
    assert ended(kit, "") == [raised, kind]


def test_a_map_of_none_one_and_many_gives_the_results_in_order(flows: Flows, sessions: int) -> None:
    kit = flows(
        flow("""
none, one = await ctx.map(double, []), await ctx.map(double, [4])
many = await ctx.map(double, range(150), max_concurrency=120)
return [none, one, many == [2 * n for n in range(150)]]
"""),
        sessions=sessions,
    )
    assert ended(kit, "") == [[], [8], True]


def test_a_map_has_no_more_at_work_than_it_may(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
from stepwell import wait_for_event

def ask(n: int):
    return wait_for_event("go", key=str(n))

@workflow
async def flow(ctx):
    return await ctx.map(ask, range(4), max_concurrency=2)
"""
    )
    run = kit.start("flow")
    assert [one["status"] for one in run.branches()].count("waiting") == 2
    for n in range(4):
        kit.event("go", {"n": n}, key=str(n))
    assert run.result == [{"n": n} for n in range(4)]


def test_what_a_coroutine_changes_outside_of_itself_stands(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
ctx.state["a"], seen, total = 1, [], 0
async def adds(n):
    nonlocal total
    seen.append(await ctx.step(double, n))
    total += n
    ctx.state["a"] += n
await ctx.all(adds(1), adds(2), ctx.sleep(1))
await ctx.first(adds(3), ctx.timer("1h"))
await ctx.map(adds, [4, 5], max_concurrency=1)
await ctx.sleep(60)
return [ctx.state["a"], sorted(seen), total]
"""), sessions=sessions)  # fmt: skip
    assert ended(kit, "") == [16, [2, 4, 6, 8, 10], 15]


def test_a_coroutines_exception_and_result_are_the_very_objects(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
class Declined(Exception):
    def __init__(self, code):
        self.code = code
class Result:
    value = {1, 2}
async def gives():
    await ctx.step(double, 1)
    return Result()
async def fails(n):
    await ctx.sleep(n)
    raise Declined(n)
(one,) = await ctx.all(gives())
found = [sorted(one.value)]
for awaited in (ctx.all(fails(5), gives()), ctx.first(fails(7), ctx.sleep("1d")), ctx.map(fails, [9])):
    try:
        await awaited
    except Declined as declined:
        found.append(declined.code)
return found
"""), sessions=sessions)  # fmt: skip
    assert ended(kit, "") == [[1, 2], 5, 7, 9]


def test_a_map_of_coroutines_has_no_more_at_work_than_it_may(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
now, most = 0, 0
async def work(n):
    nonlocal now, most
    now, most = now + 1, max(most, now + 1)
    await ctx.sleep(n)
    now -= 1
    return n
mapped = await ctx.map(work, [3, 1, 2, 1, 3], max_concurrency=2)
given = await ctx.map(lambda n: ctx.step(double, n), [1, 2])
return [mapped, most, given, await ctx.all(work(1), work(2), work(3), max_concurrency=1)]
"""), sessions=sessions)  # fmt: skip
    assert ended(kit, "") == [[3, 1, 2, 1, 3], 2, [2, 4], [1, 2, 3]]


MAPS = """
def some(n: int) -> int:
    if n % 2:
        raise ValueError(f"no {n}")
    return n

@workflow
async def flow(ctx, own: bool):
    async def leg(n):
        return await ctx.step(some, n)
    function = leg if own else some
    every = await ctx.map(function, range(5), return_exceptions=True)
    found = [every[::2], [(type(one).__name__, one.type, str(one)) for one in every[1::2]]]
    few = await ctx.map(function, range(5), tolerate={"count": 2}, max_concurrency=2)
    found.append([type(one).__name__ for one in few])
    found.append(len(await ctx.map(function, range(5), tolerate={"percent": 40})))
    both = await ctx.all(ctx.step(some, 1), ctx.sleep(1), return_exceptions=True)
    found.append(type(both[0]).__name__)
    for more in ({"count": 1}, {"percent": 39}):
        try:
            await ctx.map(function, range(5), tolerate=more)
        except StepFailed as failed:
            found.append(failed.type)
    return found
"""


@pytest.mark.parametrize("own", [False, True], ids=["a step", "a coroutine function"])
def test_failures_may_stand_in_their_places(flows: Flows, sessions: int, own: bool) -> None:
    kit = flows(HEAD + MAPS, sessions=sessions)
    run = kit.start("flow", {"own": own})
    kit.advance("2h")
    told = [["ValueError", "ValueError", f"no {n}"] for n in (1, 3)]
    kinds = ["int", "ValueError", "int", "ValueError", "int"]
    assert run.result == [[0, 2, 4], told, kinds, 5, "ValueError", "ValueError", "ValueError"], run.error


def test_a_wait_that_fails_may_stand_in_its_place(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
made = await ctx.all(ctx.event("a", timeout=60), ctx.child("nobody"), ctx.event("b"), return_exceptions=True)
return [type(one).__name__ for one in made]
"""), sessions=sessions)  # fmt: skip
    kit.event("b", 1)
    assert ended(kit, "") == ["WaitTimedOut", "ChildFailed", "int"]


def test_there_is_no_cap_on_waits_and_child_runs_of_one_all(flows: Flows) -> None:
    kit = flows(flow("""
kids = await ctx.all(*[ctx.child(child, n) for n in range(150)])
await ctx.all(*[ctx.event(f"e{n}") for n in range(120)])
return sum(kids)
"""))  # fmt: skip
    run = kit.start("flow")
    kit.advance("31m")
    for n in range(120):
        kit.event(f"e{n}")
    assert run.result == sum(range(150)), run.error


def test_handles_may_be_awaited_together(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
one = ctx.start(ctx.step(double, 1))
two = ctx.step(double, 2)
await two
got = await ctx.all(one, two, ctx.step(double, 3))
return [got, await one]
"""), sessions=sessions)  # fmt: skip
    assert ended(kit, "") == [[2, 4, 6], 2]


@pytest.mark.parametrize("given", ['tolerate={"some": 3}', "tolerate=1", 'tolerate={"count": "3"}', "retry=Retry(3)"])
def test_options_that_a_map_does_not_have_are_told(flows: Flows, given: str) -> None:
    kit = flows(flow(f"""
from stepwell import Retry
async def own(n):
    return n
await ctx.map(own, [1], {given})
"""))  # fmt: skip
    run = kit.start("flow")
    assert run.error is not None
    assert run.error["type"] == "bad_value"


@pytest.mark.parametrize(
    "together", ["ctx.map(double, [1, 2, 3], ", "ctx.all(ctx.step(double, 1), ctx.step(double, 2), "]
)
@pytest.mark.parametrize("at_once", ["5", 2.5, 5.0, -1, True])
def test_a_number_of_operations_at_once_that_is_none_fails_the_run_and_breaks_it_for_nobody(
    flows: Flows, together: str, at_once: object
) -> None:
    kit = flows(flow(f"await {together}max_concurrency=at_once)", ", at_once"))
    run = kit.start("flow", {"at_once": at_once})
    assert run.error is not None
    assert (run.status, run.error["type"]) == ("failed", "bad_value")
    assert f"not {at_once!r}" in run.error["message"]
    assert "fork.opened" not in [entry["type"] for entry in run.history]


def test_what_cannot_be_awaited_together_is_told(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx, which: int):
    import asyncio
    await [
        lambda: ctx.all(1), lambda: ctx.first(), lambda: ctx.all(*[ctx.sleep(1)] * 10_001), lambda: ctx.map(double, 3),
    ][which]()
"""
    )
    for which in range(4):
        run = kit.start("flow", {"which": which})
        assert run.error is not None
        assert (run.status, run.error["type"]) == ("failed", "bad_value")


def test_a_cancel_ends_what_the_branches_do(flows: Flows) -> None:
    kit = flows(flow('await ctx.all(leg(ctx, 10), ctx.child(child, 1), ctx.event("e"))'))
    run = kit.start("flow")
    assert run.status == "waiting"
    assert run.cancel("enough")
    assert run.status == "cancelled"
    assert [one.status for one in kit.runs("child")] == ["cancelled"]


def test_children_within_all_are_all_started_however_they_are_nested(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
return await ctx.all(
    ctx.all(ctx.child(child, 1), ctx.child(child, 2)), ctx.child(child, 3), ctx.all(ctx.child(child, 4)),
)
"""), sessions=sessions)  # fmt: skip
    assert ended(kit, "") == [[1, 2], 3, [4]]
