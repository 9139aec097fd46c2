"""Replays: what is the same each time, what a change of the code does to runs under way, and beginning anew."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell.engine.durable import operations
from stepwell.engine.records import Group
from stepwell.errors import InvalidInput, NotFound
from stepwell.limits import SESSION_SECONDS
from stepwell.runtime.durable import gathering
from stepwell.runtime.folder.loading import load_folder
from stepwell.testing.kit import Run, Stepwell
from tests.durable.conftest import Flows

HEAD = """
from stepwell import OperationFailed, StepFailed, workflow

RAN = []

def note(what):
    RAN.append(what)
    return what

def broken():
    raise ValueError("no")

"""
STEPS = 'await ctx.step(note, "a")\nawait ctx.sleep("1h")\nreturn await ctx.step(note, "b")'


def flow(body: str, options: str = "", head: str = HEAD, parameters: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return f"{head}@workflow{options}\nasync def flow(ctx{parameters}):\n{lines}"


def stuck(run: Run) -> str:
    """What a run that waits for other code has met."""
    assert (run.status, run.waiting_for) == ("waiting", "code"), (run, run.error)
    return str(run.view["waiting_data"]["type"])


def test_time_chance_and_ids_are_the_same_in_every_replay(flows: Flows) -> None:
    body = """
async def leg(n):
    first = [str(ctx.now()), ctx.random(), str(ctx.uuid())]
    await ctx.sleep(n)
    return [*first, str(ctx.now()), ctx.random()]
seen = [str(ctx.now()), ctx.random(), str(ctx.uuid())]
await ctx.step(note, 1)
seen += [str(ctx.now()), ctx.random(), str(ctx.uuid())]
legs = await ctx.all(leg(10), leg(20))
await ctx.sleep("1h")
return [seen, legs, str(ctx.now()), ctx.random(), str(ctx.uuid())]
"""
    results = []
    for kept in (1_000, 0):
        kit = flows(flow(body), sessions=kept)
        run = kit.start("flow", run_id="run_same")
        kit.advance("2h")
        results.append(run.result)
    assert results[0] == results[1]
    seen, legs, _, last, _ = results[0]
    assert len({seen[1], seen[4], legs[0][1], legs[1][1], last}) == 5
    assert legs[0][0] != legs[0][3]


def test_no_step_runs_again_in_a_replay(flows: Flows) -> None:
    kit = flows(
        flow("""
for n in range(5):
    await ctx.step(note, n)
    await ctx.sleep(1)
return RAN
"""),
        sessions=0,
    )
    run = kit.start("flow")
    kit.advance("10s")
    assert run.result == [0, 1, 2, 3, 4]


def test_its_log_says_each_thing_once(flows: Flows, caplog: pytest.LogCaptureFixture) -> None:
    kit = flows(
        flow("""
try:
    ctx.log.warning("begins")
    await ctx.sleep(1)
    ctx.log.warning("in the middle")
    await ctx.all(ctx.sleep(1), ctx.step(note, 1))
finally:
    ctx.log.warning("ends")
"""),
        sessions=0,
    )
    with caplog.at_level(logging.WARNING, "stepwell.workflow"):
        run = kit.start("flow")
        kit.advance("10s")
    assert run.status == "completed"
    assert [one.message for one in caplog.records] == ["begins", "in the middle", "ends"]


@pytest.mark.parametrize("end", ["return 1", 'raise ValueError("no")', 'await ctx.sleep("1h")'])
@pytest.mark.parametrize("sessions", [0, 1_000], ids=["cold", "warm"])
def test_a_query_of_a_run_that_has_ended_logs_nothing_again(
    flows: Flows, caplog: pytest.LogCaptureFixture, end: str, sessions: int
) -> None:
    kit = flows(
        flow(f"""
ctx.query("n", lambda: 7)
ctx.log.warning("begins")
await ctx.sleep(1)
try:
    ctx.log.warning("goes on")
    {end}
finally:
    ctx.log.warning("ends")
