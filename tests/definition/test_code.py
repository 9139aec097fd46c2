"""`stepwell check` reads the code: each of 66 bad functions is named, with its line, and good code is left alone.

A bad line is marked with the code that `check` gives it, `then` the error that the run fails with if it runs all the
same. Where none is marked, only `check` can tell.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from textwrap import dedent

import pytest

from stepwell.cli.folder.checking import check_path
from stepwell.definition.code.checks import check_code
from stepwell.definition.code.context_names import CONTEXT_NAMES
from stepwell.definition.code.modules import read_code
from stepwell.errors import Problem
from stepwell.runtime.durable.context import Context
from stepwell.testing.kit import Stepwell

BAD = sorted((Path(__file__).parent / "bad_functions").glob("*.py"))
_MARK = re.compile(r"  # bad: (\w+)(?:, then (\w+))?")


def problems(text: str, **others: str) -> list[Problem]:
    texts = {name: (f"{name}.py", dedent(source)) for name, source in {"shop": text, **others}.items()}
    return check_code(read_code(texts))


def told(text: str, **others: str) -> list[tuple[str, int]]:
    return [(problem.code, problem.line) for problem in problems(text, **others)]


def bad_functions() -> list[tuple[str, str, Problem, str]]:
    """What each one does, its bad line of code, what `check` says of it, and what its run fails with."""
    rows = []
    for file in BAD:
        text = file.read_text()
        (found,) = check_path(file)[1]
        line = text.splitlines()[found.line - 1]
        does = ast.get_docstring(ast.parse(text)) or ""
        rows.append((does, _MARK.sub("", line).strip(), found, fails_with(line)))
    return rows


def fails_with(text: str) -> str:
    mark = _MARK.search(text)
    return mark[2] or "" if mark else ""


def test_there_are_66_bad_functions() -> None:
    assert len(BAD) == 66


def test_the_names_that_check_knows_of_ctx_are_those_that_it_has() -> None:
    assert {name for name in dir(Context) if not name.startswith("_")} == CONTEXT_NAMES


@pytest.mark.parametrize("file", BAD, ids=lambda file: file.stem)
def test_a_bad_function_is_named_with_its_line(file: Path) -> None:
    lines = enumerate(file.read_text().splitlines(), 1)
    marked = [(mark[1], number) for number, line in lines if (mark := _MARK.search(line))]
    found = check_path(file)[1]
    assert [(problem.code, problem.line) for problem in found] == marked
    assert all(problem.file == str(file) and problem.hint for problem in found)


@pytest.mark.parametrize("file", [one for one in BAD if fails_with(one.read_text())], ids=lambda file: file.stem)
def test_a_bad_function_that_runs_all_the_same_fails_by_name(file: Path, tmp_path: Path) -> None:
    (tmp_path / f"{file.stem}.py").write_text(file.read_text())
    kit = Stepwell(tmp_path)
    run = kit.start("flow", {"order": {"id": "A-1"}})
    assert run.status == "failed"
    assert run.error is not None
    assert run.error["type"] == fails_with(file.read_text())
    kit.close()


GOOD = """
from __future__ import annotations
import asyncio, datetime, json, random, time, uuid
from typing import TYPE_CHECKING
from stepwell import step, workflow
import prices
if TYPE_CHECKING:
    from somewhere import Order

TIMES = {"fast": 1}

@step(name="pay")
def charge(ctx, order: Order, card: str = "", *, times: int = 1): return time.time(), random.random(), open("x")
@step
def anything(one, two, **named): ...
def total(items): return sum(item for item in {*items}) + len(set(items))
async def leg(ctx, order, index):
    await ctx.step(charge, order)
    return index

@workflow(timeout="1d")
async def checkout(ctx, order: Order, time: float = 0.0):
    def here(): return uuid.uuid4()
    chance = random.Random(7).random()
    at = datetime.datetime(2030, 1, 2) + datetime.timedelta(days=1)
    for name in sorted({"a", "b"}): ctx.log.info(name)
    for name in TIMES: json.dumps(name)
    await ctx.step(charge, order, "visa", times=2, timeout="30s", retry=None)
    await ctx.step(anything, 1, 2, colour="red")
    await ctx.step(charge, *[order])
    await ctx.step(charge, **{"order": order})
    await ctx.step(prices.of, 1)
    await ctx.step(prices.Maker, 1)
    await ctx.run(lambda: time.time())
    await ctx.run(here)
    await ctx.child(other, order)
    await ctx.child("by_name", order)
    await asyncio.gather(leg(ctx, order, 1), leg(ctx, order, 2))
    await asyncio.sleep(5)
    return await ctx.map(charge, [order]), total([1]), time.real, ctx.now(), ctx.random(), at, chance

@workflow
async def other(ctx, order): return ctx.continue_as(checkout, order)
"""


def test_good_code_has_no_problems() -> None:
    assert problems(GOOD, prices="class Maker: ...\ndef of(n): return n") == []


def test_what_a_function_calls_is_checked_in_its_own_file_and_once() -> None:
    helper = "import time\ndef now(): return later()\ndef later(): return time.time()"
    flow = """
        from stepwell import workflow
        from helper import now
        import helper
        @workflow
        async def one(ctx): return now()
        @workflow
        async def two(ctx): return helper.now()
        """
    (found,) = problems(flow, helper=helper)
    assert (found.file, found.line, found.message) == ("helper.py", 3, "clock: time.time reads the clock")


HELPERS = """
import os, random, time
import datetime as dt
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from time import monotonic as mono
import deeper
from deeper import later
clock = time.time
again = clock
around = around_again
around_again = around
spell = lambda: time.time()
SKUS = {"a", "b"}
class Base:
    def of_base(self): return time.time()
class Clock(Base):
    tick = staticmethod(time.time)
    def __init__(self): self.at = time.time()
    def __call__(self): return time.time()
    @cached_property
    def age(self): return time.time()
    def by_the_way(self): return time.time()
class Quiet(Base):
    @classmethod
    def made(cls): return cls.stamp()
    @classmethod
    def stamp(cls): return time.time()
@dataclass
class Parcel:
    at: float = field(default_factory=lambda: time.time())
quiet = Quiet()
CLOCKS = {"a": clock}
SPELLS = {"a": lambda: time.time()}
"""
DEEPER = "import socket, threading, time\ndef later(): return time.time()\ntick = time.time"


def elsewhere(line: str) -> list[Problem]:
    """The problems of a function that has this line, and two modules beside it."""
    head = """
import asyncio, functools, importlib, os, random, time
import helpers, helpers as h
from os import environ
from pathlib import Path
from stepwell import workflow
from time import time as seconds
from helpers import again, clock, later, quiet, Clock, Quiet
@workflow
async def flow(ctx, order, path: Path, made: "Clock", tags: set[str]):
    """
    texts = {"shop": ("shop.py", head + line), "helpers": ("helpers.py", HELPERS), "deeper": ("deeper.py", DEEPER)}
    return check_code(read_code(texts))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("helpers.time.time()", "clock: time.time reads the clock"),
        ("h.time.time()", "clock: time.time reads the clock"),
        ("helpers.clock()", "clock: time.time reads the clock"),
        ("again()", "clock: time.time reads the clock"),
        ("helpers.mono()", "clock: time.monotonic reads the clock"),
        ("helpers.dt.datetime.now()", "clock: datetime.datetime.now reads the clock"),
        ("helpers.deeper.time.time()", "clock: time.time reads the clock"),
        ("helpers.deeper.tick()", "clock: time.time reads the clock"),
        ("now = time.time; now()", "clock: time.time reads the clock"),
        ("now = helpers.clock; now()", "clock: time.time reads the clock"),
        ("of = time; of.time()", "clock: time.time reads the clock"),
        ("getattr(time, 'time')()", "clock: time.time reads the clock"),
        ("importlib.import_module('time').time()", "clock: time.time reads the clock"),
        ("helpers.Clock.tick()", "clock: time.time reads the clock"),
        ("helpers.spell()", "clock: time.time reads the clock"),
        ("list(map(helpers.clock))", "clock: time.time reads the clock"),
        ("helpers.Parcel()", "clock: time.time reads the clock, for each Parcel that gives no other value"),
        ("helpers.random.random()", "chance: random.random is random"),
        ("helpers.os.urandom(8)", "chance: os.urandom is random"),
        ("helpers.os.environ['X']", "environment: os.environ reads the environment"),
        ("environ['X']", "environment: os.environ reads the environment"),
        ("os.environ.get('X')", "environment: os.environ.get reads the environment"),
        ("helpers.deeper.socket.socket()", "socket: socket.socket uses the network"),
        ("helpers.deeper.threading.Thread().start()", "thread: threading.Thread.start starts a thread or a process"),
        ("helpers.Path('x').read_text()", "file: pathlib.Path.read_text uses the file system"),
        ("(Path('x') / 'y').read_text()", "file: pathlib.Path.read_text uses the file system"),
        ("path.read_text()", "file: pathlib.Path.read_text uses the file system"),
        ("path.joinpath('y').exists()", "file: pathlib.Path.joinpath.exists uses the file system"),
        ("{'a': time.time}[order]()", "clock: time.time reads the clock"),
        ("{'a': lambda: time.time()}[order]()", "clock: time.time reads the clock"),
        ("[order, time.time][0]()", "clock: time.time reads the clock"),
        ("clocks = {'a': time.time}; clocks[order]()", "clock: time.time reads the clock"),
        ("helpers.CLOCKS[order]()", "clock: time.time reads the clock"),
        ("helpers.CLOCKS.get(order, order)()", "clock: time.time reads the clock"),
        ("helpers.SPELLS[order]()", "clock: time.time reads the clock"),
        ("(order or time.time)()", "clock: time.time reads the clock"),
        ("(order if order else helpers.clock)()", "clock: time.time reads the clock"),
        ("now = order or time.time; now()", "clock: time.time reads the clock"),
        ("now = {'a': time.time}[order]; now()", "clock: time.time reads the clock"),
        ("(now := order or time.time)()", "clock: time.time reads the clock"),
        ("[sku for sku in helpers.SKUS]", "set: helpers.SKUS has no order"),
        ("[tag for tag in tags]", "set: tags has no order"),
    ],
)
def test_a_clock_under_another_name_or_by_way_of_another_module_is_named(line: str, told: str) -> None:
    (found,) = elsewhere(line)
    assert (found.file, found.line, found.message) == ("shop.py", 11, told)


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("later()", ("deeper.py", 2)),
        ("helpers.deeper.later()", ("deeper.py", 2)),
        ("helpers.later()", ("deeper.py", 2)),
        ("Clock()", ("helpers.py", 20)),
        ("made()", ("helpers.py", 21)),
        ("made.age", ("helpers.py", 23)),
        ("made.of_base()", ("helpers.py", 17)),
        ("quiet.of_base()", ("helpers.py", 17)),
        ("helpers.quiet.of_base()", ("helpers.py", 17)),
        ("of = helpers.quiet; of.of_base()", ("helpers.py", 17)),
        ("Quiet.made()", ("helpers.py", 29)),
        ("sorted([1], key=later)", ("deeper.py", 2)),
        ("functools.partial(later)()", ("deeper.py", 2)),
        ("{'a': later}[order]()", ("deeper.py", 2)),
        ("(order or later)()", ("deeper.py", 2)),
    ],
)
def test_what_it_calls_by_way_of_another_module_is_checked_where_it_stands(line: str, place: tuple[str, int]) -> None:
    assert [(found.file, found.line) for found in elsewhere(line)] == [place]


@pytest.mark.parametrize(
    "line",
    [
        "quiet; Quiet(); made.at; made.by_the_way",  # a method that is named, and not called
        "helpers.around(); helpers.Clock.unknown(); helpers.deeper",
        "clock = order['clock']; clock()",
        "now = time.time; now = order['at']; now()",
        "functools.partial(ctx.step, later); functools.partial(ctx.run, time.time)",
        "await ctx.run(helpers.clock); await ctx.run(time.time); await ctx.step(helpers.deeper.later)",
        "path.name; (path / 'x').suffix; path.with_suffix('.x')",
        "environ = order; environ['X']",
        "{'a': later}[order]; (order or time.time); helpers.CLOCKS[order]; {'at': time.time}.get(order)",
        "{'a': order}[order](); (order or len)([]); [order][0]()",
        "ctx.query('at')(later)",
    ],
)
def test_what_it_does_not_call_is_left_alone(line: str) -> None:
    assert elsewhere(line) == []


def test_queries_and_validators_may_read_the_clock_and_updates_may_not() -> None:
    flow = """
        import time
        from stepwell import workflow
        @workflow
        async def flow(ctx):
            @ctx.query("age")
            def age(): return time.time()
            @ctx.update("add")
            def add(n: int): return time.time()
            @add.validator
            def check(n: int): return time.time()
        """
    assert told(flow) == [("not_deterministic", 9)]


def test_a_module_of_the_folder_that_has_the_name_of_a_library_is_the_folders() -> None:
    flow = "import requests\nfrom stepwell import workflow\n@workflow\nasync def flow(ctx): return requests.get()"
    assert told(flow, requests="def get(): return 1") == []
    assert told(flow) == [("not_deterministic", 4)]


def test_names_are_followed_through_packages_and_stars() -> None:
    texts = {
        "shop": ("shop.py", "from stepwell import workflow\nfrom tills import *\nimport tills.big\n@workflow\n"
                 "async def flow(ctx):\n    now()\n    tills.big.clock()\n    monotonic()"),
        "tills": ("tills/__init__.py", "from .big import clock as now\nfrom . import big\nfrom time import *"),
        "tills.big": ("tills/big.py", "from .small import clock"),
        "tills.small": ("tills/small.py", "from time import time as clock"),
    }  # fmt: skip
    found = [(one.line, one.message) for one in check_code(read_code(texts))]
    assert found == [
        (6, "clock: time.time reads the clock"),
        (7, "clock: time.time reads the clock"),
        (8, "clock: time.monotonic reads the clock"),
    ]


CLASSES = """
import time
from stepwell import WorkflowContext, step, workflow

@step
def charge(n: int) -> int: ...

class Till:
    def stamp(self):
        return time.time()
    def again(self):
        return self.slow()
    def slow(self):
        time.sleep(1)
    def ok(self):
        return 1
    def of_nobody(self):
        return time.time()
    async def pay(self, ctx):
        await ctx.step(charge)
    @staticmethod
    def at():
        return open("till")

TILL = Till()
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("till = Till(); till.stamp()", ("not_deterministic", 10)),
        ("Till().again()", ("not_deterministic", 14)),
        ("TILL.slow()", ("not_deterministic", 14)),
        ("given.stamp()", ("not_deterministic", 10)),
        ("Till.at()", ("not_deterministic", 23)),
        ("await TILL.pay(ctx)", ("bad_arguments", 20)),
        ("await ctx.step(TILL.ok)", ("bad_step", 29)),
        ("await ctx.step('charge', 1)", ("bad_step", 29)),
    ],
)
def test_what_the_methods_do_that_it_calls_is_checked(line: str, found: tuple[str, int]) -> None:
    assert told(f"{CLASSES}\n@workflow\nasync def flow(ctx, given: Till):\n    {line}") == [found]


@pytest.mark.parametrize("call", ["ctx.step('charge', 1)", "ctx.step(charge(1))"])
def test_the_name_of_a_step_and_its_result_are_told_to_be_the_function_itself(call: str) -> None:
    found = problems(f"{CLASSES}\n@workflow\nasync def flow(ctx):\n    await {call}")
    assert [one.hint for one in found if one.code == "bad_step"] == ["give the function itself: ctx.step(charge, …)"]


