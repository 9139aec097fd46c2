"""What each caller sends to a function with one parameter that is a model, and keys that fit all of them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell.testing.kit import Stepwell

MODULE = """
from pydantic import BaseModel
from stepwell import workflow

class Order(BaseModel):
    id: str
    customer: str

@workflow(
    concurrency={"limit": 1, "key": "{{ input.order.customer }}"},
    triggers=[{"event": "order.created", "key": "{{ event.id }}", "input": {"order": "{{ event }}"}}],
)
async def ship(ctx, order: Order):
    await ctx.sleep("1h")
    return order.customer

@workflow(
    concurrency={"limit": 1, "key": "{{ has(input.order) ? input.order.customer : input.customer }}"},
    triggers=[{"event": "order.paid", "key": "{{ event.id }}"}],
)
async def either(ctx, order: Order):
    await ctx.sleep("1h")
    return order.customer

@workflow
async def parent(ctx, order: Order):
    return await ctx.child(ship, order)
"""
ORDER = {"id": "A-1", "customer": "hh"}


@pytest.fixture
def kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stepwell]:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "whole.py").write_text(MODULE)
    made = Stepwell(tmp_path)
    yield made
    made.close()
    sys.modules.pop("whole", None)


def given_to(kit: Stepwell, workflow: str) -> list[Any]:
    return [run.view["input"] for run in kit.runs(workflow)]


@pytest.mark.parametrize(("workflow", "event", "sent"), [
    ("ship", "order.created", {"order": ORDER}), ("either", "order.paid", ORDER),
])  # fmt: skip
def test_a_trigger_sends_its_input_else_the_payload_and_the_client_the_argument_by_name(
    kit: Stepwell, workflow: str, event: str, sent: Any
) -> None:
    """A key that fits both counts their runs together."""
    kit.event(event, ORDER)
    whole = importlib.import_module("whole")
    handle = kit.client().start(getattr(whole, workflow), whole.Order(**ORDER))
    assert sorted(map(str, given_to(kit, workflow))) == sorted(map(str, [sent, {"order": ORDER}]))
    assert sorted(run.status for run in kit.runs(workflow)) == ["pending", "waiting"]
    kit.advance("3h")
    assert handle.result() == "hh"
    assert {run.status for run in kit.runs(workflow)} == {"completed"}


def test_a_function_sends_the_argument_to_its_child_by_name_too(kit: Stepwell) -> None:
    kit.start("parent", ORDER)
    assert given_to(kit, "ship") == [{"order": ORDER}]
