"""Update handlers that are `async`: they await operations, as tasks of the function that takes them."""

from __future__ import annotations

import logging
from datetime import datetime

import pytest

from stepwell.client.errors import UpdateFailed
from stepwell.errors import Conflict
from stepwell.runtime.calls.updates import Answered
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Run, Stepwell
from tests.durable.conftest import Flows
from tests.durable.dying import deaths

CODE = """
import asyncio
from stepwell import Retry, StepFailed, workflow

def price(item: str) -> int:
    return len(item)

def refuse(item: str) -> int:
    raise ValueError(f"no {item}")

@workflow
async def hold(ctx):
    async with ctx.lock("room"):
        await ctx.sleep("1h")

@workflow
async def shop(ctx, close: str = "event"):
    items, seen = {}, []

    @ctx.update("add")
    async def add(item: str) -> int:
        seen.append(item)
        items[item] = await ctx.step(price, item)
        ctx.state["items"] = dict(items)
        return sum(items.values())

    @add.validator
    def check(item: str) -> None:
        if not item:
            raise ValueError("an item has a name")

    @ctx.update("fail")
    async def fail(item: str) -> int:
        return await ctx.step(refuse, item)

    @ctx.update("nap")
    async def nap() -> str:
        await ctx.sleep("1h")
        return str(ctx.now())

    @ctx.update("at_once")
    async def at_once() -> int:
        return len(items)

    @ctx.update("object")
    async def unstorable():
        return object()

    @ctx.update("plain")
    def plain() -> list:
        return list(seen)

    ctx.query("items", lambda: items)
    match close:
        case "event":
            await ctx.event("close")
        case "sleep":
            await ctx.sleep("2h")
        case "asyncio":
            await asyncio.sleep(7200)
        case "until":
            await ctx.until(lambda: items, timeout="1d")
        case "again":
            await ctx.event("close")
            return ctx.continue_as(shop)
        case "lock":
            async with ctx.lock("room"):
                pass
            await ctx.event("close")
    return items
"""


@pytest.fixture(params=[1_000, 0], ids=["warm", "cold"])
def sessions(request: pytest.FixtureRequest) -> int:
    """How many functions are kept between two operations: with none, each is replayed from its log."""
    return int(request.param)


@pytest.fixture
def kit(flows: Flows, sessions: int) -> Stepwell:
    return flows(CODE, sessions=sessions)


def told(run: Run, kind: str) -> list[dict[str, object]]:
    return [dict(entry["data"]) for entry in run.history if entry["type"] == kind]


def test_a_handler_awaits_a_step_and_its_result_is_the_answer(kit: Stepwell) -> None:
    run = kit.start("shop")
    assert [run.update("add", {"item": item}) for item in ("tea", "cups")] == [3, 7]
    assert run.state == {"items": {"tea": 3, "cups": 4}}
    run.event("close")
    assert run.result == {"tea": 3, "cups": 4}
    assert [one["output"] for one in told(run, "update.answered")] == [3, 7]
    assert "output" not in told(run, "update.received")[0]


@pytest.mark.parametrize("close", ["sleep", "asyncio"])
def test_it_goes_on_beside_whatever_its_function_awaits(kit: Stepwell, close: str) -> None:
    run = kit.start("shop", {"close": close})
    kit.advance("30m")
    assert run.update("add", {"item": "tea"}) == 3
    kit.advance("1h")
    assert run.status == "waiting"
    kit.advance("30m")
    assert run.result == {"tea": 3}


def test_it_may_take_as_long_as_it_takes(kit: Stepwell) -> None:
    run = kit.start("shop")
    sent = run_now(kit.service.update(run.id, "nap"))
    kit.advance("59m")
    assert run_now(kit.service.update_answer(run.id, sent)) is None
    assert run.update("add", {"item": "tea"}) == 3
    kit.advance("1m")
    assert run_now(kit.service.update_answer(run.id, sent)) == Answered("2030-01-01 10:00:00+00:00")


def test_what_it_changed_lets_the_function_go_on(kit: Stepwell) -> None:
    run = kit.start("shop", {"close": "until"})
    assert run.update("add", {"item": "tea"}) == 3
    assert run.result == {"tea": 3}


@pytest.mark.parametrize(("name", "given", "kind"), [("fail", {"item": "tea"}, "ValueError"),
                                                     ("object", None, "not_storable")])  # fmt: skip
def test_what_it_raises_is_the_answer_and_the_function_goes_on(
    kit: Stepwell, name: str, given: dict[str, str] | None, kind: str
) -> None:
    run = kit.start("shop")
    with pytest.raises(UpdateFailed) as failed:
        run.update(name, given)
    assert failed.value.type == kind
    assert run.update("add", {"item": "tea"}) == 3
    run.event("close")
    assert run.status == "completed"


def test_one_that_awaits_nothing_answers_too(kit: Stepwell) -> None:
    run = kit.start("shop")
    assert [run.update("at_once"), run.update("plain")] == [0, []]