"""),
        sessions=sessions,
    )
    run = kit.start("flow")
    kit.advance("10s")
    if run.status == "waiting":
        run.cancel("over")
        kit.advance("1s")
    assert [one.message for one in caplog.records if one.name == "stepwell.workflow"] == ["begins", "goes on", "ends"]
    caplog.clear()
    assert [run.query("n"), run.query("n")] == [7, 7]
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("changed", "expected", "came"),
    [
        ('await ctx.sleep("1h")\nreturn 1', "step note", "sleep"),
        ('await ctx.step(broken)\nawait ctx.sleep("1h")', "step note", "step broken"),
        ("return 1", "step note", None),
        ('await ctx.step(note, "a")\nawait ctx.event("e")', "sleep", "event e"),
        ('await ctx.step(note, "c")\nawait ctx.sleep("1h")', "step note", "step note with other arguments"),
    ],
)
def test_code_that_asks_for_something_else_is_told_with_both_sides_and_the_run_is_kept(
    flows: Flows, changed: str, expected: str, came: str | None
) -> None:
    kit = flows(flow(STEPS))
    run = kit.start("flow")
    assert run.phase == "sleeping"
    flows.write(flow(changed))
    kit.reload()
    kit.advance("1h")
    assert stuck(run) == "non_determinism"
    shown = run.view["waiting_data"]
    assert (shown["expected"], shown["came"]) == (expected, came)
    flows.write(flow(STEPS))
    kit.reload()
    kit.advance("1m")
    assert (run.status, run.result) == ("completed", "b")


@pytest.mark.parametrize("sessions", [1_000, 0], ids=["warm", "cold"])
@pytest.mark.parametrize("parameters", [", n: int, card: str", ", n: list"])
def test_a_run_whose_input_the_code_takes_no_longer_is_kept(flows: Flows, parameters: str, sessions: int) -> None:
    """One that has done nothing yet fails, as a new run with such an input does."""
    kit = flows(flow(STEPS, parameters=", n: int"), sessions=sessions)
    run, later = kit.start("flow", {"n": 1}), kit.start("flow", {"n": 1}, create_only=True)
    assert run.phase == "sleeping"
    flows.write(flow(STEPS, parameters=parameters))
    kit.reload()
    kit.advance("1h")
    assert stuck(run) == "non_determinism"
    shown = run.view["waiting_data"]
    assert (shown["slot"], shown["expected"], shown["came"]) == (0, "step note", "step_input")
    assert "record 0 holds step note, and the input does not fit flow: " in shown["message"]
    kit.client().handle(later.id).begin()
    assert later.error is not None
    assert later.error["type"] == "step_input"
    flows.write(flow(STEPS, parameters=", n: int, card: str = ''"))
    kit.reload()
    kit.advance("1m")
    assert (run.status, run.result) == ("completed", "b")


def test_one_whose_tasks_have_begun_is_told_with_them(flows: Flows) -> None:
    tasks = "import asyncio\nawait asyncio.gather(ctx.step(note, 1), ctx.sleep(9))"
    kit = flows(flow(tasks))
    run = kit.start("flow")
    kit.advance("1s")
    flows.write(flow(tasks, parameters=", n: int"))
    kit.reload()
    kit.advance("10s")
    assert stuck(run) == "non_determinism"
    assert run.view["waiting_data"]["expected"] == "tasks that begin step note, sleep"


def test_the_arguments_of_a_step_are_the_same_whatever_their_types(flows: Flows) -> None:
    """A replay compares them with the record: what they are stored as, and not in which order a dict was made."""
    head = (
        HEAD
        + """
from datetime import date, timedelta
from decimal import Decimal
from pydantic import BaseModel

class Item(BaseModel):
    price: Decimal
    until: date
    left: timedelta = timedelta(hours=1)

def buy(item: Item, colours: set[str], size: float, *, more: dict[str, int]) -> Item:
    return item
"""
    )
    body = """
item = Item(price="1.10", until=date(2030, 1, 2))
for _ in range(3):
    item = await ctx.step(buy, item, {"red", "green", "blue"}, 0.1, more={"b": 1, "a": 2})
    await ctx.sleep("1h")
return str(item.price)
"""
    kit = flows(flow(body, head=head), sessions=0)
    run = kit.start("flow")
    kit.advance("1h")
    flows.write(flow(body.replace('{"b": 1, "a": 2}', '{"a": 2, "b": 1}'), head=head))
    kit.reload()
    kit.advance("3h")
    assert run.result == "1.10"


LEGS = """
async def leg(n):
    await ctx.step(note, n)
    await ctx.sleep("1h")
    return n
