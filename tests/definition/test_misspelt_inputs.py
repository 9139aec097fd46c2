"""`stepwell check` warns of a name in a step's `input:` that is nearly one that its function takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.cli.folder.checking import check_path

SHOP = """
from dataclasses import dataclass
from functools import lru_cache
from pydantic import BaseModel, Field
from stepwell import StepContext, step
from elsewhere import Parcel

@dataclass
class Order:
    id: str
    amount: float = 0
class Buyer(BaseModel):
    customer: str = Field("", alias="customerName")
    nickname: str = ""
@step(timeout="1m")
def take(ctx: StepContext, order: Order): ...
def two(sku: str, count: int = 1): ...
def rest(sku: str, count: int = 1, **others): ...
def greet(buyer: Buyer): ...
def of_elsewhere(parcel: Parcel): ...
def anything(order: dict): ...
@lru_cache
def wrapped(sku: str, count: int = 1): ...
"""


def told(folder: Path, run: str) -> list[tuple[str, int, str]]:
    (folder / "shop.py").write_text(SHOP)
    (folder / "w.yaml").write_text(f"workflow: w\nnodes:\n  a:\n    timeout: 1m\n    run: python:shop.{run}\n")
    found = [one for one in check_path(folder)[1] if one.code != "unknown_import"]
    assert {(one.code, one.severity) for one in found} <= {("unknown_input", "warning")}
    return [(one.message, one.line, one.hint) for one in found]


@pytest.mark.parametrize(
    ("run", "message", "hint"),
    [
        ("take\n    input: {id: 1, amuont: 2}", "Order has no 'amuont', which is left out", "did you mean `amount`?"),
        ("two\n    input: {sku: a, cuont: 2}", "two has no 'cuont', which is left out", "did you mean `count`?"),
        ("greet\n    input: {nicname: a}", "Buyer has no 'nicname', which is left out", "did you mean `nickname`?"),
    ],
)
def test_a_name_that_is_nearly_one_that_is_not_given_is_told(tmp_path: Path, run: str, message: str, hint: str) -> None:
    assert told(tmp_path, run) == [(message, 6, hint)]


@pytest.mark.parametrize(
    "run",
    [
        "take\n    input: {id: 1, amount: 2, note: 3}",
        "take\n    input: {order: {id: 1, amuont: 2}}",
        "take\n    input: {id: 1, amount: 2, amuont: 2}",
        "two\n    input: {sku: a, more: 2}",
        "rest\n    input: {sku: a, cuont: 2}",
        "greet\n    input: {customerName: a, nickName: b}",
        "of_elsewhere\n    input: {idd: 1}",
        "anything\n    input: {idd: 1}",
        "wrapped\n    input: {sku: a, cuont: 2}",
        "take",
    ],
)
def test_other_names_are_left_alone(tmp_path: Path, run: str) -> None:
    assert told(tmp_path, run) == []
