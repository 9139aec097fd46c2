"""Updates: a caller has a durable function's handler change it while it waits, once for each id."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, cast

import pytest

from stepwell.client.errors import UpdateFailed
from stepwell.definition.graph import Json
from stepwell.engine.durable import session
from stepwell.errors import Conflict, InvalidInput, NotFound, PortError
from stepwell.runtime.calls.updates import Answered
from stepwell.runtime.log.messages import Update
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Appended, EventRef, Writes
from stepwell.testing.kit import Run, Stepwell

CODE = """
import asyncio
from stepwell import Retry, step, workflow

@step
def count(items: list[str]) -> int:
    return len(items)

@workflow
async def shop(ctx, wait: str = "event"):
    items = []

    @ctx.update("add_item")
    def add_item(item: str, times: int = 1) -> int:
        items.extend([item] * times)
        ctx.state["items"] = list(items)
        return len(items)

    @ctx.update("stamp")
    def stamp():
        items.append(f"{ctx.random()} {ctx.uuid()} {ctx.now().isoformat()}")
        return items[-1]

    @ctx.update("half")
    def half():
        items.append("half")
        ctx.state["items"] = list(items)
        raise ValueError("no more")

    ctx.update("awaits", lambda: ctx.step(count, items))
    ctx.update("patches", lambda: ctx.patched("new"))
    ctx.query("items", lambda: items)
    if wait == "event":
        await ctx.event("pay")
    elif wait == "sleep":
        await ctx.sleep("1h")
    elif wait == "approval":
        await ctx.approval("order", approvers=["ann", "bob"], need=2)
    elif wait == "all":
        await ctx.all(ctx.event("pay"), ctx.event("pack"))
    elif wait == "children":
        await ctx.child("slow")
    elif wait == "again" and not ctx.state.get("items"):
        await ctx.event("pay")
        return ctx.continue_as(shop, "again")
    elif wait == "again":
        await ctx.event("pay")
    return [await ctx.step(count, items), items]

@workflow
async def brief(ctx):
    ctx.update("add_item", lambda item: item)

@workflow
async def checked(ctx):
    items = []

    @ctx.update("add_item")
    def add_item(item: str) -> int:
        if item == "bad":
            raise ValueError("handler")
        items.append(item)
        return len(items)

    @add_item.validator
    def check(item: str) -> None:
        if not item:
            raise ValueError("an item has a name")
        if item in items:
            raise ValueError("it is there")

    @ctx.update("writes")
    def writes(): ...

    @writes.validator
    def also(): ctx.state["a"] = 1

    await ctx.event("pay")
    return items

@workflow
async def late(ctx, what: str = "step"):
    items = []

    @ctx.update("add_item")
    def add_item(item):
        items.append(item)
        return len(items)

    def counted():
        return count(items)

    counting = Retry(10, "constant", initial_delay="5m")
    match what:
        case "step":
            await ctx.step(count, items, retry=counting)
        case "call":
            await ctx.run(counted, name="count", retry=counting)
        case "fork":
            await ctx.all(ctx.step(count, items, retry=counting), ctx.step(count, items, retry=counting))
        case "lock":
            async with ctx.lock("room"):
                await ctx.sleep("1h")
        case "sleep":
            await ctx.sleep("2h")
        case "tasks":
            await asyncio.gather(ctx.step(count, items, retry=counting), asyncio.sleep(3600))
    await ctx.event("pay")
    return items

@workflow
async def slow(ctx):
    await ctx.event("child.done")