return await ctx.all(leg(1), leg(2))
"""


def unmarked(*parts: Any, of_operations: bool) -> Group:
    """As earlier releases wrote it."""
    return Group(*parts)


@pytest.mark.parametrize(("changed", "waiting"), [("leg(3)", [None, "code"]), ("leg(2)", [])])
def test_a_fork_of_coroutines_that_an_earlier_release_recorded_goes_on_as_one(
    flows: Flows, monkeypatch: pytest.MonkeyPatch, changed: str, waiting: list[str | None]
) -> None:
    """A step in it is known by its arguments, too."""
    kit = flows(flow(LEGS))
    with monkeypatch.context() as patched:
        patched.setattr(gathering, "_need_tasks", lambda awaited: False)
        patched.setattr(operations, "Group", unmarked)
        run = kit.start("flow")
        assert run.status == "waiting"
    flows.write(flow(LEGS.replace("leg(2)", changed)))
    kit.reload()
    kit.advance("1h")
    assert ([one["waiting_for"] for one in run.branches()] if waiting else []) == waiting
    assert run.result == (None if waiting else [1, 2])


def test_a_run_that_is_stuck_can_be_told_that_its_code_has_come(flows: Flows) -> None:
    kit = flows(flow(STEPS))
    run = kit.start("flow")
    assert run.phase == "sleeping"
    flows.write("this is no Python")
    with pytest.raises(Exception, match="bad_syntax"):
        kit.reload()
    kit.advance("1h")
    assert stuck(run) == "SyntaxError"
    flows.write(flow(STEPS))
    kit.reload()
    run.event("code.deployed")
    assert run.result == "b"


def test_how_often_a_stuck_run_looks_again_grows_to_an_hour(flows: Flows) -> None:
    kit = flows(flow("import nowhere_at_all_\nreturn 1", head="import nowhere_\n" + HEAD))
    run = kit.start("flow")
    kit.advance("5h")
    looked = [one["at"][11:16] for one in run.history if one["type"] == "function.stuck"]
    assert looked == ["09:00", "09:01", "09:06", "09:21", "10:21", "11:21", "12:21", "13:21"]


@pytest.mark.parametrize("kept", [1_000, 0])
@pytest.mark.parametrize(
    ("first", "meanwhile"),
    [
        ('await ctx.step(note, "a")', "90m"),
        ("await ctx.step(note, 1, at_most_once=True)", "90m"),
        ("await ctx.all(ctx.sleep(1), ctx.step(note, 1))", "90m"),
        ('await ctx.sleep("1h")', "150m"),
    ],
)
def test_a_patch_holds_for_runs_that_come_to_it_after_it_and_for_no_others(
    flows: Flows, first: str, meanwhile: str, kept: int
) -> None:
    before = f"{first}\nawait ctx.sleep('1h')\n{first}\nawait ctx.sleep('1h')\nreturn 'old'"
    after = f"""
{first}
await ctx.sleep('1h')
if ctx.patched("audit"):
    {first}
    await ctx.step(note, "audit")
{first}
await ctx.sleep('1h')
return ["new", ctx.patched("audit")]
"""
    kit = flows(flow(before), sessions=kept)
    early = kit.start("flow")
    kit.advance(meanwhile)
    late = kit.start("flow")
    assert early.status == late.status == "waiting"
    flows.write(flow(after))
    kit.reload()
    new = kit.start("flow")
    kit.advance("10h")
    assert [one.result for one in (early, late, new)] == [["new", False], ["new", True], ["new", True]]


@pytest.mark.parametrize("versions", [("1", "'2'"), ("'2'", "1")])
def test_a_version_that_is_no_number_is_told_beside_one_that_is(tmp_path: Path, versions: tuple[str, str]) -> None:
    functions = "".join(
        f"@workflow(name='w', version={version})\nasync def f{place}(ctx): ...\n"
        for place, version in enumerate(versions)
    )
    (tmp_path / "shop.py").write_text(f"from stepwell import workflow\n{functions}")
    (problem,) = load_folder(tmp_path).errors
    assert (problem.code, "`version` must be a whole number" in problem.message) == ("wrong_type", True)


NUMBERED = """
@workflow(name="order", version=2, timeout="{}")
async def order(ctx):
    await ctx.sleep("1h")
