"""The functions' packages, really built: what is in them, what is not, and how large they may be."""

from __future__ import annotations

import ast
import hashlib
import json
import shutil
import struct
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from infra import bundling
from infra.bundling import Bundles, BundlingError
from tests.infra.kit import ORDER, ROOT

# Unpacked; Lambda takes 262,144,000. cel-expr-python alone is 27,600,000. Packed, it is a third of that.
PACKAGE_BYTES = 45_000_000
OWN_BYTES = 1_500_000
ARM64 = 183  # e_machine of an ELF file
RUNTIME_HAS = {"boto3", "botocore"}
TRACING = {"aws_xray_sdk"}  # of the Tracer, which is imported where traces are asked for
THEIRS = "iniconfig"  # a package of pure Python that nothing of ours needs
BROKEN = "workflow: broken\ntimeline:\n  - {name: a, run: python:shop.validate, pol: big}\n"
POOLED = "workflow: pooled\ntimeline:\n  - {name: a, run: python:shop.validate, pool: gpu}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workflow folder with everything that one may have."""
    folder = tmp_path_factory.mktemp("theirs") / "order"
    shutil.copytree(ROOT / ORDER, folder)
    (folder / "requirements.txt").write_text(f"{THEIRS}=={version(THEIRS)}\n")
    (folder / ".env").write_text("SECRET=1\n")
    return folder


@pytest.fixture(scope="module", autouse=True)
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A copy of ours, which nobody edits between two builds."""
    copies = tmp_path_factory.mktemp("ours")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DOORS", "PACKAGE"):
            patch.setattr(bundling, name, shutil.copytree(getattr(bundling, name), copies / name))
        yield


@pytest.fixture(scope="module")
def bundles(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    return bundling.build(folder, tmp_path_factory.mktemp("built"), pools={"default"}, platform="lambda")


def test_the_engines_package_has_all_but_users_code(bundles: Bundles) -> None:
    names = {path.name for path in bundles.engine.iterdir()}
    assert {"functions", "stepwell", "workflows.json", "pydantic", "aws_lambda_powertools"} <= names
    assert not {"workflows", THEIRS} & names


def test_the_workers_package_has_that_and_users_code(bundles: Bundles) -> None:
    names = {path.name for path in bundles.worker.iterdir()}
    assert {path.name for path in bundles.engine.iterdir()} | {"workflows", THEIRS} <= names
    assert {"order.yaml", "shop.py", "webhooks.yaml"} <= {
        path.name for path in (bundles.worker / "workflows").iterdir()
    }


def test_what_is_hidden_in_a_folder_stays_there(bundles: Bundles) -> None:
    assert not list(bundles.worker.rglob(".env"))


@pytest.mark.parametrize(
    "name", ["boto3", "botocore", "bazel-project", "bin", "__pycache__", "cli", "local", "testing"]
)
def test_what_no_function_reads_is_left_out(bundles: Bundles, name: str) -> None:
    ours = [bundles.engine, bundles.engine / "stepwell", bundles.engine / "functions"]
    assert not [place for place in ours if (place / name).exists()]


def test_every_import_of_ours_finds_its_module_in_the_package(bundles: Bundles) -> None:
    root = bundles.engine
    for file in [*(root / "stepwell").rglob("*.py"), *(root / "functions").rglob("*.py")]:
        for name in imports(file):
            top = name.partition(".")[0]
            if top in sys.stdlib_module_names or top in RUNTIME_HAS or top in TRACING:
                continue
            path = root / name.replace(".", "/") if top in {"stepwell", "functions"} else root / top
            found = path.is_dir() or path.with_suffix(".py").is_file() or path.parent.with_suffix(".py").is_file()
            assert found, f"{file.relative_to(root)} imports {name}"


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_nothing_of_ours_that_is_left_out_is_imported_by_what_is_not(bundles: Bundles) -> None:
    assert not (bundles.engine / "stepwell" / "aws" / "emulator.py").exists()
    left_out = {"stepwell.aws.emulator", "stepwell.aws.deployment", "stepwell.aws.signing", "stepwell.aws.identity"}
    for file in (bundles.engine / "stepwell").rglob("*.py"):
        assert not left_out & set(imports(file)), file


def test_every_handler_of_the_stack_is_in_the_package(bundles: Bundles) -> None:
    for door in ("api", "webhooks", "coordinator", "worker", "stream", "sender", "sweeper", "authorizer"):
        tree = ast.parse((bundles.engine / "functions" / f"{door}.py").read_text(encoding="utf-8"))
        assert "handler" in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, door


def test_compiled_code_is_for_the_functions_processor_and_python(bundles: Bundles) -> None:
    compiled = list(bundles.worker.rglob("*.so"))
    assert len(compiled) >= 4
    for file in compiled:
        assert struct.unpack_from("<H", file.read_bytes()[:20], 18) == (ARM64,), file
        assert "-314-" in file.name or ".abi3." in file.name, file


def test_the_packages_keep_to_their_size(bundles: Bundles) -> None:
    engine, worker = size_bytes(bundles.engine), size_bytes(bundles.worker)
    assert engine < PACKAGE_BYTES
    assert worker - engine < 200_000
    assert size_bytes(bundles.engine / "stepwell") + size_bytes(bundles.engine / "functions") < OWN_BYTES


def size_bytes(tree: Path) -> int:
    return sum(file.stat().st_size for file in tree.rglob("*") if file.is_file())


def test_the_package_knows_its_version(bundles: Bundles) -> None:
    told = (bundles.engine / f"stepwell-{version('stepwell')}.dist-info" / "METADATA").read_text()
    assert f"Version: {version('stepwell')}" in told


def test_a_build_of_the_same_is_the_same(bundles: Bundles, folder: Path, tmp_path: Path) -> None:
    """Else every deployment would replace every function."""
    again = bundling.build(folder, tmp_path, pools={"default"}, platform="lambda")
    assert digest(again.engine) == digest(bundles.engine)
    assert digest(again.worker) == digest(bundles.worker)


def digest(tree: Path) -> str:
    whole = hashlib.sha256()
    for file in sorted(path for path in tree.rglob("*") if path.is_file()):
        whole.update(f"{file.relative_to(tree)}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def test_an_emulators_package_is_for_this_python(folder: Path, tmp_path: Path) -> None:
    built = bundling.build(folder, tmp_path, pools={"default"}, platform="local")
    (cel,) = (built.worker / "cel_expr_python").glob("cel.*.so")
    assert f"-{sys.version_info[0]}{sys.version_info[1]}-" in cel.name


# -- what the user can mend


def test_definitions_with_errors_are_not_deployed_and_are_named(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text(BROKEN)
    with pytest.raises(BundlingError) as refusal:
        bundling.pack(tmp_path, tmp_path / "out.json", {"default"})
    assert "broken.yaml:3" in str(refusal.value)
    assert "pol" in str(refusal.value)


def test_a_step_in_a_pool_that_there_is_not_is_not_deployed(tmp_path: Path) -> None:
    folder, out = tmp_path / "folder", tmp_path / "out.json"
    folder.mkdir()
    (folder / "pooled.yaml").write_text(POOLED)
    with pytest.raises(BundlingError, match="pools that there are not: gpu"):
        bundling.pack(folder, out, {"default", "big"})
    bundling.pack(folder, out, {"default", "gpu"})
    assert json.loads(out.read_text())["pools"] == ["default", "gpu"]


def test_a_package_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("./not-here\n")
    with pytest.raises(BundlingError, match=r"the dependencies: (?s:.*)not-here"):
        bundling.install(tmp_path / "into", "lambda", "-r", str(requirements))
