"""Pages for contributors name what is there: the rooms of each package, and the files of each behaviour."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "shared" / "stepwell"


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md", "docs/decisions.md", "docs/upgrading.md"])
def test_every_file_that_a_page_names_is_there(page: str) -> None:
    named = set(re.findall(r"`(?:stepwell/)?((?:\w+/)+\w+\.py)`", (ROOT / page).read_text(encoding="utf-8")))
    assert named
    assert {name for name in named if not (PACKAGE / name).is_file() and not (ROOT / name).is_file()} == set()


def test_the_table_of_rooms_has_them_all() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("| rooms |")[2].partition("## ")[0]
    rows = re.findall(r"^\| `(\w+)/` \| (.*) \|$", table, re.MULTILINE)
    told = {package: set(re.findall(r"`(\w+)`", rooms)) for package, rooms in rows}
    there: dict[str, set[str]] = {}
    for file in PACKAGE.glob("*/*/__init__.py"):
        there.setdefault(file.parents[1].name, set()).add(file.parent.name)
    assert told == there
