"""`ctx.run`: any callable of the function as a step, called in the function's own process."""

from __future__ import annotations

import pytest

from stepwell.errors import InvalidInput
from tests.durable.conftest import Flows

HEAD = """
import asyncio
import operator
from dataclasses import dataclass
from stepwell import Retry, StepFailed, sleep, step, workflow

CALLS = []

@dataclass
class Price:
    cents: int

class Shop:
    def __init__(self, factor):
        self.factor = factor
    def price(self, n: int) -> Price:
        CALLS.append(n)
        return Price(n * self.factor)
    def __call__(self, n):
        return n

def double(n: int) -> int:
    return n * 2

"""


def flow(body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return HEAD + f"@workflow\nasync def flow(ctx):\n{lines}"


@pytest.fixture(params=[1_000, 0], ids=["warm", "cold"])
def sessions(request: pytest.FixtureRequest) -> int:
    """How many functions are kept between two operations: with none, each is replayed from its log."""
    return int(request.param)


def test_a_closure_a_method_a_lambda_and_a_coroutine_function_run_as_steps(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
n = 3
async def slow(by):
    await asyncio.sleep(0)
    return n + by
price = await ctx.run(Shop(2).price, n)
made = [price, await ctx.run(lambda: n + 1), await ctx.run(slow, 4), await ctx.run(Shop(1), 9, name="call")]
await ctx.sleep("1h")
assert isinstance(price, Price), price
return [*made, CALLS]
"""), sessions=sessions)  # fmt: skip
    run = kit.start("flow")
    kit.advance("2h")
    assert run.result == [{"cents": 6}, 4, 7, 9, [3]], run.error
    assert [one for one in run.steps if one != "sleep"] == ["price", "lambda", "slow", "call"]


def test_a_run_costs_one_record(flows: Flows) -> None:
    run = flows(flow("for n in range(10): await ctx.run(lambda: n)")).start("flow")
    assert (run.status, run.view["cost"]["records"]) == ("completed", 11)


def test_runs_of_one_name_are_matched_in_their_order(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
made = [await ctx.run(lambda: (CALLS.append(n), n)[1]) for n in range(4)]
await ctx.sleep(60)
return [made, CALLS]
"""), sessions=sessions)  # fmt: skip
    run = kit.start("flow")
    kit.advance("2m")
    assert run.result == [[0, 1, 2, 3], [0, 1, 2, 3]]


def test_arguments_are_not_compared_and_the_name_is(flows: Flows) -> None:
    text = flow("""
got = await ctx.run(double, 4, name="sum")
await ctx.sleep(60)
return got
""")
    kit = flows(text)
    other, named = kit.start("flow"), kit.start("flow")
    assert other.status == "waiting"
    flows.write(text.replace("double, 4", "lambda n: n, 5"))
    kit.reload()
    kit.advance("61s")
    assert (other.result, named.result) == (8, 8)
    third = kit.start("flow")
    assert third.status == "waiting"
    flows.write(text.replace('"sum"', '"total"'))
    kit.reload()
    kit.advance("61s")
    assert third.waiting_for == "code"
    assert "holds run sum, and the function asks for run total at " in third.view["waiting_data"]["message"]


def test_what_fails_is_retried_as_its_policy_says_and_raised_as_a_steps_failure(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
def flaky(word):
    CALLS.append(word)
    raise KeyError(word)
try:
    await ctx.run(flaky, "a", retry=Retry(2, "constant", "5s", on=["step"]))
except StepFailed as failed:
    return [failed.type, failed.failure.attempts, CALLS]
"""), sessions=sessions)  # fmt: skip
    run = kit.start("flow")
    kit.advance("1m")
    assert run.result == ["KeyError", 3, ["a", "a", "a"]]


def test_a_failed_attempt_leaves_nothing_behind_for_the_next(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
seen = []
def once():
    operator.setitem(seen, slice(0, 0), [1])  # as a library may change it, unseen
    CALLS.append(len(seen))
    if len(CALLS) < 3:
        raise ConnectionError("down")
    return len(seen)
return [await ctx.run(once, retry=Retry(5, "constant", "5s")), CALLS]
"""), sessions=sessions)  # fmt: skip
    run = kit.start("flow")
    kit.advance("1m")
    assert run.result == [1, [1, 1, 1]]


def test_it_has_a_time_limit(flows: Flows) -> None:
    kit = flows(flow("""
async def hangs():
    await asyncio.sleep(30)
try:
    await ctx.run(hangs, timeout="50ms")
except StepFailed as failed:
    return failed.type
"""))  # fmt: skip
    assert kit.start("flow").result == "step_timeout"


def test_it_can_be_run_at_most_once_and_mocked(flows: Flows, sessions: int) -> None:
    kit = flows(flow('return await ctx.run(lambda: 1, name="pay", at_most_once=True)'), sessions=sessions)
    assert kit.start("flow").result == 1
    kit.mock("pay", returns=7)
    run = kit.start("flow")
    assert (run.result, run.view["cost"]["records"]) == (7, 3)


