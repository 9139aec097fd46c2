"""In its turn, a durable function that calls clock, chance, files, sockets or threads fails at that call, by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.durable.conftest import Flows

HEAD = """
import asyncio, datetime, functools, glob, io, os, random, secrets, shutil, socket, subprocess, tempfile, threading
import time, urllib.request, uuid
from datetime import datetime as DateTime, date
from pathlib import Path
from time import time as seconds
from uuid import uuid4
from stepwell import step, workflow

class Clock:
    def read(self):
        return time.monotonic()
    @staticmethod
    def still(): return seconds()
    @property
    def now(self): return DateTime.now()

@functools.lru_cache
def cached(): return time.time()
async def late():
    await asyncio.sleep(2)
    time.time()
SYSTEM, SEEDED = random.SystemRandom(), random.Random(7)

@step
def stamped(order):
    return [type(time.time()).__name__, len(str(uuid4())), Path(__file__).exists(), len(os.listdir('.')) > 0]
"""


def failed(flows: Flows, line: str) -> str:
    """The error of a function with this line."""
    kit = flows(f"{HEAD}\n@workflow\nasync def flow(ctx, order):\n    {line}\n    return 'passed'\n")
    run = kit.start("flow", {"order": 1})
    assert run.status == "failed", run.result
    assert run.error is not None
    assert run.error["type"] == "not_deterministic", run.error
    return str(run.error["message"])


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("time.time()", "clock: time.time reads the clock"),
        ("seconds()", "clock: time.time reads the clock"),
        ("time.monotonic_ns()", "clock: time.monotonic_ns"),
        ("time.localtime()", "clock: time.localtime"),
        ("time.sleep(1)", "clock: time.sleep blocks the function"),
        ("DateTime.now()", "clock: datetime.datetime.now"),
        ("datetime.datetime.now(tz=datetime.UTC)", "clock: datetime.datetime.now"),
        ("datetime.datetime.utcnow()", "clock: datetime.datetime.utcnow"),
        ("date.today()", "clock: datetime.date.today"),
        ("random.random()", "chance: random.random"),
        ("random.choice([1, 2])", "chance: random.choice"),
        ("SYSTEM.random()", "chance: random.random"),
        ("random.Random()", "chance: random.Random"),
        ("uuid4()", "chance: uuid.uuid4"),
        ("uuid.uuid1()", "chance: uuid.uuid1"),
        ("secrets.token_hex()", "chance: secrets.token_hex"),
        ("secrets.choice([1])", "chance: random.choice"),
        ("os.urandom(4)", "chance: os.urandom"),
        ("open('/etc/hosts')", "file: io.open uses the file system"),
        ("Path('/etc/hosts').read_text()", "file: pathlib.Path.read_text"),
        ("Path.cwd()", "file: pathlib.Path.cwd"),
        ("os.listdir('.')", "file: os.listdir"),
        ("os.path.exists('.')", "file: os.path.exists"),
        ("glob.glob('*')", "file: glob.glob"),
        ("tempfile.mkdtemp()", "file: tempfile.mkdtemp"),
        ("socket.socket()", "socket: socket.socket uses the network"),
        ("socket.create_connection(('127.0.0.1', 1))", "socket: socket.create_connection"),
        ("urllib.request.urlopen('http://127.0.0.1:1')", "socket: urllib.request.urlopen"),
        ("threading.Thread(target=print).start()", "thread: threading.Thread"),
        ("subprocess.run(['true'])", "thread: subprocess.run"),
    ],
)
def test_a_call_that_a_replay_would_answer_otherwise_fails_the_run_at_its_line(
    flows: Flows, line: str, named: str
) -> None:
    message = failed(flows, line)
    assert message.startswith(named)
    lines = (flows.folder / "flow.py").read_text().splitlines()
    assert f" at flow.py:{len(lines) - 1}" in message  # the last but one


@pytest.mark.parametrize(
    "line",
    [
        "clock = time.time; clock()",
        "functools.partial(time.time)()",
        "getattr(time, 'time')()",
        "[one() for one in (time.time,)]",
        "(lambda: uuid4())()",
        "Clock().read()",
        "Clock.still()",
        "Clock().now",
        "cached()",
        "ctx.state['at'] = str(DateTime.now())",
        "await asyncio.gather(asyncio.sleep(1), late())",
    ],
)
def test_it_is_seen_however_the_functions_code_comes_to_it(flows: Flows, line: str) -> None:
    kit = flows(f"{HEAD}\n@workflow\nasync def flow(ctx, order):\n    {line}\n")
    run = kit.start("flow", {"order": 1})
    kit.advance("1m")
    assert run.error is not None
    assert run.error["type"] == "not_deterministic", run.error


def test_what_is_the_same_in_each_replay_passes(flows: Flows) -> None:
    """Seeded chance, given times, steps, and all that steps do."""
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx, order):
    assert isinstance(ctx.now(), DateTime) and type(ctx.now()) is DateTime
    SEEDED.random(), random.Random(3).random(), time.localtime(0), DateTime(2030, 1, 1), date.max
    os.path.join("a", "b"), Path("a") / "b", uuid.UUID(int=3), threading.Lock(), ctx.random(), ctx.uuid()
    subprocess.CalledProcessError(1, "till"), subprocess.TimeoutExpired("till", 3), socket.gaierror(2, "no")
    return await ctx.step(stamped, order)
"""
    )
    assert kit.start("flow", {"order": 1}).result == ["float", 36, True, True]


