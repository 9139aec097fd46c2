"""Imports point one way, and the core is pure: every module's imports are read off its syntax tree."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import stepwell

ROOT = Path(stepwell.__file__).parent
MODULES = {".".join(path.relative_to(ROOT.parent).with_suffix("").parts): path for path in sorted(ROOT.rglob("*.py"))}
ENGINE_MAY = {
    f"stepwell.definition.{name}"
    for name in (
        "compiled",
        "graph",
        "backoff",
        "durations",
        "authoring",
        "child_names",
        "options",
        "patterns",
        "text",
        "wait_schemas",
    )
} | {
    "stepwell.errors",
    "stepwell.limits",
    "stepwell.values",
}
IMPURE = {"time", "random", "os", "sqlite3", "asyncio", "threading", "boto3", "pydantic", "secrets", "socket", "uuid",
          "subprocess", "pathlib", "io", "logging", "urllib", "http", "tempfile", "shutil"}  # fmt: skip


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@cache
def nodes_of(module: str) -> list[ast.AST]:
    """The nodes of its tree that are looked at: to walk through all of them takes longer than to parse it."""
    looked_at = (ast.Import, ast.ImportFrom, ast.Attribute, ast.Call)
    return [node for node in ast.walk(tree_of(module)) if isinstance(node, looked_at)]


@cache
def imports_of(module: str, *, at_once: bool = False) -> frozenset[str]:
    """Every module that this one imports anywhere, lazily or for types too; or only when it is imported itself."""
    found = set()
    for node in tree_of(module).body if at_once else nodes_of(module):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            base = node.module or ""
            inner = {f"{base}.{alias.name}" for alias in node.names}
            found |= {name for name in inner if name in MODULES} or {base}
    return frozenset(name.removesuffix(".__init__") for name in found)


def of(part: str) -> list[str]:
    """The modules of one part, which must not be none: a test over nothing proves nothing."""
    found = [name for name in MODULES if name.startswith(f"stepwell.{part}.")]
    assert found, part
    return found


def uses(module: str, *parts: str) -> set[str]:
    """Which of these packages the module imports."""
    return {name for name in imports_of(module) for part in parts if name == part or name.startswith(f"{part}.")}


def is_standard(name: str) -> bool:
    return name.partition(".")[0] in sys.stdlib_module_names or name == "__future__"


@pytest.mark.parametrize("module", of("engine"))
def test_the_engine_imports_the_standard_library_itself_and_the_graph(module: str) -> None:
    for name in imports_of(module):
        assert is_standard(name) or name in ENGINE_MAY or name.startswith("stepwell.engine"), name


@pytest.mark.parametrize("module", of("engine"))
def test_the_engine_has_no_clock_no_chance_and_no_io(module: str) -> None:
    assert not {name for name in imports_of(module) if name.partition(".")[0] in IMPURE}
    for call in _calls(module):
        assert call not in {"open", "print", "input", "datetime.now", "datetime.utcnow", "datetime.today"}, call


@pytest.mark.parametrize("module", sorted(ENGINE_MAY))
def test_what_the_engine_imports_is_itself_standard_library_only(module: str) -> None:
    for name in imports_of(module):
        assert is_standard(name) or name in ENGINE_MAY or name == "stepwell.definition.graph", name


FORMAT = re.compile(
    r"graph\.(dependencies|format|shown)\b|graph\.first\.durable (is|if|and|or)\b"
    r"|graph\.document\[|\bis_(agent|dag|function)\b"
)
ABILITY = re.compile(r".*graph\.(?:replays|in_order)\b.*")
MOST_ASKED = {"engine": 0, "runtime": 8, "api": 8}  # lines that ask a graph what it can do


@pytest.mark.parametrize("module", [*of("engine"), *of("runtime")])
def test_after_the_compiler_no_module_asks_in_which_format_a_workflow_was_written(module: str) -> None:
    """What a format means stands in the nodes, and in the records that were made of them."""
    assert not FORMAT.search(MODULES[module].read_text(encoding="utf-8"))


@pytest.mark.parametrize(("part", "most"), MOST_ASKED.items())
def test_code_rarely_asks_what_a_graph_can_do(part: str, most: int) -> None:
    texts = {name: MODULES[name].read_text(encoding="utf-8") for name in of(part)}
    found = [f"{name}: {one.strip()}" for name, text in texts.items() for one in ABILITY.findall(text)]
    assert len(found) <= most, "\n".join(found)


@pytest.mark.parametrize("module", of("definition"))
def test_definitions_know_nothing_of_runs_and_do_no_io(module: str) -> None:
    own = {name for name in imports_of(module) if name.startswith("stepwell")}
    roots = {"stepwell.errors", "stepwell.limits", "stepwell.values"}
    assert all(name.startswith("stepwell.definition") or name in roots for name in own)
    assert not uses(module, "os", "io", "sqlite3", "socket", "subprocess", "urllib", "http", "boto3", "time", "random")
    assert "open" not in set(_calls(module))
    assert _names_from(module, "pathlib") <= {"PurePath"}


@pytest.mark.parametrize("module", of("runtime"))
def test_the_runtime_knows_no_adapter_and_no_door(module: str) -> None:
    parts = ("stepwell.local", "stepwell.memory", "stepwell.aws", "stepwell.api", "stepwell.cli", "stepwell.testing")
    assert not uses(module, *parts, "boto3", "botocore")


@pytest.mark.parametrize("module", of("memory"))
def test_the_adapters_in_memory_know_the_runtime_and_nothing_beside_them(module: str) -> None:
    """They are deployed, for simulations: whatever they import is deployed too."""
    parts = ("memory", "runtime", "engine", "definition", "limits", "errors", "values")
    may = tuple(f"stepwell.{part}" for part in parts)
    for name in imports_of(module):
        assert name.startswith(may) or (is_standard(name) and name.partition(".")[0] not in IMPURE), name


def test_this_machine_and_aws_never_import_each_other() -> None:
    for module in MODULES:
        if module.startswith("stepwell.local"):
            assert not uses(module, "stepwell.aws"), module
        if module.startswith("stepwell.aws"):
            assert not uses(module, "stepwell.local", "stepwell.memory"), module


@pytest.mark.parametrize("module", of("api"))
def test_the_api_knows_neither_adapters_nor_the_command_line(module: str) -> None:
    assert not uses(module, "stepwell.local", "stepwell.aws", "stepwell.cli", "stepwell.testing", "boto3")


def test_only_the_aws_part_knows_boto3() -> None:
    for module in MODULES:
        if not module.startswith("stepwell.aws"):
            assert not uses(module, "boto3", "botocore", "aiobotocore"), module


def test_only_the_construct_knows_the_cdk() -> None:
    """It takes seconds to import, and the light installation has none. The command line starts it as a process."""
    for module in MODULES:
        if not module.startswith("stepwell.cdk"):
            assert not uses(module, "aws_cdk", "constructs", "uv"), module
            assert uses(module, "stepwell.cdk") <= {"stepwell.cdk.node"}, module


@pytest.mark.parametrize("module", of("cdk"))
def test_the_construct_knows_the_definitions_and_no_adapter(module: str) -> None:
    assert not uses(module, "stepwell.local", "stepwell.aws", "stepwell.api", "stepwell.cli", "stepwell.testing")


def test_the_environment_is_read_in_one_place() -> None:
    readers = set()
    for module in MODULES:
        for node in nodes_of(module):
            if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv", "environb"}:
                readers.add(module)
        if _names_from(module, "os") & {"environ", "getenv"}:
            readers.add(module)
    assert readers <= {"stepwell.settings"}


def test_what_step_code_imports_is_quick_to_import() -> None:
    """`import stepwell` in a user's module loads no third party. What comes when it is asked for does not count."""
    todo, seen = ["stepwell.__init__"], set()
    while todo:
        seen.add(module := todo.pop())
        for name in imports_of(module, at_once=True):
            inner = next((found for found in (name, f"{name}.__init__") if found in MODULES), None)
            assert inner or is_standard(name), f"{module} imports {name}"
            if inner and inner not in seen:
                todo.append(inner)


# What a person's code may inherit from, with the standard library's decorator.
PUBLIC = ("stepwell.cdk", "stepwell.testing", "stepwell.definition.authoring", "stepwell.engine.durable.transact")


def test_frozen_dataclasses_are_those_that_take_little_to_define() -> None:
    theirs = {module for module in MODULES if "dataclass" in _names_from(module, "dataclasses")}
    frozen = {module for module in theirs if "frozen=True" in MODULES[module].read_text(encoding="utf-8")}
    assert {module for module in frozen if not module.startswith(PUBLIC)} == set()


def test_no_part_imports_tests() -> None:
    for module in MODULES:
        assert not uses(module, "tests"), module


def _calls(module: str) -> Iterator[str]:
    for node in nodes_of(module):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def _names_from(module: str, package: str) -> set[str]:
    found = set()
    for node in nodes_of(module):
        if isinstance(node, ast.ImportFrom) and node.module == package:
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Import) and any(alias.name == package for alias in node.names):
            found.add(package)
    return found