@pytest.mark.parametrize(
    "body",
    [
        "def inside():\n    ctx.now()",
        "def inside():\n    ctx.step(double, 1)",
        "async def inside():\n    return await ctx.step(double, 1)",
    ],
)
def test_ctx_in_it_is_told_with_its_line(flows: Flows, body: str) -> None:
    run = flows(flow(f"{body}\nawait ctx.run(inside)")).start("flow")
    assert run.error is not None
    line = len(HEAD.splitlines()) + 4
    assert (run.error["type"], f"flow.py:{line}" in run.error["message"]) == ("no_workflow", True), run.error


@pytest.mark.parametrize(("given", "code"), [("3", "bad_step"), ("flow", "bad_step"), ("lambda n: n", "TypeError")])
def test_what_cannot_be_called_is_told(flows: Flows, given: str, code: str) -> None:
    run = flows(flow(f"await ctx.run({given})")).start("flow")
    assert run.error is not None
    assert run.error["type"] == code


def test_it_runs_in_branches_and_tasks(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
words = ["a", "b", "c"]
def say(at):
    return words[at]
both = await ctx.all(*[ctx.run(say, at) for at in range(3)])
nested = await ctx.all(ctx.all(ctx.run(say, 0), ctx.run(say, 1)), ctx.run(say, 2))
tasks = await asyncio.gather(*[ctx.run(say, at) for at in range(3)])
first = await ctx.first(ctx.run(say, 2), ctx.timer("1h"))
return [both, nested, tasks, first.value]
"""), sessions=sessions)  # fmt: skip
    run = kit.start("flow")
    kit.settle()
    assert run.result == [["a", "b", "c"], [["a", "b"], "c"], ["a", "b", "c"], "c"], run.error


def test_a_reload_runs_the_new_code_of_it(flows: Flows) -> None:
    text = flow("""
await ctx.sleep(60)
return await ctx.run(lambda: "old")
""")
    kit = flows(text)
    run = kit.start("flow")
    assert run.status == "waiting"
    flows.write(text.replace('"old"', '"new"'))
    kit.reload()
    kit.advance("2m")
    assert run.result == "new"


def test_it_may_ask_the_clock_and_chance_as_every_step_may(flows: Flows, sessions: int) -> None:
    kit = flows(flow("""
import random, time
at, drawn = await ctx.run(lambda: [time.time(), random.random()])
await ctx.sleep("1h")
return [at > 0, drawn < 1]
"""), sessions=sessions)  # fmt: skip
    run = kit.start("flow")
    kit.advance("2h")
    assert run.result == [True, True], run.error


CLOSURES = """
import asyncio, bisect, heapq, random
from functools import lru_cache, partial
from stepwell import workflow

class Box:
    total = 0

class Agent:
    def __init__(self):
        self.said, self.turns, self.inner = [], 0, Box()
    def count(self):
        self.turns += 1
    def say(self):
        self.said.append("a")
    def dig(self):
        inner = self.inner
        inner.total = 2
    def tell(self):
        return len(self.said)

def fill(box, n):
    box["n"] = n

@workflow
async def flow(ctx):
    found, names, box, count = [], {}, Box(), 0
    deep, agent = {"all": [found]}, Agent()
"""


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("await ctx.run(lambda: found.append(1))", 29),
        ("await ctx.run(found.append, 1)", 29),
        ("await ctx.run(partial(found.append, 1))", 29),
        ("await ctx.run(lambda: names.update(a=1), name='n')", 29),
        ("def f():\n        names['a'] = 1\n    await ctx.run(f)", 30),
        ("def f():\n        del found[0]\n    await ctx.run(f)", 30),
        ("def f():\n        box.total += 1\n    await ctx.run(f)", 30),
        ("def f():\n        nonlocal count\n        count += 1\n    await ctx.run(f)", 29),
        ("async def f():\n        await asyncio.sleep(0)\n        found.append(1)\n    await ctx.run(f)", 31),
        ("await ctx.all(ctx.run(lambda: found.append(1)), ctx.run(lambda: 1, name='b'))", 29),
        ("await ctx.map(lambda n: ctx.run(lambda: found.append(n), name='n'), [1, 2])", 29),
        ("def add(to):\n        to.append(1)\n    await ctx.run(add, found)", 30),
        ("await ctx.run(fill, names, 2)", 21),
        ("await ctx.run(lambda: deep['all'].append(1))", 29),
        ("await ctx.run(lambda: deep['all'][0].append(1))", 29),
        ("await ctx.run(lambda: heapq.heappush(found, 1))", 29),
        ("await ctx.run(lambda: bisect.insort(found, 1, key=str))", 29),
        ("await ctx.run(lambda: random.shuffle(found))", 29),
        ("await ctx.run(lambda: random.Random(1).shuffle(deep['all'][0]))", 29),
        ("await ctx.run(heapq.heappush, found, 1)", 29),
        ("await ctx.run(partial(random.shuffle, found))", 29),
        ("await ctx.run(agent.count)", 13),
        ("await ctx.run(agent.say)", 15),
        ("await ctx.run(partial(agent.say))", 15),
        ("await ctx.run(lambda: agent.say())", 15),
        ("await ctx.run(agent.dig)", 18),
    ],
)
@pytest.mark.parametrize("sessions", [1_000, 0], ids=["warm", "cold"])
def test_what_would_be_lost_in_a_replay_is_told_with_its_line(
    flows: Flows, code: str, line: int, sessions: int
) -> None:
    run = flows(f"{CLOSURES}    {code}\n    return [found, names, box.total, count]\n", sessions=sessions).start("flow")
    assert run.error is not None, run.result
    assert (run.status, run.error["type"]) == ("failed", "lost_in_branch")
    if "fill" not in code:
        assert f" at flow.py:{line}" in run.error["message"], run.error


def test_what_it_makes_itself_it_may_change(flows: Flows) -> None:
    run = flows(f"""{CLOSURES}
    def f(given):
        own, other = [], Box()
        own.append(len(found)), own.extend(given), heapq.heapify(own), random.shuffle(own), own.sort()
        other.total = len(own)
        count = {{}}
        count["a"] = other.total
        return count
    found.append(7)
    names["a"] = [await ctx.run(f, (3, 1)), await ctx.run(sorted, found), await ctx.run(found.copy)]
    return names["a"]
""").start("flow")
    assert run.result == [{"a": 3}, [7], [7]], run.error


def test_what_is_not_the_functions_own_may_change(flows: Flows) -> None:
    """A client of the module or of its cache, no container, and what a module has and a function holds."""
    run = flows(f"""{CLOSURES}
    session = Session()
    def f():
        session.add(1), SHARED.say(), agent.inner.say()
        return agent.tell()
    agent.inner = SHARED
    await ctx.run(SHARED.say)
    await ctx.run(fill, TOTALS, 3)
    await ctx.run(CLIENTS["eu"].say)
    await ctx.run(cached("us").say)
    return [await ctx.run(f), await ctx.run(agent.tell), len(SHARED.said)]

class Session:
    def add(self, one):
        return one

@lru_cache
def cached(name):
    return Agent()

SHARED, TOTALS, CLIENTS = Agent(), {{}}, {{"eu": Agent()}}
""").start("flow")
    assert run.result == [0, 0, 3], run.error


@pytest.mark.parametrize("line", ["asked.append(1)", "names['a'] = 1"])
def test_a_query_that_changes_something_is_refused(flows: Flows, line: str) -> None:
    run = flows(f"""
from stepwell import workflow
@workflow
async def flow(ctx):
    asked, names = [], {{}}
    @ctx.query("asked")
    def count():
        {line}
    @ctx.query("fine")
    def fine():
        own = []
        own.append(len(asked))
        return own
    await ctx.sleep("1h")
""").start("flow")
    with pytest.raises(InvalidInput) as refused:
        run.query("asked")
    assert (refused.value.code, run.query("fine")) == ("read_only_query", [0])


@pytest.mark.parametrize("sessions", [1_000, 0], ids=["warm", "cold"])
def test_what_is_called_sees_the_context_variables_of_whoever_called_it(flows: Flows, sessions: int) -> None:
    """As with `asyncio.to_thread`: what it sets is lost, and each attempt begins with the same values."""
    kit = flows(
        HEAD
        + """
from contextvars import ContextVar, copy_context
WHO = ContextVar("WHO", default="nobody")
WHOLE = ContextVar("WHOLE")

def ask(to: str) -> str:
    was = WHO.get()
    WHO.set(to)
    CALLS.append(was)
    if len(CALLS) == 1:
        raise ConnectionError("once more")
    return was

async def ask_later() -> list:
    await asyncio.sleep(0)
    return [WHO.get(), WHOLE in copy_context()]

async def leg(ctx, name):
    WHO.set(name)
    return await ctx.run(ask, "c")

@workflow
async def flow(ctx):
    found = [await ctx.run(ask, "a", retry=Retry(2)), WHO.get()]
    WHO.set("me")
    found.append(await ctx.run(ask, "b"))
    later = ctx.run(ask_later)
    WHOLE.set(1)
    await ctx.sleep("1h")
    found.append(await ctx.all(later, ctx.run(ask, "d")))
    return [*found, await ctx.all(leg(ctx, "x"), leg(ctx, "y")), WHO.get()]
""",
        sessions=sessions,
    )
    run = kit.start("flow")
    kit.advance("2h")
    assert run.result == ["nobody", "nobody", "me", [["me", False], "me"], ["x", "y"], "me"], run.error
