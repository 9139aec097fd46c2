"""docs/ says what the code says, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.errors import told
from tests.docs.generate import BLOCKS, pages, rendered
from tests.docs.snippets import ROOT, WRITTEN

_LINK = re.compile(r"\](?:\(|: )([^)#:\s]+)(?:#[^)\s]*)?(?:\)|$)", re.MULTILINE)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", pages(), ids=name)
def test_a_page_says_what_the_tables_say(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert rendered(text) == text, "run: python -m tests.docs.generate"


def test_an_error_is_told_with_its_own_words() -> None:
    """Where one function finds several, and each message is a variable of the same name."""
    words = {one.code: one.message for one in told() if one.place == "file"}
    assert words["response_without_thread"].startswith("`…` waits in no thread")
    assert words["final_without_approval"].startswith("`…` cannot be undone")


def test_every_block_is_on_some_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in pages())
    assert [block for block in BLOCKS if f"<!-- generated: {block} -->" not in text] == []


@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_a_pages_links_lead_to_files_that_are_there(page: Path) -> None:
    targets = _LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []
