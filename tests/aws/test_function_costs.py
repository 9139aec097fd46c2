"""What a durable function costs on AWS: one append for each operation, and nothing for what it computes itself."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pytest

from stepwell.limits import DAY_MS, MINUTE_MS
from stepwell.runtime.executor import FunctionSteps
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.stores.clocks import RealClock
from tests.aws.kit import AwsWorld, aws_world

MODULE = '''
import asyncio
from stepwell import step, workflow

SEEN = []

@step
def one(n: int) -> int:
    for look in SEEN:
        look()
    return n + 1

@workflow
async def chain(ctx):
    n = 0
    for _ in range(10):
        n = await ctx.step(one, n)
    return n

@workflow
async def runs(ctx):
    n = 0
    for _ in range(10):
        n = await ctx.run(lambda: n + 1)
    return n

@workflow
async def thinks(ctx):
    """All that is not an operation."""
    ctx.state["lucky"] = [ctx.random(), str(ctx.uuid()), ctx.now()]
    assert ctx.patched("new")
    ctx.log.info("on its way")
    n = await ctx.step(one, 1)
    ctx.state["n"] = n

@workflow
async def naps(ctx):
    await ctx.sleep("20d")
    return await ctx.step(one, 1)

@workflow
async def waits(ctx):
    paid, _, late = await ctx.first(ctx.event("paid", key="k"), ctx.event("voided", key="k"), ctx.approval())
    return paid

@workflow
async def pair(ctx):
    return await ctx.all(ctx.step(one, 1), ctx.step(one, 2))

@workflow
async def wide(ctx, n: int):
    return sum(await ctx.map(one, range(n)))

@workflow
async def gathers(ctx, n: int):
    return await asyncio.gather(*[ctx.step(one, item) for item in range(n)])

@workflow
async def asks(ctx, n: int):
    async def asked(name):
        return await ctx.approval(name)

    return await asyncio.gather(*[asked(f"a{item}") for item in range(n)])

@workflow
async def pools(ctx, n: int):
    queue = asyncio.Queue()
    for item in range(n):
        queue.put_nowait(item)

    async def worker():
        while not queue.empty():
            await ctx.step(one, queue.get_nowait())

    await asyncio.gather(*[worker() for _ in range(5)])

@workflow
async def plain(ctx):
    """Tasks, locks and queues, and one operation at a time."""
    lock, queue = asyncio.Lock(), asyncio.Queue()

    async def reader():
        return [await queue.get() for _ in range(3)]

    task = asyncio.create_task(reader())
    for n in range(3):
        async with lock:
            await queue.put(await ctx.step(one, n))
    return await task

@workflow
async def polls(ctx):
    async with asyncio.timeout(3_600):
        while await ctx.step(one, 1):
            await ctx.sleep("10s")

@workflow
async def renews(ctx, n: int):
    await ctx.step(one, n)
    return n if n == 3 else ctx.continue_as(renews, n + 1)
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("functions")
    (path / "costly.py").write_text(MODULE)
    return path


@contextmanager
def unused(folder: Path, workflow: str) -> Iterator[AwsWorld]:
    """A world in which no run has been."""
    definition = f"workflow: flow\nfunction: python:costly.{workflow}"
    (folder / "costly.py").write_text(MODULE.replace("@workflow\n", "@workflow(name='flow')\n"))
    with aws_world(definition, steps=FunctionSteps(folder, RealClock())) as world:
        yield world


@contextmanager
def warm(folder: Path, workflow: str, given: object = None) -> Iterator[AwsWorld]:
    """A world in which one run has been already: the first of a version stores its definition and its name."""
    with unused(folder, workflow) as world:
        world.start(given=given)
        world.pass_time(30 * DAY_MS)
        world.meter.clear()
        world.sent.clear()
        yield world


@pytest.mark.parametrize("workflow", ["chain", "runs"])
def test_a_chain_of_ten_steps_costs_an_append_for_each_one_for_its_end_and_six_units_for_the_run(
    folder: Path, workflow: str
) -> None:
    with warm(folder, workflow) as world:
        run_id = world.start()
        assert world.deliver() == 1  # the one invocation of the worker
        assert (world.header(run_id).status, world.token(run_id).result) == ("completed", 10)
        assert world.meter.units == Counter(LOG=11, RUN=6)
        sent = Counter(world.sent)
        assert (sent["SendMessage"], sent["DeleteMessage"]) == (1, 1)


def test_the_only_call_between_two_operations_is_the_append(folder: Path) -> None:
    with warm(folder, "chain") as world:
        seen: list[Counter[str]] = []
        look = lambda: seen.append(Counter(world.meter.requests))  # noqa: E731 - what the step in the folder calls
        costly = import_module("costly")  # of the folder
        costly.SEEN.append(look)
        try:
            world.start()
            world.deliver()
        finally:
            costly.SEEN.remove(look)
        assert [later - earlier for earlier, later in itertools.pairwise(seen)] == [Counter(put_item=1)] * 9


def test_what_a_function_computes_its_state_its_patches_and_its_log_cost_nothing(folder: Path) -> None:
    with warm(folder, "thinks") as world:
        run_id = world.start()
        world.deliver()
        assert world.header(run_id).status == "completed"
        assert world.token(run_id).scope["n"] == 2
        assert world.meter.units == Counter(LOG=2, RUN=6)


def test_a_sleep_costs_two_records_the_header_and_one_timer(folder: Path) -> None:
    with warm(folder, "naps") as world:
        run_id = world.start()
        world.meter.clear()
        world.deliver()
        assert world.meter.units == Counter(LOG=1, RUN=2)  # and the run is picked up
        assert Counter(world.sent)["CreateSchedule"] == 1
        world.meter.clear()
        world.pass_time(20 * DAY_MS)
        assert world.header(run_id).status == "completed"
        assert world.meter.units - Counter(LOG=2, RUN=2) == Counter(LOG=1, RUN=1)  # beside the step and the end


def test_the_first_of_several_waits_is_one_record(folder: Path) -> None:
    with warm(folder, "waits") as world:
        run_id = world.start()
        world.meter.clear()
        world.deliver()
        assert world.meter.units == Counter(LOG=1, RUN=2, W=2)
        run_now(world.service.approve(run_id))
        world.deliver()
        assert world.header(run_id).status == "completed"


def test_that_tasks_wait_is_shown_by_a_change_of_the_header_for_each_end_and_nothing_else(folder: Path) -> None:
    """A record that all tasks wait after, and the one with which the last goes on, change the header once each."""
    with warm(folder, "asks", {"n": 3}) as world:
        run_id = world.start(given={"n": 3})
        world.meter.clear()
        world.deliver()
        assert world.meter.units == Counter(LOG=1 + 3, RUN=2)  # picked up, waiting
        ends = []
        for number in range(3):
            world.meter.clear()
            run_now(world.service.approve(run_id, wait=f"a{number}"))
            world.deliver()
            ends.append(Counter(world.meter.units))
        assert ends[:2] == [Counter(LOG=3, RUN=1)] * 2
        assert (ends[2]["LOG"], world.header(run_id).status) == (4, "completed")


def test_two_steps_together_cost_their_records_and_their_arrivals(folder: Path) -> None:
    with warm(folder, "pair") as world:
        run_id = world.start()
        assert world.deliver() == 3  # a message for each of them: they overlap where there are two workers
        assert world.token(run_id).result == [2, 3]
        assert world.meter.units == Counter(LOG=3 + 2, JOIN=2, RUN=6)


def test_a_mapped_item_costs_what_a_branch_costs_however_many_there_are(folder: Path) -> None:
    with warm(folder, "wide", {"n": 1}) as world:
        totals = []
        for width in (20, 120, 320):
            world.meter.clear()
            world.start(given={"n": width})
            world.deliver()
            totals.append(world.meter.total)
        assert (totals[1] - totals[0]) / 100 <= 2.1
        assert (totals[2] - totals[1]) / 200 <= 2.1


@pytest.mark.parametrize(("workflow", "most"), [("gathers", 2.1), ("pools", 3.1)])
def test_an_operation_of_a_task_costs_its_record_its_end_and_where_it_is_alone_its_beginning(
    folder: Path, workflow: str, most: float
) -> None:
    """Those that begin together share one record."""
    with warm(folder, workflow, {"n": 1}) as world:
        totals = []
        for width in (20, 60):
            world.meter.clear()
            run_id = world.start(given={"n": width})
            world.deliver()
            assert world.header(run_id).status == "completed"
            totals.append(world.meter.total)
        assert (totals[1] - totals[0]) / 40 <= most


def test_tasks_locks_and_queues_cost_nothing(folder: Path) -> None:
    with warm(folder, "plain") as world:
        run_id = world.start()
        world.deliver()
        assert world.token(run_id).result == [1, 2, 3]
        assert world.meter.units == Counter(LOG=3 + 1, RUN=6)


def test_a_poll_reads_no_more_the_longer_a_function_has_polled(folder: Path) -> None:
    """Its log is folded from where this process has read it last: a cold one reads it from its last snapshot on."""
    with unused(folder, "polls") as world:
        world.start()
        reads = []
        for _ in range(10):
            world.meter.clear()
            world.pass_time(MINUTE_MS)
            reads.append(world.meter.read_units)
    assert max(reads[3:]) <= 1.15 * reads[3]


def test_to_continue_as_new_is_one_record(folder: Path) -> None:
    with warm(folder, "renews", {"n": 3}) as world:
        world.start(given={"n": 0})
        world.deliver()
        assert world.meter.units == Counter(LOG=4 + 4, RUN=6)
