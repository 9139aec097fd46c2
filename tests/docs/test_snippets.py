"""Every code block of the documentation is run, compiled or parsed, or says why not."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from stepwell.cli.folder.checking import check_path
from stepwell.definition.compiler import compile_definition
from stepwell.definition.loader import load_document
from stepwell.definition.webhooks import check_webhooks
from stepwell.runtime.folder.pricing import check_prices
from stepwell.runtime.notify.telling import TOLD
from stepwell.simulation import parse_assumptions
from stepwell.testing.verify.answers import parse_answers
from tests.docs.commands import commands, wrong
from tests.docs.snippets import DOCS, REASONS, ROOT, WRITTEN, Snippet, inline_commands, of_kind, snippets, unfenced

PAGES = Path(__file__).parent / "pages"  # tests of pages that show none; named as the page


def slug(page: Path) -> str:
    return page.relative_to(ROOT).with_suffix("").as_posix().removeprefix("docs/").replace("/", "-")


# test_tutorial.py takes the tutorial's files, in the project that it makes.
PROJECTS = sorted({one.page for one in of_kind("file")} - {DOCS / "tutorial.md"})
_PYTHON = [one for one in snippets() if one.language == "python" and one.reason != "elsewhere"]
_OF_A_PART = ("step_without_timeout", "compensation_never_runs")  # warnings that the rest of a definition would end
_NODE_KEYS = ("run:", "wait:", "sleep:")


def test_every_block_is_tested_or_says_why_not() -> None:
    assert [str(one) for one in of_kind("")] == [], "tests/docs/snippets.py tells what a block may be"


def test_a_block_gives_a_known_reason() -> None:
    assert [str(one) for one in of_kind("marked") if one.reason not in REASONS] == []


def test_every_mark_stands_right_above_a_block() -> None:
    for page in {one.page for one in snippets()}:
        text = page.read_text(encoding="utf-8")
        marked = [one for one in of_kind("marked") if one.page == page]
        assert len(re.findall(r"^ *<!-- not run:", text, re.MULTILINE)) == len(marked), page


@pytest.mark.parametrize("page", WRITTEN, ids=slug)
def test_every_block_has_a_fence(page: Path) -> None:
    """A block by its indentation alone is code to Markdown, and text to these tests."""
    assert unfenced(page) == []


@pytest.mark.parametrize("page", WRITTEN, ids=slug)
def test_the_commands_in_sentences_are_there_with_their_options(page: Path) -> None:
    """A sentence may name a command, or an option of it, without its argument."""
    found = [words for one in inline_commands(page) for words in commands(Snippet(page, 0, "", one, ""))]
    said = [(words, wrong(["2" if word == "SLOT" else word for word in words])) for words in found]
    assert [one for one in said if not re.match(r"$|Missing argument|.* requires an argument", one[1])] == []


@pytest.mark.parametrize("snippet", _PYTHON, ids=str)
def test_python_parses_and_imports_what_stepwell_has(snippet: Snippet) -> None:
    code = compile(snippet.text, str(snippet), "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(code):
        source = getattr(node, "module", None) or ""
        # The construct's imports take seconds: the tests of tests/infra build an app with it.
        if isinstance(node, ast.ImportFrom) and source.startswith("stepwell") and source != "stepwell.cdk":
            module = importlib.import_module(source)
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []


@pytest.mark.parametrize("snippet", of_kind("definition"), ids=str)
def test_a_definition_compiles(snippet: Snippet) -> None:
    """Without a warning too: readers copy it."""
    assert compile_definition(snippet.text, str(snippet)).problems == ()


@pytest.mark.parametrize("snippet", of_kind("nodes"), ids=str)
def test_a_part_of_a_definition_compiles_in_a_definition(snippet: Snippet) -> None:
    for text in _definitions(snippet.text):
        problems = compile_definition(text, str(snippet)).problems
        assert [str(one) for one in problems if one.code not in _OF_A_PART] == [], text


@pytest.mark.parametrize("snippet", of_kind("webhooks"), ids=str)
def test_sources_and_endpoints_are_right(snippet: Snippet) -> None:
    problems = check_webhooks(snippet.text, str(snippet), types=TOLD).problems
    assert [one for one in problems if one.severity == "error"] == []


@pytest.mark.parametrize("snippet", of_kind("answers"), ids=str)
def test_answers_for_a_verification_can_be_parsed(snippet: Snippet) -> None:
    assert parse_answers(load_document(snippet.text).data, str(snippet))


@pytest.mark.parametrize("snippet", of_kind("assumptions"), ids=str)
def test_assumptions_of_a_simulation_can_be_parsed(snippet: Snippet) -> None:
    assert parse_assumptions(load_document(snippet.text).data, str(snippet)).steps


@pytest.mark.parametrize("snippet", of_kind("prices"), ids=str)
def test_a_table_of_prices_can_be_used(snippet: Snippet) -> None:
    table = check_prices(snippet.text, str(snippet))
    assert (table.problems, bool(table.document)) == ((), True)


@pytest.mark.parametrize("snippet", of_kind("json", "toml"), ids=str)
def test_json_and_toml_can_be_read(snippet: Snippet) -> None:
    assert {"json": json.loads, "toml": tomllib.loads}[snippet.language](snippet.text)


@pytest.mark.parametrize("snippet", of_kind("commands"), ids=str)
def test_the_command_line_has_the_commands_and_their_options(snippet: Snippet) -> None:
    found = list(commands(snippet))
    assert found, "a block without a language has commands; mark any other one"
    assert [(words, said) for words in found if (said := wrong(words))] == []


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Writes the projects of all pages and runs their tests, in one process. Returns the tests' outcomes by page."""
    root = tmp_path_factory.mktemp("projects")
    for page in PROJECTS:
        write_project(page, root / slug(page))
    options = ["-q", "-rA", "--tb=line", "-p", "no:cacheprovider", "-p", "no:xdist", "--import-mode=importlib"]
    words = [sys.executable, "-m", "pytest", *options, "--rootdir", str(root), *map(slug, PROJECTS)]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False, env=variables)  # noqa: S603
    told = re.findall(r"^(?:PASSED|FAILED|ERROR) .*", done.stdout, re.MULTILINE)
    return {slug(page): [line for line in told if f" {slug(page)}/" in line] for page in PROJECTS}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("stepwell run order --nope", "nope"),
        ("stepwell nope", "no command 'nope'"),
        ("stepwell webhook nope", "no command 'nope'"),
        ("uv run pytest tests/nope", "no file tests/nope"),
        ("python -m tests.nope", "no module tests.nope"),
        ("nope order", "unknown program 'nope'"),
    ],
)
def test_a_command_that_is_not_there_is_found(line: str, said: str) -> None:
    assert said in wrong(line.split())