@pytest.fixture
def library(tmp_path: Path) -> Iterator[None]:
    """An installed package that stamps ids and reads the clock."""
    packages = tmp_path / ".venv" / "lib" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "stamps.py").write_text("import time, uuid\ndef stamp():\n    return time.time(), uuid.uuid4()\n")
    sys.path.append(str(packages))
    yield
    sys.path.remove(str(packages))
    sys.modules.pop("stamps", None)


@pytest.mark.usefixtures("library")
def test_what_a_library_calls_is_left_alone(flows: Flows) -> None:
    kit = flows("""
import json, logging, stamps
from stepwell import workflow
@workflow
async def flow(ctx, order):
    logging.getLogger("flow").warning("stamped")
    return json.dumps(len(stamps.stamp()))
""")
    assert kit.start("flow", {"order": 1}).result == "2"


def test_a_module_of_the_folder_is_looked_at_when_a_function_uses_it_and_again_after_a_reload(flows: Flows) -> None:
    flows.write("import time\ndef seconds():\n    return time.time()\n", "clocks.py")
    kit = flows("""
from stepwell import workflow
from clocks import seconds
@workflow
async def flow(ctx, order):
    return seconds()
""")
    first = kit.start("flow", {"order": 1})
    assert first.error is not None
    assert " at clocks.py:3" in first.error["message"]
    flows.write("import random\n\n\ndef seconds():\n    return random.random()\n", "clocks.py")
    kit.reload()
    second = kit.start("flow", {"order": 1})
    assert second.error is not None
    assert "random.random is random at clocks.py:5" in second.error["message"]


def test_what_is_given_to_ctx_run_is_a_step_and_may_call_anything(flows: Flows) -> None:
    kit = flows(
        HEAD
        + """
@workflow
async def flow(ctx, order):
    async def later():
        await asyncio.sleep(0)
        return time.time() > 0
    return [await ctx.run(lambda: len(str(uuid4()))), await ctx.run(later)]
"""
    )
    assert kit.start("flow", {"order": 1}).result == [36, True]


def test_two_functions_of_one_line_keep_their_own_code(flows: Flows) -> None:
    kit = flows("""
from stepwell import workflow
ONE, TWO = (lambda: 1), (lambda: 2)
@workflow
async def flow(ctx, order):
    return [ONE(), TWO()]
""")
    assert kit.start("flow", {"order": 1}).result == [1, 2]


def test_a_query_may_read_the_clock(flows: Flows) -> None:
    """Nothing of it is recorded."""
    kit = flows("""
import time
from stepwell import workflow
@workflow
async def flow(ctx, order):
    @ctx.query("at")
    def at():
        return time.time() > 0
    await ctx.sleep("1h")
""")
    assert kit.start("flow", {"order": 1}).query("at") is True