"""


@pytest.fixture(params=[16, 0], ids=["warm", "cold"])
def kit(tmp_path: Path, request: pytest.FixtureRequest) -> Stepwell:
    (tmp_path / "shop_updates.py").write_text(CODE)
    return Stepwell(tmp_path, sessions=request.param)


@pytest.fixture
def run(kit: Stepwell) -> Run:
    return kit.start("shop")


def received(run: Run) -> list[dict[str, object]]:
    return [dict(entry["data"]) for entry in run.history if entry["type"] == "update.received"]


def test_an_update_answers_and_the_function_goes_on_with_what_it_changed(run: Run) -> None:
    assert run.update("add_item", {"item": "cup"}) == 1
    assert run.update("add_item", {"item": "pot", "times": 2}) == 3
    assert run.state["items"] == ["cup", "pot", "pot"]
    run.event("pay")
    assert run.result == [3, ["cup", "pot", "pot"]]


def test_an_id_that_is_sent_again_has_the_first_answer_and_changes_nothing(run: Run) -> None:
    assert [run.update("add_item", {"item": "cup"}, "one") for _ in range(2)] == [1, 1]
    assert run.query("items") == ["cup"]


@pytest.mark.parametrize(("name", "given"), [("add_item", {"item": "pot"}), ("half", {"item": "cup"})])
def test_the_id_of_another_update_is_refused(run: Run, name: str, given: Json) -> None:
    assert run.update("add_item", {"item": "cup"}, "one") == 1
    with pytest.raises(Conflict) as refused:
        run.update(name, given, "one")
    assert refused.value.code == "already_used"
    assert run.query("items") == ["cup"]


def test_what_does_not_fit_is_an_error_and_changes_nothing(run: Run) -> None:
    for name, given, code in (("add_item", {"item": 1}, "step_input"), ("add_it", None, "unknown_update")):
        with pytest.raises(UpdateFailed) as failed:
            run.update(name, given)
        assert failed.value.type == code
        assert cast("Any", received(run)[-1]["error"])["type"] == code
    assert run.query("items") == []
    assert run.update("add_item", {"item": "cup"}) == 1


def test_what_a_handler_raises_is_the_answer_and_what_it_had_changed_stays(run: Run) -> None:
    with pytest.raises(UpdateFailed, match="ValueError: no more"):
        run.update("half")
    run.event("pay")
    assert run.result == [1, ["half"]]


@pytest.mark.parametrize(("name", "code"), [("awaits", "never_awaited"), ("patches", "patch_in_update")])
def test_a_handler_awaits_nothing_and_asks_for_no_patch(run: Run, name: str, code: str) -> None:
    with pytest.raises(UpdateFailed) as failed:
        run.update(name)
    assert failed.value.type == code


def test_chance_and_time_are_the_same_in_each_replay(run: Run, kit: Stepwell) -> None:
    kit.advance("10m")
    made = run.update("stamp")
    assert run.query("items") == [made]
    run.event("pay")
    assert run.result == [1, [made]]


@pytest.mark.parametrize("wait", ["sleep", "approval", "all", "children"])
def test_a_wait_goes_on_as_if_there_had_been_no_update(kit: Stepwell, wait: str) -> None:
    run = kit.start("shop", {"wait": wait})
    assert run.update("add_item", {"item": "cup"}) == 1
    if wait == "approval":
        run.approve(by="ann")
        assert run.update("add_item", {"item": "pot"}) == 2
        run.approve(by="bob")
    elif wait == "all":
        run.event("pack")
        assert run.update("add_item", {"item": "pot"}) == 2
        run.event("pay")
    elif wait == "children":
        assert run.update("add_item", {"item": "pot"}) == 2
        run.children["slow"].event("child.done")
    else:
        kit.advance("30m")
        assert run.update("add_item", {"item": "pot"}) == 2
        kit.advance("29m")
        assert run.status == "waiting"
        kit.advance("1m")
    assert run.result == [2, ["cup", "pot"]]
    assert received(run)[0] == {"name": "add_item", "id": received(run)[0]["id"], "input": {"item": "cup"}, "output": 1}


def test_an_update_that_came_too_late_is_told_so(kit: Stepwell) -> None:
    run = kit.start("brief")
    sent = run_now(kit.service.update(run.id, "add_item", {"item": "cup"}))
    kit.settle()
    with pytest.raises(Conflict) as refused:
        run_now(kit.service.update_answer(run.id, sent))
    assert refused.value.code == "run_ended"


def test_a_run_that_begins_anew_does_not_take_it_again(kit: Stepwell) -> None:
    run = kit.start("shop", {"wait": "again"})
    assert run.update("add_item", {"item": "cup"}) == 1
    run.event("pay")
    assert run.query("items") == []
    assert run.update("add_item", {"item": "pot"}) == 1
    run.event("pay")
    assert run.result == [1, ["pot"]]


def test_what_cannot_be_is_refused_at_once(run: Run, kit: Stepwell) -> None:
    run.event("pay")
    with pytest.raises(Conflict, match="ended"):
        run.update("add_item", {"item": "cup"})
    with pytest.raises(NotFound):
        run_now(kit.service.update_answer(run.id, "none"))
    with pytest.raises(NotFound):
        run_now(kit.service.update("run_none", "add_item"))
    with pytest.raises(InvalidInput):
        run_now(kit.service.send_event("stepwell.update", {"name": "add_item"}, run_id=run.id))


@pytest.mark.parametrize("what", ["step", "call", "fork", "lock", "sleep", "tasks"])
def test_an_update_is_taken_at_once_while_an_operation_is_in_progress(kit: Stepwell, what: str) -> None:
    """The first to have the lock holds it for an hour."""
    kit.mock("count", raises=ConnectionError("down"), times=4)
    runs = [kit.start("late", {"what": what}) for _ in range(2)]
    for run in runs:
        assert run.update("add_item", {"item": "cup"}) == 1
        kit.advance("10m")
        assert run.update("add_item", {"item": "pot"}) == 2
    assert {run.status for run in runs} <= {"running", "waiting"}
    kit.advance("3h")
    for run in runs:
        run.event("pay")
        assert run.result == ["cup", "pot"], run.error


def test_a_function_that_takes_updates_replays_the_log_of_an_earlier_release(
    kit: Stepwell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There its steps and forks were alone."""
    kit.mock("count", raises=ConnectionError("down"), times=4)
    with monkeypatch.context() as patched:
        patched.setattr(session, "takes_no_updates", lambda asked: False)
        runs = [kit.start("late", {"what": what}) for what in ("step", "fork")]
        assert [run.view["cost"]["records"] for run in runs] == [1, 1]
    kit._steps.reload()
    kit.advance("3h")
    for run in runs:
        run.event("pay")
        assert run.result == [], run.error


