"""docs/ says what the code says, and its links lead somewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from stepwell.engine.records import Status
from stepwell.error_hints import HINTS
from tests.docs.errors import CODE, nodes_of, told
from tests.docs.generate import BLOCKS, DOCS, pages, rendered
from tests.docs.snippets import ROOT, WRITTEN

_LINK = re.compile(r"\](?:\(|: )([^)#:\s]+)(?:#[^)\s]*)?(?:\)|$)", re.MULTILINE)
LINE_CHARACTERS = 165


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", pages(), ids=name)
def test_a_page_says_what_the_tables_say(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert rendered(text) == text, "run: python -m tests.docs.generate"


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=name)
def test_the_prose_of_a_page_is_wrapped(page: Path) -> None:
    """A line of a paragraph that was added without wrapping cannot be read in a diff."""
    text = re.sub(
        r"(?s)<!-- generated: .*?<!-- end -->|^ *```.*?^ *```", "", page.read_text("utf-8"), flags=re.MULTILINE
    )
    long = [line for line in text.splitlines() if len(line) > LINE_CHARACTERS and not line.startswith("|")]
    assert long == []


def test_an_error_is_told_with_its_own_words() -> None:
    """Where one function finds several, and each message is a variable of the same name."""
    words = {one.code: one.message for one in told() if one.place == "file"}
    assert words["response_without_thread"].startswith("`…` waits in no thread")
    assert words["final_without_approval"].startswith("`…` cannot be undone")


def test_the_errors_that_are_shown_are_listed() -> None:
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    shown = re.findall(r"^(?:error: |.*:\d+: error ).* \[(\w+)\]$", page, re.MULTILINE)
    listed = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    assert len(shown) > 10
    assert [code for code in shown if f"`{code}`" not in listed] == []


def test_every_code_of_the_source_is_listed() -> None:
    """Found without what makes the page: what is given as a code, by name or by place, and what has a hint."""
    found = {*HINTS, *(f"run_{end.value}" for end in Status if end.terminal and end is not Status.COMPLETED)}
    for file in CODE.rglob("*.py"):
        for node in nodes_of(file):
            found |= _codes(node)
    listed = set(re.findall(r"^\| `(\w+)` \|", (DOCS / "reference" / "errors.md").read_text("utf-8"), re.MULTILINE))
    assert {"already_answered", "bad_signature", "workflow_paused", "unavailable", "gap_in_log", "bad_host"} <= found
    assert found - listed == set()


def _codes(node: ast.AST) -> set[str]:
    given: list[ast.expr] = []
    if isinstance(node, ast.Call):
        given = [one.value for one in node.keywords if one.arg == "code"]
        place = {"Refuse": 1, "problem": 1, "Problem": 0, "problem_at": 2, "Failure": 0}.get(ast.unparse(node.func))
        given += node.args[place : place + 1] if place is not None and len(node.args) > 1 else []
    if isinstance(node, ast.ClassDef):
        lines = [one for one in node.body if isinstance(one, ast.Assign)]
        given = [one.value for one in lines if ast.unparse(one.targets[0]) == "code"]
    whole = [one.body if isinstance(one, ast.IfExp) else one for one in given]
    codes = {str(one.value) for one in whole if isinstance(one, ast.Constant)}
    return {code for code in codes if re.fullmatch(r"[a-z_]+", code)}


def test_errors_of_packages_and_of_the_client_are_listed_too() -> None:
    """They are classes of their own, some with a code by default."""
    assert {"no_wheel", "other_stepwell", "not_packed", "unreachable", "not_stepwell"} <= {one.code for one in told()}


def test_every_property_of_the_construct_has_a_meaning() -> None:
    page = (DOCS / "reference" / "props.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`\w+`) \|[^|]*\|(.*)\|$", page, re.MULTILINE)
    assert len(rows) > 30
    assert [property_ for property_, meaning in rows if not meaning.strip()] == []


def test_the_versions_that_only_a_python_needs_are_named() -> None:
    page = (DOCS / "projects.md").read_text(encoding="utf-8").lower()
    needed = re.findall(r'"(\w+)>=([\d.]+); python_version>=', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert len(needed) > 2
    assert [f"{name} {version}" for name, version in needed if f"{name} {version}" not in page] == []


def test_every_block_is_on_some_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in pages())
    assert [block for block in BLOCKS if f"<!-- generated: {block} -->" not in text] == []


@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_a_pages_links_lead_to_files_that_are_there(page: Path) -> None:
    targets = _LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []
