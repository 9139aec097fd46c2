"""Time limits that interrupt, whatever the step is doing; and users' modules, however they are written."""

from __future__ import annotations

import calendar
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest

from stepwell.definition.graph import Step
from stepwell.runtime.steps import threads
from tests.runtime.kit import Folder

Make = Callable[..., Folder]

pytestmark = pytest.mark.usefixtures("no_collection")

LONG_SECONDS = 25  # less than the minute that they would take, and more than a slow machine makes of 50 ms

SLOW = """
import asyncio, threading, time
free = threading.Event()
alive = True
seen = []
def busy():
    while alive: pass
def blocked(): time.sleep(0.6)
def held():
    global thread
    thread = threading.current_thread()
    free.wait(9)
    seen.append("too late")
def stubborn():
    while alive:
        try:
            while alive: pass
        except Exception: seen.append("Exception")
def deaf():
    try:
        while alive: time.sleep(0.001)
    except BaseException as error: seen.append(type(error).__name__)
    return "too late"
def polite(ctx):
    while alive: ctx.heartbeat()
def beats(ctx):
    for _ in range(9): ctx.heartbeat()
    return "done"
def endless():
    n = 0
    while alive: yield (n := n + 1)
async def asleep():
    try: await asyncio.sleep(60)
    finally: seen.append("cleaned up")
async def spinning():
    while alive: pass
async def wont():
    while alive:
        try: await asyncio.sleep(60)
        except asyncio.CancelledError: seen.append("no")
async def quick(): return "quick"
def plain(): return "plain"
def deferred(): return quick()
"""


@pytest.fixture
def slow(folder: Make) -> Iterator[Folder]:
    """Threads that were left behind end with the test."""
    made = folder(slow=SLOW)
    yield made
    if "slow" in sys.modules:
        vars(sys.modules["slow"])["alive"] = False


@pytest.mark.parametrize(
    "name", ["busy", "blocked", "stubborn", "deaf", "polite", "endless", "asleep", "spinning", "wont"]
)
def test_a_step_that_takes_too_long_is_a_timeout_whatever_it_does(slow: Folder, name: str) -> None:
    began = time.monotonic()
    outcome = slow.run(f"slow.{name}", timeout_ms=50)
    assert outcome.failure is not None
    assert (outcome.failure.type, outcome.failure.category) == ("step_timeout", "timeout")
    assert time.monotonic() - began < LONG_SECONDS
    assert slow.run("slow.plain").value == "plain"  # and the next step is not troubled by it


@pytest.mark.parametrize("name", ["busy", "deaf", "endless"])
def test_a_plain_step_s_limit_is_not_stretched_by_an_async_step_before_it(slow: Folder, name: str) -> None:
    """An async step gets time to clean up; a plain one on the same thread does not."""
    assert slow.run("slow.quick").value == "quick"
    with mock.patch.object(threads, "_CLEAN_UP_SECONDS", 3 * LONG_SECONDS):
        began = time.monotonic()
        assert slow.run(f"slow.{name}", timeout_ms=50).failure is not None
        assert time.monotonic() - began < LONG_SECONDS


def test_a_late_result_is_dropped(slow: Folder) -> None:
    assert slow.run("slow.blocked", timeout_ms=20).failure is not None
    assert slow.run("slow.plain").value == "plain"


@pytest.mark.parametrize("watch", [sys.setprofile, sys.settrace])
def test_a_step_that_blocks_past_its_limit_holds_up_nobody_who_is_profiled_or_debugged(
    slow: Folder, watch: Callable[[Any], None]
) -> None:
    """In Python 3.11 a thread with a profiler does not get on while another has an interrupt before it."""
    assert slow.run("slow.held", timeout_ms=20).failure is not None
    module = sys.modules["slow"]
    for thread in threading.enumerate():
        if thread.name == "stepwell-interrupt":
            thread.join()
    watch(lambda *_: None)
    try:
        assert slow.run("slow.plain").value == "plain"
    finally:
        watch(None)
    assert module.thread.is_alive()  # it blocks as before
    module.free.set()
    module.thread.join(LONG_SECONDS)
    assert module.seen == []  # and then it was interrupted


def test_a_step_that_swallows_exceptions_does_not_see_the_interrupt(slow: Folder) -> None:
    slow.run("slow.stubborn", timeout_ms=50)
    assert sys.modules["slow"].seen == []


def test_an_async_step_is_cancelled_and_may_clean_up(slow: Folder) -> None:
    slow.run("slow.quick")  # its thread and the loop are there: it is asleep long before its time is up
    slow.run("slow.asleep", timeout_ms=300)
    assert sys.modules["slow"].seen == ["cleaned up"]


def test_a_coroutine_that_refuses_to_be_cancelled_does_not_hold_up_the_next_step(slow: Folder) -> None:
    slow.run("slow.wont", timeout_ms=50)
    assert slow.run("slow.quick").value == "quick"


@pytest.mark.parametrize(("name", "made"), [("quick", "quick"), ("deferred", "quick"), ("beats", "done")])
def test_a_step_within_its_limit_is_left_alone(slow: Folder, name: str, made: str) -> None:
    assert slow.run(f"slow.{name}").value == made


def test_attempts_run_in_a_thread_that_is_used_again(slow: Folder) -> None:
    slow.run("slow.plain")
    before = threading.active_count()
    for _ in range(20):
        slow.run("slow.plain")
        slow.run("slow.quick")
    assert threading.active_count() == before


# -- users' modules


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("import not_there_at_all\ndef f(): return 1", "ModuleNotFoundError"),
        ("def f(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        ("import sys\nsys.exit(1)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_a_module_that_cannot_be_imported_fails_the_step_and_nothing_else(folder: Make, source: str, kind: str) -> None:
    made = folder(broken=source)
    policy = made.steps.policy(Step("python:broken.f"))
    assert policy.timeout_ms == 300_000
    failure = made.run("broken.f").failure
    assert failure is not None
    assert (failure.type, failure.category) == (kind, "step")


def test_a_module_that_was_repaired_is_imported_again(folder: Make) -> None:
    made = folder(broken="1 / 0")
    assert made.run("broken.f").failure is not None
    made.write("broken", "def f(): return 'repaired'")
    made.steps.reload()
    assert made.run("broken.f").value == "repaired"


@pytest.mark.parametrize(
    ("path", "says"), [("nowhere.f", "no module 'nowhere'"), ("m.g", "no function 'g'"), ("m.number", "no function")]
)
def test_a_function_that_is_not_there_is_a_validation_error_that_says_what_is(
    folder: Make, path: str, says: str
) -> None:
    failure = folder(m="number = 1\ndef f(): return 1").run(path).failure
    assert failure is not None
    assert (failure.type, failure.category) == ("unknown_step", "validation")
    assert says in failure.message


def test_modules_may_import_each_other(folder: Make) -> None:
    made = folder(shop="import prices\ndef f(): return prices.of()", prices="def of(): return 7")
    assert made.run("shop.f").value == 7


def test_a_second_folder_does_not_see_the_first_one_s_module_of_the_same_name(folder: Make) -> None:
    one, two = folder("one", shop="def f(): return 1"), folder("two", shop="def f(): return 2")
    assert [one.run("shop.f").value, two.run("shop.f").value, one.run("shop.f").value] == [1, 2, 1]


def test_a_second_folder_does_not_see_what_the_first_one_s_modules_import(folder: Make) -> None:
    source = "import prices\ndef f(): return prices.N"
    one = folder("one", shop=source, prices="N = 1")
    two = folder("two", shop=source, prices="N = 2")
    assert [one.run("shop.f").value, two.run("shop.f").value] == [1, 2]


def test_a_package_of_a_second_folder_is_its_own(folder: Make) -> None:
    one = folder("one", **{"shop.__init__": "", "shop.till": "def f(): return 1"})
    two = folder("two", **{"shop.__init__": "", "shop.till": "def f(): return 2"})
    assert [one.run("shop.till.f").value, two.run("shop.till.f").value] == [1, 2]


def test_a_folder_inside_another_has_modules_of_its_own(folder: Make) -> None:
    inner, outer = folder("outer/inner", shop="def f(): return 'in'"), folder("outer", shop="def f(): return 'out'")
    assert [inner.run("shop.f").value, outer.run("shop.f").value] == ["in", "out"]


def test_a_module_named_like_one_of_python_s_own_is_the_folder_s_for_steps_and_python_s_for_all_others(
    folder: Make,
) -> None:
    made = folder(calendar="made = []\ndef f():\n made.append(1)\n return len(made)\ndef g(): return len(made)")
    assert [made.run("calendar.f").value, made.run("calendar.g").value] == [1, 1]
    assert sys.modules["calendar"] is calendar


def test_a_step_may_import_a_module_of_its_folder_when_it_runs(folder: Make) -> None:
    made = folder(shop="def f():\n import prices_late\n return prices_late.N", prices_late="N = 3")
    assert made.run("shop.f").value == 3