def test_a_validator_refuses_before_anything_is_written(kit: Stepwell) -> None:
    run = kit.start("checked")
    assert run.update("add_item", {"item": "cup"}) == 1
    before = (len(run.history), run.view["cost"]["records"])
    for given, message in (({"item": ""}, "an item has a name"), ({"item": "cup"}, "it is there")):
        sent = run_now(kit.service.update(run.id, "add_item", given))
        kit.settle()
        for _ in range(2):
            with pytest.raises(Conflict) as refused:
                run_now(kit.service.update_answer(run.id, sent))
            told = (refused.value.code, refused.value.message, refused.value.hint)
            assert told == ("update_refused", f"its validator refuses it: ValueError: {message}", None)
            run_now(kit.service.update(run.id, "add_item", given, sent))
            kit.settle()
    assert (len(run.history), run.view["cost"]["records"]) == before
    with pytest.raises(UpdateFailed, match="handler"):
        run.update("add_item", {"item": "bad"})
    run.event("pay")
    assert run.result == ["cup"]


def test_a_validator_changes_nothing_of_the_run(kit: Stepwell) -> None:
    run = kit.start("checked")
    with pytest.raises(Conflict, match="TypeError"):
        run.update("writes")
    assert run.state == {}


class Worker:
    """A store whose transaction with an update's record does not come about the first time, or seems not to."""

    def __init__(self, kit: Stepwell, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
        self.how, self.times = how, 0
        self._append = kit.service.ports.log.append
        monkeypatch.setattr(kit.service.ports.log, "append", self.append)

    async def append(self, *given: Any, consumes: EventRef | None = None, also: Writes = ()) -> Appended:
        self.times += consumes is not None
        if consumes is None or self.times > 1 or self.how == "duplicate":
            return await self._append(*given, consumes=consumes, also=also)
        if self.how == "another took the slot":
            run_id, token, slot, body = given
            await self._append(run_id, token, slot, json.dumps({**json.loads(body), "by": "x"}), consumes=consumes)
            return await self._append(*given, consumes=consumes, also=also)
        if self.how == "it died after the record":
            await self._append(*given, consumes=consumes, also=also)
        raise PortError("the store did not answer")


@pytest.mark.parametrize(
    "how", ["duplicate", "another took the slot", "it died after the record", "it died before the record"]
)
def test_an_update_is_made_once_whatever_becomes_of_its_worker(
    kit: Stepwell, run: Run, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    kit.settle()
    Worker(kit, monkeypatch, how)
    for _ in range(3):
        run_now(kit.service.update(run.id, "add_item", {"item": "cup"}, "one"))
    with contextlib.suppress(PortError):
        kit.settle()
    kit.advance("5m")
    assert run_now(kit.service.update_answer(run.id, "one")) == Answered(1)
    assert (run.query("items"), len(received(run))) == (["cup"], 1)
    assert run.update("add_item", {"item": "pot"}) == 2
    run.event("pay")
    assert run.result == [2, ["cup", "pot"]]


def test_code_whose_handler_is_gone_or_fails_is_stuck_until_it_is_mended(tmp_path: Path) -> None:
    module = tmp_path / "shop_updates.py"
    module.write_text(CODE)
    kit = Stepwell(tmp_path)
    run = kit.start("shop")
    run.update("add_item", {"item": "cup"})
    module.write_text(CODE.replace('"add_item"', '"add_items"'))
    kit._steps.reload()
    run.event("pay")
    stuck = [entry for entry in run.history if entry["type"] == "function.stuck"]
    told = stuck[0]["data"]["error"]
    assert (told["type"], told["slot"], told["expected"]) == ("non_determinism", 1, "update add_item")
    module.write_text(CODE)
    kit._steps.reload()
    kit.advance("2m")
    assert run.result == [1, ["cup"]]


@pytest.mark.parametrize("is_paid", [True, False])
def test_an_update_waits_for_mended_code_and_a_later_event_may_be_taken_before_it(
    tmp_path: Path, is_paid: bool
) -> None:
    module = tmp_path / "shop_updates.py"
    module.write_text(CODE)
    kit = Stepwell(tmp_path)
    run = kit.start("shop")
    module.write_text("raise ValueError('broken')")
    kit._steps.reload()
    run_now(kit.service.update(run.id, "add_item", {"item": "cup"}, "one"))
    kit.settle()
    if is_paid:
        run.event("pay")
    kit.advance("5m")
    assert run_now(kit.service.update_answer(run.id, "one")) is None
    module.write_text(CODE)
    kit._steps.reload()
    kit.advance("2m")
    if is_paid:
        assert run.result == [0, []]
        with pytest.raises(Conflict, match="ended"):
            run_now(kit.service.update_answer(run.id, "one"))
    else:
        assert run_now(kit.service.update_answer(run.id, "one")) == Answered(1)


def test_a_child_that_ends_as_its_parent_is_updated_is_not_lost(kit: Stepwell, monkeypatch: pytest.MonkeyPatch) -> None:
    run = kit.start("shop", {"wait": "children"})
    kit.settle()
    store = kit.service.ports.log
    made: list[Any] = []
    append = store.append

    async def append_late(run_id: str, *given: Any, **named: Any) -> Appended:
        if run_id == run.id and not made:
            made.append(await kit.service.update(run.id, "add_item", {"item": "cup"}, "one"))
            await kit._parts.updates.handle(Update(run.id, "one"))
        return await append(run_id, *given, **named)

    child = run.children["slow"]
    monkeypatch.setattr(store, "append", append_late)
    child.event("child.done")
    assert (run.result, made) == ([1, ["cup"]], ["one"])


def test_an_update_that_is_sent_twice_wakes_no_second_worker_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(
        "from stepwell import workflow\n"
        "@workflow\n"
        "async def shop(ctx):\n"
        "    items = []\n"
        "    ctx.update('add', lambda item: items.append(item))\n"
        "    await ctx.until(lambda: items)\n"
        "    return items\n"
    )
    kit = Stepwell(tmp_path)
    run = kit.start("shop")
    assert run.status == "waiting"
    queue, sent = kit.service.ports.queue, list[Any]()
    send = queue.send

    async def noted(lane: Any, message: Any, at_ms: int = 0) -> None:
        sent.append(message)
        await send(lane, message, at_ms)

    monkeypatch.setattr(queue, "send", noted)
    run_now(kit.service.update(run.id, "add", {"item": "cup"}, "one"))
    for _ in range(2):
        run_now(kit._parts.updates.handle(Update(run.id, "one")))
    assert [one.get("late", False) for one in sent if one["type"] == "wake"] == [False, True]
    kit.advance("15m")
    assert run.result == ["cup"]
    kit.close()
