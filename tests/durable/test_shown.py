"""What lists of runs, and the run itself, say of a durable function whose tasks wait."""

from __future__ import annotations

import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from stepwell.api.runs.explain import explain
from stepwell.api.runs.views import read_run, run_summary
from stepwell.engine.names import iso
from stepwell.errors import Conflict, PortError
from stepwell.limits import HOUR_MS, MINUTE_MS
from stepwell.memory.inbox import ALL_LANES
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.loop.sweeper import Sweeper
from stepwell.runtime.ports.headers import Header, RunQuery
from stepwell.testing.backend import in_memory
from stepwell.testing.kit import Run, Stepwell
from tests.durable.conftest import Flows
from tests.sim.suite_mutants import life_begun_unshown

ASKS = """
import asyncio
from datetime import timedelta
from stepwell import workflow

def work(n: int):
    return n

async def asked(ctx, name, timeout):
    answer = await ctx.approval(name, {"of": name}, timeout=timeout)
    await ctx.step(work, 1)
    return answer["decision"]

@workflow
async def asks(ctx):
    paid = ctx.start(ctx.event("paid", timeout="1h"))
    answers = await ctx.all(asked(ctx, "boss", "3h"), asked(ctx, "cfo", "2h"))
    return [*answers, await paid]

@workflow
async def beside(ctx):
    async with asyncio.TaskGroup() as group:
        group.create_task(asked(ctx, "boss", "3h"))
        group.create_task(worked(ctx))

async def worked(ctx):
    await ctx.step(work, 2)

@workflow
async def lives(ctx, left=1):
    ctx.start(ctx.approval("boss", timeout="3h"))
    if left:
        await ctx.event("paid", timeout="1h")
        return ctx.continue_as(lives, left - 1)
    return await ctx.step(work, 3)

@workflow
async def naps(ctx):
    asking = asyncio.create_task(asked(ctx, "boss", "3h"))
    await asyncio.sleep(60)
    await asyncio.wait([asking], timeout=600)
    return asking.done()

@workflow
async def parents(ctx):
    async def one():
        return await ctx.child("asks", timeout="5h")
    return await asyncio.gather(one(), one())

@workflow
async def until(ctx):
    @ctx.update("go")
    def go(value):
        ctx.state["value"] = value
    await ctx.until(lambda: "value" in ctx.state)
"""


def header(kit: Stepwell, run: Run) -> Header:
    kit.settle()
    return run_now(kit.service.header(run.id))


def listed(kit: Stepwell, kind: str) -> list[str]:
    kit.settle()
    return [one.run_id for one in run_now(kit.service.runs(RunQuery(waiting_for=frozenset({kind})))).headers]


def shown(kit: Stepwell, run: Run) -> tuple[str, str, str, int | None]:
    one = header(kit, run)
    until_ms = one.waiting_until_ms
    left_ms = None if until_ms is None else until_ms - one.waiting_since_ms
    return one.status.value, one.waiting_for, one.waiting_node, left_ms


def test_a_function_whose_tasks_all_wait_is_listed_for_its_first_approval(flows: Flows) -> None:
    """Also where an event is due before it: a list of approvals is to find all of them."""
    kit = flows(ASKS)
    run = kit.start("asks")
    assert shown(kit, run) == ("waiting", "approval", "cfo", 2 * HOUR_MS)
    assert listed(kit, "approval") == [run.id]
    rows: Any = run_now(kit.service.ports.runs.stats())
    assert [row["count"] for row in rows if row["waiting_for"] == "approval"] == [1]


def test_the_list_and_the_run_itself_agree(flows: Flows) -> None:
    kit = flows(ASKS)
    run = kit.start("asks")
    for wait in ("cfo", "boss"):
        view, one = run.view, header(kit, run)
        assert (view["status"], view["waiting_for"]) == (one.status.value, one.waiting_for)
        assert view["waiting_until"] == iso(one.waiting_until_ms or 0)
        assert one.waiting_node in view["current_steps"]
        run.approve(wait=wait)
    assert shown(kit, run) == ("waiting", "event", "paid", HOUR_MS)
    run.event("paid", {"eur": 3})
    assert (run.status, listed(kit, "event"), listed(kit, "approval")) == ("completed", [], [])


def test_a_wait_for_a_condition_has_one_name_in_the_list_and_in_the_run_itself(flows: Flows) -> None:
    kit = flows(ASKS)
    run = kit.start("until")
    listed = run_summary(header(kit, run), 0)
    assert listed["current_steps"] == run.view["current_steps"] == ["until"]
    assert listed["waiting_for"] == run.view["waiting_for"] == "tasks"


