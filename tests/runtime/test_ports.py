"""The ports: what the runtime asks of the world, in parts small enough to write an adapter for."""

from __future__ import annotations

import ast
from inspect import isfunction
from math import ceil
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import stepwell
from stepwell.runtime import ports
from stepwell.runtime.ports import Ports

MOST_METHODS = 8
ROOT = Path(stepwell.__file__).parent
APPENDS = {
    "runtime/log/door.py": ["self._logbook"],  # what was decided
    "runtime/log/logbook.py": ["lane", "self._log"],  # for the door: to the lane of a branch, or to a token's own log
    "runtime/log/lanes.py": ["self._log"],  # what the door gave a lane, with what it gave the branches beside it
    "runtime/calls/redriving.py": ["self._ports.log"],  # a copy of what another run decided, in a log nobody reads yet
}
HERE = [one for one in vars(ports).values() if getattr(one, "__module__", "") == ports.__name__]
PROTOCOLS = [one for one in HERE if getattr(one, "_is_protocol", False)]


def methods(port: type[Any]) -> list[str]:
    """Its own and those that it inherits."""
    return [name for name in dir(port) if not name.startswith("_") and isfunction(getattr(port, name))]


@pytest.mark.parametrize("port", PROTOCOLS)
def test_a_port_has_few_methods(port: type[Any]) -> None:
    assert 0 < len(methods(port)) <= MOST_METHODS, methods(port)


def test_the_store_is_no_more_ports_than_its_operations_need() -> None:
    store = list(get_type_hints(Ports).values())[:6]
    assert store == [ports.Log, ports.Mailbox, ports.Runs, ports.Notes, ports.Slots, ports.Erasure]
    assert len(store) == ceil(sum(len(methods(port)) for port in store) / MOST_METHODS)


def test_the_runtime_gets_nothing_of_the_world_but_ports() -> None:
    assert set(get_type_hints(Ports).values()) <= set(PROTOCOLS)


def test_only_the_log_appends() -> None:
    assert [port.__name__ for port in PROTOCOLS if any("append" in name for name in methods(port))] == ["Log"]


def appends(path: Path) -> list[str]:
    """To what a module appends: whatever it awaits for that."""
    awaited = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Await)]
    calls = [one.func for one in awaited if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)]
    return sorted(ast.unparse(call.value) for call in calls if call.attr == "append")


def test_what_is_decided_is_appended_in_one_place_and_a_redrive_copies_in_another() -> None:
    parts = ("api", "runtime", "testing")
    found = {path.relative_to(ROOT).as_posix(): appends(path) for part in parts for path in (ROOT / part).rglob("*.py")}
    assert {name: calls for name, calls in found.items() if calls} == APPENDS