@pytest.mark.parametrize(
    "line",
    ["till = Till(); till = other(); till.stamp()", "await ctx.run(TILL.stamp)", "TILL.ok()", "Till = ctx; Till.at()"],
)
def test_methods_that_it_does_not_call_are_left_alone(line: str) -> None:
    assert told(f"{CLASSES}\n@workflow\nasync def flow(ctx, given: Till):\n    {line}") == []


def test_a_method_of_another_module_is_told_in_its_own_file() -> None:
    (found,) = problems("from till import Till\n@workflow\nasync def flow(ctx):\n    Till().stamp()", till=(
        "import time\nclass Till:\n    def stamp(self):\n        return time.time()"))  # fmt: skip
    assert (found.code, found.file, found.line) == ("not_deterministic", "till.py", 4)


def test_the_code_of_steps_and_of_nobody_is_left_alone() -> None:
    assert (
        told("import time\nfrom stepwell import step\n@step\ndef a(): return time.time()\ndef b(): time.time()") == []
    )


def test_a_function_of_another_module_that_is_not_there_is_named() -> None:
    flow = """
        import prices
        from prices import off
        from stepwell import workflow
        @workflow
        async def flow(ctx):
            await ctx.step(prices.off)
            await ctx.step(off)
        """
    assert told(flow, prices="def of(): ...") == [("unknown_function", 7), ("unknown_function", 8)]


def test_the_hint_names_the_option_that_was_meant() -> None:
    (found,) = check_path(next(file for file in BAD if file.stem == "option_misspelled"))[1]
    assert (found.message, found.hint) == ("charge has no parameter 'tiemout'", "did you mean `timeout`?")


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("ctx.step(pay, 1, 2, 3)", "pay takes 2 arguments, not 3"),
        ("ctx.step(pay, 1, order=2, card=3)", "pay gets 'order' twice"),
        ("ctx.step(pay, card=3)", "pay needs 'order'"),
        ("ctx.child(flow)", "flow needs 'order'"),
        ("ctx.step(flow)", "flow is a workflow"),
        ("ctx.child(pay, 1, 2)", "pay is no workflow"),
    ],
)
def test_a_call_that_does_not_fit_says_why(call: str, why: str) -> None:
    head = "from stepwell import step, workflow\n@step\ndef pay(order, card): ...\n@workflow\n"
    (found,) = problems(f"{head}async def flow(ctx, order): await {call}\n")
    assert found.message == why


# -- targets of definitions

SHOP = """
from stepwell import step
RATES, score_of = {"eu": 1}, None
LIMIT = 3
later = None
if RATES:
    def later(): ...
def score(order, card): ...
def whole(order: Order): ...
class Till: ...
"""


