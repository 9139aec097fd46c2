"""A TypedDict of `typing` is refused where pydantic would have to read it before Python 3.12."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from stepwell.cli.folder.checking import check_path
from stepwell.definition.code.modules import read_code
from stepwell.definition.code.typed_dicts import typed_dicts_of
from stepwell.errors import Problem

HEAD = """
from __future__ import annotations
from dataclasses import dataclass
from typing import TypedDict
from stepwell import step, workflow

class Order(TypedDict):
    sku: str

class Big(Order):
    count: int

@dataclass
class Held:
    order: Order
    next: Held | None = None

Parts = TypedDict("Parts", {"n": int})
Orders = list[Order]
"""


def found(body: str, python: tuple[int, ...] = (3, 11), head: str = HEAD, **others: str) -> list[Problem]:
    texts = {"shop": ("shop.py", head + dedent(body)), **{name: (f"{name}.py", text) for name, text in others.items()}}
    return typed_dicts_of(read_code(texts), {"shop.target"}, python)


@pytest.mark.parametrize(
    ("hint", "name"),
    [
        ("Order", "Order"),
        ("Big", "Order"),
        ("list[Order] | None", "Order"),
        ("'dict[str, Order]'", "Order"),
        ("Held", "Order"),
        ("Orders", "Order"),
        ("Parts", "Parts"),
    ],
)
@pytest.mark.parametrize("mark", ["@step", "@workflow"])
def test_a_parameter_of_one_is_refused_with_its_place(mark: str, hint: str, name: str) -> None:
    (problem,) = found(f"{mark}\nasync def charge(ctx, order: {hint}): ...\n")
    assert (problem.code, problem.hint) == ("step_signature", "from typing_extensions import TypedDict")
    assert problem.message.startswith(f"the parameter order of charge has {name}, a TypedDict of `typing`, ")
    assert (problem.file, problem.line) == ("shop.py", len(HEAD.splitlines()) + 2)


@pytest.mark.parametrize(
    "body",
    [
        "def target(order: Order): ...",
        "async def flow(ctx):\n    await ctx.step(charge, {})\ndef charge(order: Order): ...",
        "async def flow(ctx):\n    await ctx.step(charge)\ndef charge() -> Order: ...",
        "async def flow(ctx):\n    await ctx.map(charge, [1])\ndef charge(n) -> Order: ...",
        "async def flow(ctx):\n    await ctx.child(other)\n@workflow\nasync def other(ctx) -> Order: ...",
        "async def flow(ctx):\n    await ctx.event('paid', type=Order)",
    ],
)
def test_whatever_is_read_by_its_type_is_refused(body: str) -> None:
    assert len(found(body)) == 1


@pytest.mark.parametrize(
    "body",
    [
        "@step\ndef charge(n: int) -> Order: ...",  # of a definition's step, the result is written alone
        "@workflow\nasync def flow(ctx) -> Order: ...",
        "def helper(order: Order): ...",
        "@step\ndef charge(order: Held.other, n: unknown, more: 'no type ['): ...",
        "@workflow\nasync def flow(ctx: Order): ...",
        "@step\ndef charge(how: Literal['Order'], n: Annotated[int, Order]): ...",
    ],
)
def test_what_nobody_reads_is_left_alone(body: str) -> None:
    assert found(body) == []


BODY = "@step\ndef charge(order: Order): ...\n"


@pytest.mark.parametrize(
    "imported",
    [
        "from typing_extensions import TypedDict",
        "import sys\nif sys.version_info >= (3, 12):\n    from typing import TypedDict\n"
        "else:\n    from typing_extensions import TypedDict",
        "try:\n    from typing_extensions import TypedDict\nexcept ImportError:\n    from typing import TypedDict",
    ],
)
def test_the_right_one_is_left_alone(imported: str) -> None:
    assert found(BODY, head=HEAD.replace("from typing import TypedDict", imported)) == []


def test_one_of_another_module_is_found() -> None:
    head = "import typing as t\nfrom stepwell import step\nfrom orders import Order\n"
    orders = "import typing as t\nclass Order(t.TypedDict):\n    sku: str\n"
    assert len(found(BODY, head=head, orders=orders)) == 1


def test_python_3_12_reads_it() -> None:
    assert found(BODY, python=(3, 12)) == []


def test_check_refuses_it_for_the_python_of_the_functions(tmp_path: Path) -> None:
    """Whatever Python it runs on itself."""
    (tmp_path / "pyproject.toml").write_text('[tool.stepwell]\nworkflows = "flows"\npython = "3.11"\n')
    folder = tmp_path / "flows"
    folder.mkdir()
    (folder / "shop.py").write_text(HEAD + "@workflow\nasync def flow(ctx, order: Order): ...\n")
    (problem,) = [one for one in check_path(folder)[1] if one.severity == "error"]
    assert problem.code == "step_signature"
