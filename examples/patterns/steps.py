"""The steps of all patterns. What they do does not matter; when, how often and after what they run does."""

from __future__ import annotations

from stepwell.runtime.steps.context import StepContext


def do(ctx: StepContext) -> str:
    """The work of a node: says that it was done."""
    return f"{ctx.step} done"


def count(so_far: int) -> int:
    """One more round."""
    return so_far + 1


def score(item: int) -> int:
    """One of many instances."""
    return item * 10