def test_while_a_step_runs_beside_the_run_is_running(flows: Flows) -> None:
    kit = flows(ASKS)
    seen: list[tuple[str, str]] = []

    def looks(_: object) -> str:
        header = run_now(kit.service.header(run.id))
        view = run_now(read_run(kit.service, run.id))
        seen.append((header.status.value, view["status"]))
        return "10s"

    kit.mock("work", takes=looks)
    run = kit.start("beside")
    assert shown(kit, run)[:3] == ("waiting", "approval", "boss")
    run.approve()
    assert run.status == "completed"
    assert seen == [("running", "running")] * 2


def test_a_function_that_begins_anew_is_running_though_its_tasks_waited_before(flows: Flows) -> None:
    kit = flows(ASKS)
    seen: list[str] = []

    def looks(_: object) -> str:
        seen.append(run_now(kit.service.header(run.id)).status.value)
        return "10s"

    kit.mock("work", takes=looks)
    run = kit.start("lives")
    assert shown(kit, run)[:3] == ("waiting", "approval", "boss")
    run.event("paid", {})
    assert (run.status, seen) == ("completed", ["running"])


def test_it_would_be_listed_as_waiting_if_no_record_showed_its_new_life(flows: Flows) -> None:
    with life_begun_unshown(), pytest.raises(AssertionError):
        test_a_function_that_begins_anew_is_running_though_its_tasks_waited_before(flows)


def test_a_timer_of_the_function_does_not_hide_its_approval(flows: Flows) -> None:
    kit = flows(ASKS)
    run = kit.start("naps")
    assert shown(kit, run) == ("waiting", "approval", "boss", 3 * HOUR_MS)
    kit.advance("61s")
    assert shown(kit, run) == ("waiting", "approval", "boss", 3 * HOUR_MS)
    kit.advance("11m")
    assert (run.status, run.result) == ("completed", False)


def test_tasks_that_wait_for_child_runs_are_listed_so(flows: Flows) -> None:
    kit = flows(ASKS)
    run = kit.start("parents")
    assert shown(kit, run)[:2] == ("waiting", "children")


def test_an_approval_of_a_task_is_answered_by_its_name(flows: Flows) -> None:
    kit = flows(ASKS)
    run = kit.start("asks")
    with pytest.raises(Conflict, match="2 branches wait for an approval"):
        run.approve()
    run.approve(wait="boss")
    run.approve()
    run.event("paid")
    assert run.result == ["approved", "approved", None]


def test_the_tokens_are_all_operations_that_are_open_whenever_they_began(flows: Flows) -> None:
    kit = flows(ASKS)
    seen: list[dict[str, str | None]] = []

    def looks(_: object) -> str:
        view = run_now(read_run(kit.service, run.id))
        seen.append({one["step"]: one["waiting_for"] for one in view["tokens"]})
        seen.append({name: one["status"] for name, one in view["steps"].items()})
        return "10s"

    kit.mock("work", takes=looks)
    run = kit.start("asks")
    run.approve(wait="cfo")
    found = {one["step"]: one["waiting_for"] for one in run.view["tokens"]}
    assert found == {"boss": "approval", "paid": "event"}
    assert seen == [
        {"boss": "approval", "paid": "event", "work": None},
        {"boss": "waiting", "cfo": "completed", "paid": "waiting", "work": "running"},
    ]


def test_why_it_waits_names_each_operation(flows: Flows) -> None:
    kit = flows(ASKS)
    run = kit.start("asks")
    run.approve(wait="cfo")
    kit.settle()
    told = explain(run_now(kit.service.standing(run.id)), int(kit.now.timestamp() * 1000), None, {})
    assert told["why"].startswith("Its tasks wait for 2 operations. It waits at boss for approval")
    assert (told["waiting_for"], told["nothing_can_wake_it"]) == ("approval", False)


def test_why_it_waits_for_many_operations_names_the_first_three(flows: Flows) -> None:
    kit = flows(
        "import asyncio\nfrom stepwell import workflow\n@workflow\nasync def many(ctx):\n"
        "    await asyncio.gather(*[ctx.event(f'e{n}') for n in range(20)])"
    )
    run = kit.start("many")
    kit.settle()
    told = explain(run_now(kit.service.standing(run.id)), int(kit.now.timestamp() * 1000), None, {})
    assert [f"event e{n} " in told["why"] for n in range(4)] == [True, True, True, False]
    assert (told["why"].count("So do 17 more"), len(told["wakers"])) == (1, 6)