def test_its_validator_refuses_it_before_anything_is_written(kit: Stepwell, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    run = kit.start("shop")
    with pytest.raises(Conflict, match="a name"):
        run.update("add", {"item": ""})
    assert told(run, "update.received") == []
    (line,) = [one for one in caplog.records if "update" in one.getMessage()]
    assert (line.levelname, line.exc_info) == ("INFO", None)  # nothing is wrong with the code


def test_two_at_once_go_on_beside_each_other_and_an_id_that_comes_again_is_the_same(kit: Stepwell) -> None:
    run = kit.start("shop")
    kit.mock("price", returns=5, takes="1m")
    for item, name in (("tea", "one"), ("cup", "two"), ("tea", "one")):
        run_now(kit.service.update(run.id, "add", {"item": item}, name))
    kit.settle()
    assert [run_now(kit.service.update_answer(run.id, name)) for name in ("one", "two")] == [Answered(5), Answered(10)]
    assert run.query("items") == {"tea": 5, "cup": 5}


@pytest.mark.parametrize("close", ["event", "again"])
def test_one_that_has_not_ended_when_its_function_does_is_told_so(kit: Stepwell, close: str) -> None:
    run = kit.start("shop", {"close": close})
    sent = run_now(kit.service.update(run.id, "nap"))
    kit.settle()
    run.event("close")
    kit.settle()
    answered = run_now(kit.service.update_answer(run.id, sent))
    assert answered is not None
    assert answered.error is not None
    assert answered.error["type"] == "cancelled"
    assert run.status == ("completed" if close == "event" else "waiting")


def test_of_a_run_that_was_terminated_none_has_an_answer(kit: Stepwell) -> None:
    run = kit.start("shop")
    sent = run_now(kit.service.update(run.id, "nap"))
    kit.settle()
    run.terminate()
    with pytest.raises(Conflict) as refused:
        run_now(kit.service.update_answer(run.id, sent))
    assert refused.value.code == "run_ended"


def test_while_its_function_waits_for_a_lock_it_waits_too(kit: Stepwell) -> None:
    holder, run = kit.start("hold"), kit.start("shop", {"close": "lock"})
    assert (holder.waiting_for, run.waiting_for) == ("sleep", "lock")
    sent = run_now(kit.service.update(run.id, "add", {"item": "tea"}))
    kit.settle()
    assert run_now(kit.service.update_answer(run.id, sent)) is None
    kit.advance("1h")
    assert run_now(kit.service.update_answer(run.id, sent)) == Answered(3)
    run.event("close")
    assert run.result == {"tea": 3}


def test_a_handler_that_becomes_async_or_plain_in_a_deploy_keeps_its_answers(flows: Flows) -> None:
    code = """
from stepwell import workflow

@workflow
async def flow(ctx):
    seen = []
    ctx.query("seen", lambda: seen)
    @ctx.update("add")
    %sdef add(item: str) -> int:
        seen.append(item)
        return len(seen)
    await ctx.event("close")
    return seen
"""
    kit = flows(code % "async ")
    run = kit.start("flow")
    assert run.update("add", {"item": "a"}, "first") == 1
    for way, item in (("", "b"), ("async ", "c"), ("", "d")):
        flows.write(code % way)
        kit.reload()
        assert run.update("add", {"item": item}) == len(run.query("seen"))
    assert run_now(kit.service.update_answer(run.id, "first")) == Answered(1)
    run.event("close")
    assert run.result == ["a", "b", "c", "d"]


def test_whoever_dies_at_a_write_the_handler_runs_once_and_answers(flows: Flows, sessions: int) -> None:
    def make() -> Stepwell:
        kit = flows(CODE, sessions=sessions)
        kit.start("shop", run_id="run_one")
        kit.settle()
        return kit

    def play(kit: Stepwell) -> None:
        run_now(kit.service.update("run_one", "add", {"item": "tea"}, "one"))
        kit.settle()

    for kit in deaths(make, play):
        run = Run(kit, "run_one")
        assert run_now(kit.service.update_answer(run.id, "one")) == Answered(3)
        assert (len(told(run, "update.received")), run.update("plain")) == (1, ["tea"])
        run.event("close")
        assert run.result == {"tea": 3}


PLAIN = """
import asyncio
from stepwell import workflow

@workflow
async def lease(ctx):
    seen, loop = [], asyncio.get_running_loop()

    @ctx.update("extend")
    def extend(seconds: int) -> float:
        limit.reschedule(asyncio.get_running_loop().time() + seconds)
        return loop.time() - ctx.now().timestamp()

    async def nap():
        await ctx.sleep(1)

    @ctx.update("begin")
    def begin(name: str) -> None:
        asyncio.create_task(nap())

    @ctx.update("join")
    def join(name: str) -> None:
        group.create_task(nap())

    try:
        async with asyncio.timeout(100) as limit, asyncio.TaskGroup() as group:
            await asyncio.Event().wait()
    except TimeoutError:
        return ctx.now().isoformat()
"""


@pytest.mark.parametrize("sessions", [1_000, 0], ids=["warm", "cold"])
def test_a_plain_handler_has_the_loop_of_its_function_at_the_time_of_the_update(flows: Flows, sessions: int) -> None:
    kit = flows(PLAIN, sessions=sessions)
    run = kit.start("lease")
    began = kit.now
    kit.advance("90s")
    assert run.update("extend", {"seconds": 60}) == 0
    kit.advance("30s")
    assert run.status == "waiting"
    kit.advance("31s")
    assert (datetime.fromisoformat(run.result) - began).total_seconds() == 150


@pytest.mark.parametrize("sessions", [1_000, 0], ids=["warm", "cold"])
@pytest.mark.parametrize("update", ["begin", "join"])
def test_a_plain_handler_starts_tasks_live_and_replayed_alike(flows: Flows, sessions: int, update: str) -> None:
    kit = flows(PLAIN, sessions=sessions)
    run = kit.start("lease")
    run.update(update, {"name": "a"})
    kit.advance("2s")
    assert [one["data"]["begun"] for one in run.history if one["type"] == "tasks.waiting"][-2:] == [["sleep"], []]
    kit.advance("2m")
    assert run.status == "completed"
