"""How workers share the tests: what is slow to make is made once, by one of them, and what takes long begins first."""

from __future__ import annotations

import faulthandler
import gc
import os
import sys
import sysconfig
import time
from collections.abc import Iterator
from math import inf
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

# The beginnings of paths: one worker has them all, and with them what their sessions share.
TOGETHER = {
    "tests/emulator/": "a deployment",
    "tests/infra/": "templates",
    "tests/iam/": "templates",
    "tests/wheel/": "the wheel",
    "tests/api/test_hints.py": "errors",
    "tests/cli/test_mistakes.py": "errors",
    "tests/docs/test_generated.py": "errors",
}
ALONE = ("tests/emulator/test_command.py", "tests/iam/test_enforced.py", "tests/infra/test_bundling.py")
# One that mostly waits goes well beside one that computes. What is left for the end are files of a few seconds.
LONG = ("a deployment", "tests/sim/", "tests/emulator/test_command.py", "tests/local/test_kill.py",
        "tests/iam/test_enforced.py", "tests/console/", "templates", "the wheel", "tests/local/", "tests/functions/",
        "errors", "tests/docs/", "tests/scenarios/", "tests/simulation/", "tests/testing/", "tests/types/",
        "tests/lifecycle/", "tests/durable/")  # fmt: skip

PATIENCE_SECONDS = 1200
WATCHED_ANEW_SECONDS = 60
LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib"))
KNOWN: dict[str, ModuleType] = {}  # theirs that were imported when the tests were collected, by name: thousands

# How long an example takes says how busy the machine is.
settings.register_profile("stepwell", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("stepwell")


class Sharing(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """A file for one worker, and where files belong together all of them."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    """The name of what is not divided: a file's path, or what it shares with others."""
    file = nodeid.partition("::")[0]
    found = (scope for beginning, scope in TOGETHER.items() if file.startswith(beginning) and file not in ALONE)
    return next(found, file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two more than the processors: a third of the tests wait for servers."""
    return (os.cpu_count() or 1) + 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Sharing:
    return Sharing(config, log)


class Watch:
    """A test that never ends says where it stands, and fails.

    pytest sets a watch at each test, and waits for the thread of it: milliseconds, where others compute.
    """

    def __init__(self) -> None:
        self._since, self._stderr = -inf, os.dup(2)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> None:
        if time.monotonic() - self._since > WATCHED_ANEW_SECONDS:
            self._since = time.monotonic()
            faulthandler.dump_traceback_later(PATIENCE_SECONDS, exit=True, file=self._stderr)

    def pytest_enter_pdb(self) -> None:
        faulthandler.cancel_dump_traceback_later()

    def pytest_unconfigure(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        os.close(self._stderr)


def pytest_configure(config: pytest.Config) -> None:
    """Each worker collects the same folders, but begins with others: what one has compiled, the next one reads."""
    config.pluginmanager.register(Watch())
    name = os.environ.get("PYTEST_XDIST_WORKER", "")
    if name:
        gc.disable()  # what is collected stays
    if name and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        folders = sorted(str(one) for path in config.args for one in config.rootpath.joinpath(path).iterdir()
                         if (one.is_dir() and one.name[0].isalpha()) or one.match("test_*.py"))  # fmt: skip
        worker, workers = int(name.removeprefix("gw")), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        config.args = [one for turn in range(workers) for one in folders[(worker + turn) % workers :: workers]]


def pytest_collection_finish() -> None:
    """Leaves what is imported and collected out of every later search for garbage: it stays to the end."""
    KNOWN.update((name, one) for name, one in sys.modules.items() if _file_of(one).startswith(LIBRARIES))
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 20)


def _file_of(module: ModuleType) -> str:
    return str(getattr(module, "__file__", None) or "")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: (_turn(scope_of(item.nodeid)), item.path.parts))


def _turn(scope: str) -> int:
    return next((turn for turn, beginning in enumerate(LONG) if scope.startswith(beginning)), len(LONG))


@pytest.fixture
def no_collection() -> Iterator[None]:
    """No garbage is collected in a thread that a test interrupts: a `__del__` of another test would swallow that."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """A workflow folder that a test has loaded is no longer importable in the next one: `init` looks for its names."""
    before = list(sys.path)
    yield
    added = tuple(f"{entry}/" for entry in set(sys.path).difference(before))
    if added:
        sys.path[:] = before
        for name in [name for name, module in sys.modules.items() if KNOWN.get(name) is not module]:
            if _file_of(sys.modules[name]).startswith(added):
                del sys.modules[name]
