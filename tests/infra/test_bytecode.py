"""Bytecode in the functions' packages: it is there, Python takes it, and it is the same for the same files."""

from __future__ import annotations

import marshal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from stepwell.cdk.packaging import bundling, bytecode
from stepwell.cdk.packaging.bundling import Bundles
from stepwell.project import Project
from tests.infra.kit import ORDER, ROOT

# Of the engine's package, zipped, as Lambda loads it. Measured 7,484,000; a tenth of a megabyte is its list of files.
MOST_BYTES = 7_700_000
MOST_OF = {
    "stepwell": 3_110_000,
    "re2": 550_000,
    "pydantic_core": 2_150_000,
    "pydantic": 780_000,
    "yaml": 260_000,
    "tzdata": 210_000,
    "aws_lambda_powertools": 220_000,
}
MOST_OF_THE_REST = 420_000
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def tree_at(folder: Path) -> Path:
    """A package whose module says which file it came from."""
    (folder / "shop").mkdir(parents=True)
    (folder / "shop" / "__init__.py").write_text("NAMES = ('a', 'b')\ndef fail():\n    raise ValueError(NAMES)\n")
    (folder / "shop" / "broken.py").write_text("def (:\n")
    return folder


def compiled(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*.pyc")}


def test_a_module_is_compiled_for_lambda_and_one_that_is_broken_stays_as_it_is(tmp_path: Path) -> None:
    tree = tree_at(tmp_path / "tree")
    bytecode.compile_tree(tree, bytecode.interpreter_of(VERSION))
    (name, found), *others = compiled(tree).items()
    assert others == []
    assert name == f"shop/__pycache__/__init__.{sys.implementation.cache_tag}.pyc"
    assert b"/var/task/shop/__init__.py" in found
    assert str(tmp_path).encode() not in found


def test_docstrings_are_left_out_of_folders_where_nothing_reads_them(tmp_path: Path) -> None:
    for name in ("engine", "api"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text('"""Told to readers of the source alone."""\nX = 1\n')
    bytecode.compile_tree(tmp_path, sys.executable, [tmp_path / "engine"])
    cache = f"__pycache__/a.{sys.implementation.cache_tag}.pyc"
    assert sorted(compiled(tmp_path)) == [f"api/{cache}", f"engine/{cache}"]
    assert b"Told to readers" not in compiled(tmp_path)[f"engine/{cache}"]
    assert b"Told to readers" in compiled(tmp_path)[f"api/{cache}"]
    assert b"/var/task/engine/a.py" in compiled(tmp_path)[f"engine/{cache}"]


def test_only_the_users_own_code_can_tell_the_columns_of_an_error(tmp_path: Path) -> None:
    for name in ("engine", "project"):
        tree_at(tmp_path / name)
    bytecode.compile_tree(tmp_path, sys.executable, own=[tmp_path / "project"])
    columns = {name.partition("/")[0]: columns_of(made) for name, made in compiled(tmp_path).items()}
    assert columns["engine"] == {None}
    assert len(columns["project"]) > 3


def columns_of(made: bytes) -> set[int | None]:
    """Of all instructions of a module, where they end in their line."""
    code = marshal.loads(made[16:])  # noqa: S302 - this test has made it
    return {end for *_, end in code.co_positions()}


def test_python_takes_the_bytecode_without_looking_at_the_module(tmp_path: Path) -> None:
    tree = tree_at(tmp_path)
    bytecode.compile_tree(tree, sys.executable)
    (tree / "shop" / "__init__.py").write_text("NAMES = 'compiled anew'")
    done = subprocess.run(
        [sys.executable, "-B", "-c", "import shop; print(shop.NAMES)"],
        cwd=tree, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "('a', 'b')\n"


def test_the_same_modules_have_the_same_bytecode_wherever_they_are_built(tmp_path: Path) -> None:
    trees = [tree_at(tmp_path / name) for name in ("one", "another")]
    for tree in trees:
        bytecode.compile_tree(tree, sys.executable)
    assert compiled(trees[0]) == compiled(trees[1])


def test_a_version_that_is_not_on_this_machine_is_told_with_what_it_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bytecode, "find_uv_bin", lambda: "false")  # it finds nothing
    assert bytecode.interpreter_of("3.99") == ""
    bundles = bundling.Bundles(tmp_path, tmp_path, {}, bundling._compiled(tree_at(tmp_path), tmp_path, "3.99"))
    assert compiled(tmp_path) == {}
    assert "no Python 3.99: cold starts take twice as long (uv python install 3.99)" in bundles.report()


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    folder, into = ROOT / ORDER, tmp_path_factory.mktemp("built")
    return bundling.build(Project(folder, folder), into, pools={"default"}, platform="lambda", python=VERSION)


def test_both_packages_are_compiled_users_code_too(bundles: Bundles) -> None:
    assert "bytecode" not in bundles.report()
    for place, module in (
        (bundles.engine / "stepwell" / "functions", "api"),
        (bundles.engine / "pydantic", "main"),
        (bundles.worker / "stepwell" / "aws", "entry"),
        (bundles.worker / "project" / "workflows", "shop"),
    ):
        assert (place / "__pycache__" / f"{module}.{sys.implementation.cache_tag}.pyc").is_file(), module


def test_a_package_is_small_when_it_is_zipped(bundles: Bundles, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "engine.zip", "w", zipfile.ZIP_DEFLATED) as package:
        for file in bundles.engine.rglob("*"):
            package.write(file, file.relative_to(bundles.engine))
    sizes: dict[str, int] = dict.fromkeys((*MOST_OF, "rest"), 0)
    for one in package.infolist():
        top = one.filename.partition("/")[0]
        sizes[top if top in MOST_OF else "rest"] += one.compress_size
    assert (tmp_path / "engine.zip").stat().st_size < MOST_BYTES
    assert {name: size for name, size in sizes.items() if size > MOST_OF.get(name, MOST_OF_THE_REST)} == {}