@pytest.mark.parametrize(
    ("awaited", "why", "wakers"),
    [
        ("ctx.all(ctx.child(kid), ctx.sleep('1d')), ctx.child(kid)",
         "Its tasks wait for 2 operations. It waits at kid for its child run since", {"child", "branch"}),
        ("*[ctx.child(kid) for _ in range(120)]",
         "Its tasks wait for 120 operations. All under way wait, first of them kid for children.", {"branch"}),
    ],
)  # fmt: skip
def test_why_a_function_waits_for_child_runs_names_no_worker(
    flows: Flows, awaited: str, why: str, wakers: set[str]
) -> None:
    """Neither where a task stands at a fork of its own, nor where there are too many to read."""
    kit = flows(
        "import asyncio\nfrom stepwell import workflow\n@workflow\nasync def kid(ctx):\n    await ctx.approval()\n"
        f"@workflow\nasync def parent(ctx):\n    await asyncio.gather({awaited})"
    )
    run = kit.start("parent")
    kit.settle()
    told = explain(run_now(kit.service.standing(run.id)), int(kit.now.timestamp() * 1000), None, {})
    assert told["why"].startswith(why)
    assert ({one["what"] for one in told["wakers"]}, told["in_queue"]) == (wakers, False)


def test_why_a_function_waits_for_an_update_is_no_defect(flows: Flows) -> None:
    kit = flows(ASKS)
    run = kit.start("until")
    kit.settle()
    told = explain(run_now(kit.service.standing(run.id)), int(kit.now.timestamp() * 1000), None, {})
    assert ([one["what"] for one in told["wakers"]], told["nothing_can_wake_it"]) == (["call"], False)


def test_a_run_that_is_watched_is_due_with_the_first_of_its_waits(flows: Flows) -> None:
    """Which need not be the one that is shown."""
    kit = flows(ASKS)
    run = kit.start("asks")
    run_now(kit.service.ports.runs.watch(run.id, None))
    run.approve(wait="cfo")
    due_ms = header(kit, run).due_ms
    assert due_ms == header(kit, run).waiting_since_ms + HOUR_MS


def test_the_sweeper_finds_an_operation_whose_timer_was_lost(flows: Flows) -> None:
    backend = in_memory()
    kit = flows(ASKS, backend=backend)
    run = kit.start("asks")
    run.approve(wait="cfo")
    kit.settle()
    sweeper = Sweeper(backend.ports, kit.service._logbook, kit._parts.stopping)
    assert run_now(sweeper.sweep(MINUTE_MS)) == ()
    backend.clock.advance(HOUR_MS + 2 * MINUTE_MS)
    lost = 0
    while (one := backend.inbox.receive(ALL_LANES, backend.clock.now_ms(), MINUTE_MS)) is not None:
        backend.inbox.delete(one)
        lost += 1
    assert (lost, [found.why for found in run_now(sweeper.sweep(MINUTE_MS))]) == (1, ["overdue"])
    assert run.view["steps"]["paid"]["status"] == "failed"


SLOW = """
@step(timeout="14m")
def slow(x):
    hook.work()

@workflow
async def alone(ctx):
    await ctx.step(slow, 1)

@workflow
async def together(ctx):
    await ctx.all(ctx.step(slow, 1), ctx.sleep("1s"))

@workflow
async def closure(ctx):
    await ctx.run(lambda: hook.work(), name="x", timeout="14m")
"""


@pytest.mark.parametrize("workflow", ["alone", "together", "closure"])
def test_the_sweeper_lets_a_functions_step_take_as_long_as_an_invocation_lasts(
    flows: Flows, monkeypatch: pytest.MonkeyPatch, workflow: str
) -> None:
    """A wake while a worker is at work would have the step done twice."""
    backend, found, begun = in_memory(), list[object](), list[int]()
    kit = flows(f"import hook\nfrom stepwell import step, workflow\n{SLOW}", backend=backend)

    def work() -> None:
        begun.append(1)
        backend.clock.advance(14 * MINUTE_MS)
        found.extend(run_now(Sweeper(backend.ports, kit.service._logbook, kit._parts.stopping).sweep(5 * MINUTE_MS)))

    monkeypatch.setitem(sys.modules, "hook", SimpleNamespace(work=work))
    run = kit.start(workflow)
    kit.settle()
    kit.advance("1m")
    assert (run.status, found, begun) == ("completed", [], [1])


DECIDES = """
@workflow
async def decides(ctx):
    decision = ctx.start(ctx.approval("release"))
    await asyncio.wait({decision}, timeout=86_400)
    return (await decision)["by"]
"""


def test_an_answer_that_is_given_again_wakes_the_task_that_its_first_caller_did_not(
    flows: Flows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first caller dies between the record and the wake."""
    kit = flows(ASKS + DECIDES)
    run = kit.start("decides")
    assert run.waiting_for == "approval"

    async def away(*given: object) -> None:
        raise PortError("away")

    with monkeypatch.context() as patched:
        patched.setattr(kit.service.ports.queue, "send", away)
        with pytest.raises(PortError):
            run.approve(by="kim")
    for answer in (partial(run.approve, by="leo"), partial(run.reject, by="kim")):
        with pytest.raises(Conflict):
            answer()
    assert run.result is None
    run.approve(by="kim")
    kit.advance("15m")  # a worker that the first call woke is done by then
    assert run.result == "kim"