"""


def test_runs_go_on_with_the_version_that_they_began_with(flows: Flows) -> None:
    old = '@workflow(name="order")\nasync def first(ctx):\n    await ctx.sleep("1h")\n    return "first"\n'
    new = '@workflow(name="order", version=2)\nasync def second(ctx):\n    return "second"\n'
    kit = flows(HEAD + old)
    run = kit.start("order")
    assert run.status == "waiting"
    flows.write(HEAD + old + new)
    kit.reload()
    assert kit.start("order").result == "second"
    kit.advance("1h")
    assert run.result == "first"


def test_a_version_is_started_by_its_number_which_stands_beside_its_hash(flows: Flows) -> None:
    old = '@workflow(name="order")\nasync def first(ctx):\n    await ctx.sleep("1h")\n    return "first"\n'
    new = '@workflow(name="order", version=2)\nasync def second(ctx):\n    await ctx.sleep("1h")\n    return "second"\n'
    kit = flows(HEAD + old)
    run, client = kit.start("order"), kit.client()
    flows.write(HEAD + old + new)
    kit.reload()
    first, second = (kit.start("order", version=number) for number in ("1", "2"))
    assert first.view["version"] == run.view["version"] != second.view["version"]
    assert (first.view["version_number"], second.view["version_number"]) == (None, 2)
    assert client.handle(second.id).explain()["version_number"] == 2
    assert client.workflow("order")["version_number"] == 2
    shown = {one["version_number"]: one["runs"] for one in client.versions("order")["items"]}
    assert shown == {2: 1, None: 2}
    assert client.alias("order", "old", "1")["version"] == run.view["version"]
    with pytest.raises(NotFound, match="order has no version or alias '3'"):
        kit.start("order", version="3")
    client.alias("order", "2", "1")
    assert kit.start("order", version="2").view["version"] == run.view["version"]


def test_a_number_of_two_versions_is_refused_with_both(flows: Flows) -> None:
    """The options of the function differ, and so do its versions."""
    kit = flows(HEAD + NUMBERED.format("1d"))
    for timeout in ("1d", "2d"):
        flows.write(HEAD + NUMBERED.format(timeout))
        kit.reload()
        kit.start("order")
    flows.write(HEAD + NUMBERED.format("1d").replace("version=2", "version=3"))
    kit.reload()
    with pytest.raises(InvalidInput, match="2 versions of order have the number 2") as refusal:
        kit.start("order", version="2")
    assert refusal.value.code == "ambiguous_version"
    assert kit.start("order", version="3").view["version_number"] == 3


def test_a_version_that_is_gone_keeps_its_runs_until_it_is_back(flows: Flows) -> None:
    old = '@workflow(name="order")\nasync def first(ctx):\n    await ctx.sleep("1h")\n    return "first"\n'
    kit = flows(HEAD + old)
    run = kit.start("order")
    assert run.status == "waiting"
    flows.write(HEAD + '@workflow(name="order", version=2)\nasync def second(ctx):\n    return "second"\n')
    kit.reload()
    kit.advance("1h")
    assert stuck(run) == "unknown_step"
    wakers = kit.client().handle(run.id).explain()["wakers"]
    assert any(f"`stepwell event code.deployed --run {run.id}`" in one["detail"] for one in wakers)
    flows.write(HEAD + old.replace("order", "other"))
    kit.reload()
    kit.advance("1m")
    assert stuck(run) == "version_gone"
    flows.write(HEAD + old)
    kit.reload()
    kit.advance("1h")
    assert run.result == "first"


def test_beginning_anew_keeps_the_state_and_reads_nothing_of_before(flows: Flows) -> None:
    kit = flows(
        flow(
            """
ctx.state["total"] = ctx.state.get("total", 0) + n
at = str(ctx.uuid())
await ctx.step(note, n)
await ctx.sleep("1d")
if n == 4:
    return [ctx.state["total"], RAN]
return ctx.continue_as(flow, n + 1)
""",
            parameters=", n: int = 1",
        ),
        sessions=0,
    )
    run = kit.start("flow", {})
    kit.advance("10d")
    assert run.result == [10, [1, 2, 3, 4]]
    assert [one["type"] for one in run.history].count("function.continued") == 3


@pytest.mark.parametrize("sessions", [0, 8])
def test_what_a_function_that_began_anew_changes_inside_its_state_is_stored(flows: Flows, sessions: int) -> None:
    kit = flows(
        flow(
            """
ctx.state.setdefault("seen", []).append(n)
await ctx.step(note, n)
if n == 3:
    return ctx.state["seen"]
return ctx.continue_as(flow, n + 1)
""",
            parameters=", n: int = 1",
        ),
        sessions=sessions,
    )
    run = kit.start("flow", {})
    assert run.result == [1, 2, 3]
    assert run.state["seen"] == [1, 2, 3]


@pytest.mark.parametrize("sessions", [0, 8])
def test_a_name_deleted_of_the_state_is_gone_when_the_function_begins_anew(flows: Flows, sessions: int) -> None:
    """It was deleted before the last record, or after it; None is a value like others."""
    kit = flows(
        flow(
            """