@pytest.mark.parametrize("page", PROJECTS, ids=slug)
def test_the_tests_of_a_pages_project_pass(page: Path, outcomes: dict[str, list[str]]) -> None:
    assert outcomes[slug(page)], "it has no tests: put some into tests/docs/pages"
    assert [line for line in outcomes[slug(page)] if not line.startswith("PASSED")] == []


@pytest.mark.parametrize("page", PROJECTS, ids=slug)
def test_the_workflows_of_a_pages_project_are_right(page: Path, tmp_path: Path) -> None:
    write_project(page, tmp_path)
    folder = tmp_path / "workflows"
    count, problems = check_path(folder if folder.is_dir() else tmp_path)
    assert count > 0
    assert [str(one) for one in problems] == []


def write_project(page: Path, folder: Path) -> None:
    """Writes the files of a page, and the test that the page does not show."""
    for one in of_kind("file"):
        if one.page == page:
            file = folder / one.file
            assert not file.exists(), f"{one}: {one.file} is on this page already"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(one.text, encoding="utf-8")
    if (hidden := PAGES / f"{slug(page)}.py").is_file():
        (folder / "tests").mkdir(exist_ok=True)
        (folder / "tests" / "test_page.py").write_text(hidden.read_text(encoding="utf-8"), encoding="utf-8")


def _definitions(text: str) -> list[str]:
    """Puts each part of a block where a definition has it: keys of a node, nodes by name, or keys of a workflow."""
    if text.startswith("run:"):
        return ["workflow: part\nnodes:\n  part:\n" + _indented(text, 4)]
    if text.startswith(_NODE_KEYS):
        parts = re.split(r"\n(?=\w)", text.strip())
        return ["workflow: part\nnodes:\n  part:\n" + _indented(part, 4) for part in parts]
    if re.match(r"\w+: \{", text):
        return ["workflow: part\nnodes:\n" + _indented(text, 2) + "  ship: {}\n"]
    return [f"workflow: part\n{text}nodes: {{part: {{}}}}\n"]


def _indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())