@pytest.mark.parametrize(
    ("step", "code", "hint"),
    [
        ("run: python:shpo.score", "unknown_module", "did you mean `shop`?"),
        ("run: python:shop.scroe", "unknown_function", "did you mean `score`?"),
        ("run: python:shop.score, input: {order: 1}", "bad_arguments", "add it to `input`"),
        ("run: python:shop.score, input: {order: 1, card: 2, more: 3}", "", ""),
        ("run: python:shop.score", "", ""),
        ("run: python:shop.whole, input: {id: 1}", "", ""),
        ("run: python:shop.Till", "", ""),
        ("run: python:shop.LIMIT", "unknown_function", "known: score, whole"),
        ("run: python:shop.score_of", "", ""),
        ("run: python:shop.later", "", ""),
        ("run: python:json.dumps", "", ""),
        ("run: python:shop", "bad_run", "write python:module.function"),
        ("run: python:tills.big.f", "unknown_module", ""),
        ("run: python:tills.small.f", "", ""),
        ("run: python:broken.f", "", ""),
    ],
)
def test_the_targets_of_a_definition_are_checked_against_the_code(
    tmp_path: Path, step: str, code: str, hint: str
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "broken.py").write_text("def f(:")
    (tmp_path / "tills").mkdir()
    (tmp_path / "tills" / "__init__.py").write_text("")
    (tmp_path / "tills" / "small.py").write_text("def f(): ...")
    (tmp_path / "w.yaml").write_text(f"workflow: w\ntimeline:\n  - {{name: a, timeout: 1m, {step}}}\n")
    found = [problem for problem in check_path(tmp_path)[1] if problem.code != "bad_syntax"]
    assert [(problem.code, problem.line) for problem in found] == ([(code, 3)] if code else [])
    assert not hint or found[0].hint == hint


def test_what_ctx_does_not_have_is_named_where_ctx_is_certainly_a_workflow_s() -> None:
    text = """
    from stepwell import WorkflowContext, workflow
    def shown(ctx): return ctx.items()
    async def leg(ctx: WorkflowContext): await ctx.steps(shown)
    @workflow
    async def flow(ctx):
        shown({})
        await leg(ctx)
        await ctx.wait_for_event("paid")
        return ctx.run_id, ctx.__class__
    """
    found = [(problem.code, problem.line, problem.hint) for problem in problems(text)]
    assert found == [
        ("unknown_operation", 4, "did you mean `step`?"),
        ("unknown_operation", 9, "did you mean `event`?"),
    ]


def test_what_a_workflow_asks_of_another_tools_context_or_of_a_steps_is_told_where_it_is() -> None:
    text = """
    from stepwell import WorkflowContext, workflow
    @workflow
    async def flow(ctx: WorkflowContext):
        await ctx.sleep_until("2030-01-31")
        ctx.emit({"word": "a"})
        ctx.logger.info("a")
    """
    assert [problem.hint for problem in problems(text)] == [
        "ctx.sleep(when), of a datetime; ctx.until(lambda: …), of a condition",
        "the ctx of a step has it: def step(ctx: StepContext, …)",
        "did you mean `log`?",
    ]


def test_a_name_of_import_star_is_of_the_module_that_has_it() -> None:
    """And not of the library that is imported so before it, which may have any name."""
    text = """
    from stepwell import workflow
    from random import *
    from helpers import *
    @workflow
    async def flow(ctx): return price(1), randint(1, 6)
    """
    assert told(text, helpers="def price(order): return order\n") == [("not_deterministic", 6)]
    assert [(problem.code, problem.file) for problem in problems(
        text.replace(", randint(1, 6)", ""), helpers="import time\ndef price(order): return time.time()\n"
    )] == [("not_deterministic", "helpers.py")]  # fmt: skip


def test_a_sleep_that_is_not_awaited_is_named() -> None:
    text = """
    import asyncio
    from asyncio import wait_for as within
    from stepwell import workflow
    @workflow
    async def flow(ctx):
        asyncio.sleep(5)
        within(ctx.event("paid"), 5)
        later = asyncio.sleep(5)
        await asyncio.gather(later, asyncio.sleep(5))
    """
    assert told(text) == [("never_awaited", 7), ("never_awaited", 8)]


def test_a_step_that_is_called_for_ctx_run_is_named() -> None:
    text = """
    from functools import partial
    from stepwell import step, workflow
    @step
    def pay(order): ...
    def payer(order): return lambda: pay(order)
    @workflow
    async def flow(ctx, order):
        await ctx.run(pay(order))
        await ctx.run(lambda: pay(order))
        await ctx.run(partial(pay, order))
        await ctx.run(payer(order))
    """
    assert told(text) == [("step_called", 9)]


