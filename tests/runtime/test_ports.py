"""The ports: what the runtime asks of the world, in parts small enough to write an adapter for."""

from __future__ import annotations

from inspect import isfunction
from typing import Any, get_type_hints

import pytest

from stepwell.runtime import ports
from stepwell.runtime.ports import Ports

MOST_METHODS = 8
HERE = [one for one in vars(ports).values() if getattr(one, "__module__", "") == ports.__name__]
PROTOCOLS = [one for one in HERE if getattr(one, "_is_protocol", False)]


def methods(port: type[Any]) -> list[str]:
    """Its own and those that it inherits."""
    return [name for name in dir(port) if not name.startswith("_") and isfunction(getattr(port, name))]


@pytest.mark.parametrize("port", PROTOCOLS)
def test_a_port_has_few_methods(port: type[Any]) -> None:
    assert 0 < len(methods(port)) <= MOST_METHODS, methods(port)


def test_the_runtime_gets_nothing_of_the_world_but_ports() -> None:
    assert set(get_type_hints(Ports).values()) <= set(PROTOCOLS)


def test_only_the_log_appends() -> None:
    assert [port.__name__ for port in PROTOCOLS if any("append" in name for name in methods(port))] == ["Log"]