if n == 2:
    return sorted(ctx.state.items())
ctx.state.update(early=1, late=2, kept=None)
await ctx.step(note, n)
del ctx.state["early"]
await ctx.step(note, n)
del ctx.state["late"]
return ctx.continue_as(flow, n + 1)
""",
            parameters=", n: int = 1",
        ),
        sessions=sessions,
    )
    run = kit.start("flow", {})
    assert run.result == [["kept", None]], run.error
    assert run.state == {"kept": None}


def test_a_run_begins_anew_as_a_workflow_alone(flows: Flows) -> None:
    run = flows(flow("return ctx.continue_as(note)")).start("flow")
    assert run.error is not None
    assert (run.status, run.error["type"]) == ("failed", "bad_value")


ALL_OF_IT = """
async def leg(n):
    got = await ctx.step(note, n)
    await ctx.sleep(n)
    return got
ctx.state["at"] = 1
out = [await ctx.step(note, "a")]
try:
    await ctx.step(broken)
except StepFailed as error:
    out.append(error.type)
await ctx.sleep(5)
out.append(await ctx.all(leg(1), leg(2), ctx.event("e", timeout="1d")))
ctx.state["at"] = 2
out.append((await ctx.first(leg(3), leg(400))).winner)
out.append(await ctx.map(note, range(3)))
try:
    await ctx.event("never", timeout=7)
except OperationFailed as error:
    out.append(error.type)
out.append(await ctx.child("kid", {}))
callback = ctx.callback()
await ctx.step(note, callback.url)
out.append([str(ctx.now()), ctx.random(), dict(ctx.state)])
return out
"""
KID = "\n@workflow\nasync def kid(ctx):\n    await ctx.sleep(1)\n    return 'kid'\n"


def test_a_function_that_forgets_everything_between_two_operations_comes_to_the_same(flows: Flows) -> None:
    told = []
    for kept in (1_000, 0, 1):
        kit: Stepwell = flows(flow(ALL_OF_IT) + KID, sessions=kept)
        run = kit.start("flow", run_id="run_same")
        kit.event("e", {"n": 1})
        kit.advance("1h")
        assert run.status == "completed", (run.error, run.view["waiting_data"])
        told.append((run.result, [(one["type"], one["step"], one["at"]) for one in run.history]))
    assert told[0] == told[1] == told[2]


def test_a_replay_has_the_time_limit_for_each_part_of_a_long_log(flows: Flows, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of any length can be replayed: the limit is for code that blocks. A patch in a later part is found."""
    kit = flows(
        """
from stepwell import workflow

@workflow
async def flow(ctx):
    total = 0
    for n in range(250):
        if n == 120 and ctx.patched("twice"):
            total += await ctx.run(lambda: 0, name="twice")
        total += await ctx.run(lambda: n, name="one")
    await ctx.event("go")
    return total
""",
    )
    run = kit.start("flow")
    assert run.waiting_for == "event"
    sessions = kit._steps._real._sessions
    assert sessions is not None
    sessions.close()
    limited = list[float]()
    threads = sessions._threads

    class Counted:
        def run(self, function: Callable[[], object], limit_seconds: float) -> tuple[object, BaseException | None]:
            limited.append(limit_seconds)
            return threads.run(function, limit_seconds)

    monkeypatch.setattr(sessions, "_threads", Counted())
    kit.event("go", 1)
    assert run.result == sum(range(250))
    assert limited.count(SESSION_SECONDS) >= 3


def test_a_function_that_has_moved_goes_on_where_its_old_module_still_names_it(flows: Flows) -> None:
    code = """
from stepwell import workflow

@workflow(name="ship")
async def old(ctx):
    return await ctx.event("go")
"""
    kit = flows(code)
    run, other = kit.start("ship"), kit.start("ship")
    assert (run.status, other.status) == ("waiting", "waiting")
    flows.write(code.replace("old", "new"), "moved.py")
    flows.write("")
    kit.reload()
    other.event("go", 1)
    assert (other.waiting_for, other.view["waiting_data"]["type"]) == ("code", "unknown_step")
    flows.write("from moved import new as old\n")
    kit.reload()
    run.event("go", 2)
    kit.advance("1h")
    assert (run.result, other.result) == (2, 1)
    assert kit.start("ship").status == "waiting"