def test_an_event_that_is_sent_without_await_and_a_step_that_sends_are_named() -> None:
    text = """
    from stepwell import step, workflow
    @step
    async def tell(ctx): await ctx.send("paid", {}, key="1")
    @workflow
    async def flow(ctx):
        ctx.send("paid", {}, key="1")
        async with ctx.limit("api"): await ctx.step(tell)
    """
    assert told(text) == [("nested_step", 4), ("never_awaited", 7)]


def test_a_parameter_that_no_input_can_name_is_told() -> None:
    """The start of such a workflow was accepted, and its run waited for other code."""
    text = """
    from stepwell import step, workflow
    @step
    def pay(order, *more): return order
    @step
    def ship(order, /): return order
    def of_its_own(*any): return any
    @workflow
    async def flow(ctx, order, *, fast=False, **rest): return of_its_own(order)
    @workflow
    async def other(ctx, *orders): return orders
    """
    assert told(text) == [("step_signature", 4), ("step_signature", 6), ("step_signature", 11)]
    assert "`orders: list`" in problems(text)[2].hint


def test_a_function_that_asks_as_a_workflow_does_is_no_step() -> None:
    """A function of a module is a step where `ctx.step` and `ctx.map` get it, whatever its `ctx` is elsewhere."""
    text = """
    from stepwell import step, workflow
    @step
    def pay(order): return order
    async def leg(ctx, order): return await ctx.step(pay, order)
    @workflow
    async def flow(ctx, orders):
        await ctx.map(pay, orders)
        await ctx.map(lambda order: leg(ctx, order), orders)
        await ctx.step(leg, orders[0])
        await ctx.map(leg, orders)
    """
    assert told(text) == [("nested_step", 10), ("nested_step", 11)]
    assert "map lambda item: leg(ctx, item)" in problems(text)[1].hint


def test_the_functions_that_stand_in_for_resources_are_checked_against_the_code(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    tasks = "  A: {Type: Task, Resource: score, Next: B}\n  B: {Type: Task, Resource: run, End: true}\n"
    (tmp_path / "w.asl.yaml").write_text(f"StartAt: A\nStates:\n{tasks}")
    (tmp_path / "resources.yaml").write_text("resources:\n  score: python:shop.scroe\n  run: python:shpo.score\n")
    found = check_path(tmp_path)[1]
    assert [(one.code, Path(one.file).name, one.line, one.hint) for one in found] == [
        ("unknown_function", "resources.yaml", 2, "did you mean `score`?"),
        ("unknown_module", "resources.yaml", 3, "did you mean `shop`?"),
    ]


IN_VAIN = """
import time
from stepwell import workflow
def charge(n): return time.time() + n
def total(n): return n + 1
@workflow
async def flow(ctx, n: int):
    at = charge(n)
    return at + total(n) + charge(n)
"""
AS_STEPS = """
@workflow
async def other(ctx, n: int): return await ctx.step(charge, n) + await ctx.step(total, n)
"""


def test_a_function_that_is_a_step_elsewhere_is_told_where_it_is_called_as_a_function() -> None:
    """It is right as it stands: its call is wrong. One that a replay runs with the same result is left alone."""
    assert told(IN_VAIN + AS_STEPS) == [("step_called", 8), ("step_called", 9)]
    assert problems(IN_VAIN + AS_STEPS)[0].hint == "await ctx.step(charge, …)"


def test_a_function_that_is_no_step_anywhere_is_told_in_its_body() -> None:
    assert told(IN_VAIN) == [("not_deterministic", 4)]


def test_a_step_elsewhere_that_calls_itself_is_told_once() -> None:
    text = IN_VAIN.replace("time.time() + n", "time.time() if n else charge(n)").replace(" + charge(n)", "")
    assert told(text + AS_STEPS) == [("step_called", 8)]
