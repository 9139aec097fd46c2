"""What callers can ask of the simulator's durable function: updates, a query, and conditions on what has changed.

The function runs in the engine and, for the laws, on plain asyncio: `ctx` is the one or the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.sim.fn_values import Statement, digest

TROUBLE = 13  # what `add` raises after, with the change made


class Takes:
    """The handlers of one life of the function, and the variable that they change."""

    def __init__(self, ctx: Any, pays: Callable[[int], Awaitable[Any]] | None) -> None:
        """`pays`: what the async handler awaits; None where there is no such handler."""
        self._ctx, self._items = ctx, list[int]()

        @ctx.update("add")  # type: ignore[untyped-decorator]  # of whichever context
        def add(n: int) -> list[int]:
            self._change(n)
            if n == TROUBLE:
                raise ValueError("it has changed something, and does not like it")
            return [len(self._items), round(ctx.now().timestamp() * 1_000)]

        @add.validator  # type: ignore[untyped-decorator]  # of whichever context
        def check(n: int) -> None:
            if n < 0:
                raise ValueError("below zero")

        ctx.query("items", lambda: list(self._items))
        if pays is None:
            return

        @ctx.update("pay")  # type: ignore[untyped-decorator]  # of whichever context
        async def pay(n: int) -> list[int]:
            self._change(n)
            return [n, digest(await pays(n)), len(self._items)]

    def _change(self, n: int) -> None:
        self._items.append(n)
        self._ctx.state["items"] = list(self._items)

    async def until(self, one: Statement) -> Any:
        """Waits for so many updates; `late` where they do not come."""
        try:
            await self._ctx.until(lambda: len(self._items) >= one["count"], timeout=one["seconds"])
        except TimeoutError:
            return "late"
        return list(self._items)


def is_refused(name: str, given: Mapping[str, Any]) -> bool:
    """Whether its validator says no."""
    return name == "add" and given.get("n", 0) < 0
