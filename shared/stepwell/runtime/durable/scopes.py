"""Numbers anyio's cancel scopes, so that each replay cancels the tasks of a group in the same order.

anyio keeps scopes in sets, whose order otherwise depends on the scopes' addresses in memory.
"""

from __future__ import annotations

import sys
from asyncio import events
from importlib import import_module
from typing import Any


def number_scopes() -> None:
    """Numbers the scopes that are made in durable functions from now on. Does nothing while anyio is not imported."""
    if "anyio" not in sys.modules:
        return
    backend: Any = import_module("anyio._backends._asyncio")
    if not hasattr(backend.CancelScope, "_number"):
        backend.CancelScope = _numbered(backend.CancelScope)


def _numbered(scope: Any) -> Any:
    class CancelScope(scope):  # type: ignore[misc]  # known at run time alone
        """anyio's own scope, with a number as its hash."""

        __slots__ = ("_number",)

        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            numbers = getattr(events._get_running_loop(), "numbers", None)  # of a durable function
            self._number: int = id(self) if numbers is None else next(numbers)

        def __hash__(self) -> int:
            return self._number

    return CancelScope
