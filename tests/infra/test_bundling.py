"""The functions' packages, really built: what is in them, what is not, and how large they may be."""

from __future__ import annotations

import ast
import hashlib
import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from stepwell.cdk.errors import BundlingError
from stepwell.cdk.packaging import bundling
from stepwell.cdk.packaging.bundling import Bundles
from stepwell.project import Project, project_of
from tests.infra.kit import ORDER, ROOT

# Unpacked, without bytecode; Lambda takes 262,144,000.
PACKAGE_BYTES = 12_450_000
WORKER_MORE_BYTES = 2_500_000  # the user's code, and the parts of Powertools and pydantic that it may import
OWN_BYTES = 3_350_000
ARM64 = 183  # e_machine of an ELF file
RUNTIME_HAS = {"boto3", "botocore"}
# Of the Tracer, which is imported where traces are asked for; of the client, for steps whose project has httpx; of the
# check of expressions, which is made before a deploy.
OPTIONAL = {"aws_xray_sdk", "cel_expr_python", "httpx", "jsonatapy", "opentelemetry"}
THEIRS = "iniconfig"  # a package of pure Python that nothing of ours needs
BROKEN = "workflow: broken\ntimeline:\n  - {name: a, run: python:shop.validate, pol: big}\n"
POOLED = "workflow: pooled\ntimeline:\n  - {name: a, run: python:shop.validate, pool: gpu}\n"
TABLE = '[tool.stepwell]\nworkflows = "flows"\npackages = ["lib/till", "rates.py"]\npython = "3.13"\n'


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with everything that one may have."""
    root = tmp_path_factory.mktemp("theirs")
    shutil.copytree(ROOT / ORDER, root / "flows")
    for name, text in {
        "pyproject.toml": TABLE,
        "requirements.txt": f"stepwell  # its code is that of the command\n{THEIRS}=={version(THEIRS)}\n",
        "flows/.env": "SECRET=1\n",
        "lib/till/__init__.py": "",
        "lib/till/.key": "secret",
        "rates.py": "TAX = 0.21\n",
        "secrets.txt": "not packed",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "rates.py").chmod(0o600)
    return project_of(root / "flows")


@pytest.fixture(scope="module", autouse=True)
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A copy of ours, which nobody edits between two builds."""
    copies = tmp_path_factory.mktemp("ours")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HANDLERS", "PACKAGE"):
            patch.setattr(bundling, name, shutil.copytree(getattr(bundling, name), copies / name))
        yield


@pytest.fixture(scope="module")
def bundles(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    return bundling.build(project, tmp_path_factory.mktemp("built"), pools={"default"}, platform="lambda")


def test_the_engines_package_has_all_but_users_code(bundles: Bundles) -> None:
    names = {path.name for path in bundles.engine.iterdir()}
    assert {"stepwell", "workflows.json", "pydantic", "pydantic_core", "aws_lambda_powertools", "yaml"} <= names
    assert not {"project", THEIRS} & names


def test_only_the_engines_package_of_a_stack_that_serves_the_console_has_its_files(
    bundles: Bundles, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are built with a working copy and in a wheel; these stand for them."""
    ours = shutil.copytree(bundling.PACKAGE, tmp_path / "ours", ignore=shutil.ignore_patterns("console"))
    (ours / "console").mkdir()
    (ours / "console" / "index.html").write_text("<!doctype html>")
    monkeypatch.setattr(bundling, "PACKAGE", ours)
    built = bundling.build(project, tmp_path, pools={"default"}, platform="local", has_console=True)
    assert (built.engine / "stepwell" / "console" / "index.html").is_file()
    assert not (built.worker / "stepwell" / "console").exists()
    assert not (bundles.engine / "stepwell" / "console").exists()
    (ours / "console" / "index.html").unlink()
    with pytest.raises(BundlingError, match="not built") as refusal:
        bundling.build(project, tmp_path, pools={"default"}, platform="local", has_console=True)
    assert refusal.value.code == "not_built"


def test_the_workers_package_has_that_and_users_code(bundles: Bundles) -> None:
    names = {path.name for path in bundles.worker.iterdir()}
    assert {path.name for path in bundles.engine.iterdir()} | {"project", THEIRS} <= names
    theirs = bundles.worker / "project"
    assert {path.name for path in theirs.iterdir()} - {"__pycache__"} == {"flows", "lib", "rates.py"}
    assert {"order.yaml", "shop.py", "webhooks.yaml"} <= {path.name for path in (theirs / "flows").iterdir()}
    assert {path.name for path in (theirs / "lib" / "till").iterdir()} - {"__pycache__"} == {"__init__.py"}


def test_the_package_tells_the_worker_where_modules_are_imported_from(bundles: Bundles) -> None:
    packed = json.loads((bundles.worker / "workflows.json").read_text())
    assert packed["paths"] == ["project/flows", "project/.", "project/lib"]


def test_what_is_hidden_in_a_folder_stays_there(bundles: Bundles) -> None:
    assert not [*bundles.worker.rglob(".env"), *bundles.worker.rglob(".key")]


@pytest.mark.parametrize(
    "name",
    ["boto3", "botocore", "bazel-project", "bin", "cdk", "cli", "testing", "typer", "httpx"],
)
def test_what_no_function_reads_is_left_out(bundles: Bundles, name: str) -> None:
    ours = [bundles.engine, bundles.engine / "stepwell", bundles.engine / "stepwell" / "functions"]
    assert not [place for place in ours if (place / name).exists()]


def test_the_engines_package_knows_all_time_zones(bundles: Bundles) -> None:
    """Lambda's system has none, so it reads those of the package, without the tables beside them."""
    done = subprocess.run(
        [sys.executable, "-SBc", "from zoneinfo import *\nprint(len(available_timezones()), ZoneInfo('Asia/Tokyo'))"],
        env={"PYTHONTZPATH": "", "PYTHONPATH": str(bundles.engine)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    count, zone = done.stdout.split()
    assert int(count) > 400
    assert zone == "Asia/Tokyo"


def test_everybody_may_read_a_package_whoever_may_read_the_project(bundles: Bundles) -> None:
    """On Lambda another user reads it, with the modes that the files had here."""
    files = [file for tree in (bundles.engine, bundles.worker) for file in tree.rglob("*")]
    assert [file for file in files if file.stat().st_mode & 0o444 != 0o444] == []


def test_the_adapters_in_memory_are_packed_for_simulations_and_those_of_this_machine_are_not(bundles: Bundles) -> None:
    packed = bundles.engine / "stepwell"
    assert {"store", "queue"} <= {path.stem for path in (packed / "memory").iterdir()}
    assert not (packed / "local").exists()


def test_every_import_of_ours_finds_its_module_in_the_package(bundles: Bundles) -> None:
    root = bundles.engine
    for file in (root / "stepwell").rglob("*.py"):
        if file == root / "stepwell" / "functions" / "worker.py":
            continue  # no function of this package runs it
        for name in imports(file):
            top = name.partition(".")[0]
            if top in sys.stdlib_module_names or top in RUNTIME_HAS or top in OPTIONAL:
                continue
            path = root / name.replace(".", "/") if top == "stepwell" else root / top
            found = path.is_dir() or path.with_suffix(".py").is_file() or path.parent.with_suffix(".py").is_file()
            assert found, f"{file.relative_to(root)} imports {name}"


def imports(file: Path) -> Iterator[str]:
    """Yields what the module imports when it runs."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    guards = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    unread = {id(node) for guard in guards for one in guard.body for node in ast.walk(one)}
    for node in ast.walk(tree):
        if id(node) in unread:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_nothing_of_ours_that_is_left_out_is_imported_by_what_is_not(bundles: Bundles) -> None:
    assert not (bundles.engine / "stepwell" / "aws" / "emulator.py").exists()
    left_out = {
        "stepwell.aws.emulation.emulator",
        "stepwell.aws.emulation.deployment",
        "stepwell.project",
        "stepwell.definition.code.at_import",
    }
    for file in (bundles.engine / "stepwell").rglob("*.py"):
        assert not left_out & set(imports(file)), file


def test_every_module_of_ours_in_the_package_is_named_by_another(bundles: Bundles) -> None:
    """What only the command line, tests and deploys import is left out."""
    texts = {module_of(file, bundles.worker): file for file in (bundles.worker / "stepwell").rglob("*.py")}
    named = {name for file in texts.values() for name in names_in(file)}
    unread = {name for name, file in texts.items() if file.name != "__init__.py" and name not in named}
    assert {name for name in unread if not name.startswith("stepwell.functions.")} == set()


def names_in(file: Path) -> Iterator[str]:
    """Yields the modules that the module imports, or names in a text for an import when it is needed."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_what_only_workers_have_is_imported_by_nothing_of_the_others(bundles: Bundles) -> None:
    theirs = {module_of(file, bundles.worker) for file in (bundles.worker / "stepwell").rglob("*.py")}
    engines = {module_of(file, bundles.engine): file for file in (bundles.engine / "stepwell").rglob("*.py")}
    only_theirs = theirs - engines.keys()
    assert {"stepwell.runtime.executor", "stepwell.aws.services.calls"} <= only_theirs
    for name, file in engines.items():
        assert name == "stepwell.functions.worker" or not only_theirs & set(imports(file)), name


def module_of(file: Path, tree: Path) -> str:
    return ".".join(file.relative_to(tree).with_suffix("").parts)


def test_every_handler_of_the_stack_is_in_the_package(bundles: Bundles) -> None:
    for handler in ("api", "webhooks", "coordinator", "worker", "stream", "sender", "sweeper", "authorizer"):
        tree = ast.parse((bundles.engine / "stepwell" / "functions" / f"{handler}.py").read_text(encoding="utf-8"))
        assert "handler" in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, handler


def test_compiled_code_is_for_the_functions_processor_and_the_projects_python(bundles: Bundles) -> None:
    compiled = list(bundles.worker.rglob("*.so"))
    assert len(compiled) >= 3
    for file in compiled:
        assert struct.unpack_from("<H", file.read_bytes()[:20], 18) == (ARM64,), file
        assert "-313-" in file.name or ".abi3." in file.name, file


def test_the_packages_keep_to_their_size(bundles: Bundles) -> None:
    engine, worker = source_bytes(bundles.engine), source_bytes(bundles.worker)
    assert engine < PACKAGE_BYTES
    assert worker - engine < WORKER_MORE_BYTES
    assert source_bytes(bundles.engine / "stepwell") < OWN_BYTES


def source_bytes(tree: Path) -> int:
    """Its size without bytecode, which it has where this machine has the project's Python."""
    return sum(file.stat().st_size for file in tree.rglob("*") if file.is_file() and file.suffix != ".pyc")


def test_the_size_is_told_with_what_is_large(bundles: Bundles) -> None:
    mb = f"{bundling.size_bytes(bundles.worker) / 1_000_000:.1f} MB"
    assert bundles.report().startswith(f"the workers' package has {mb}, the others' ")
    assert "of 262.1 MB that Lambda allows; largest: " in bundles.report()


def test_the_package_knows_its_version(bundles: Bundles) -> None:
    told = (bundles.engine / f"stepwell-{version('stepwell')}.dist-info" / "METADATA").read_text()
    assert f"Version: {version('stepwell')}" in told


@pytest.mark.slow
def test_a_build_of_the_same_is_the_same(bundles: Bundles, project: Project, tmp_path: Path) -> None:
    """Else every deployment would replace every function."""
    again = bundling.build(project, tmp_path, pools={"default"}, platform="lambda")
    assert digest(again.engine) == digest(bundles.engine)
    assert digest(again.worker) == digest(bundles.worker)


def digest(tree: Path) -> str:
    whole = hashlib.sha256()
    for file in sorted(path for path in tree.rglob("*") if path.is_file()):
        whole.update(f"{file.relative_to(tree)}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def test_an_emulators_package_is_for_this_python(project: Project, tmp_path: Path) -> None:
    built = bundling.build(project, tmp_path, pools={"default"}, platform="local")
    (compiled,) = (built.worker / "re2").glob("_re2.*.so")
    assert f"-{sys.version_info[0]}{sys.version_info[1]}-" in compiled.name


# -- what the user can mend


def alone(folder: Path) -> Project:
    return Project(folder, folder)


def test_definitions_with_errors_are_not_deployed_and_are_named(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text(BROKEN)
    with pytest.raises(BundlingError) as refusal:
        bundling.pack(alone(tmp_path), {"default"})
    assert "broken.yaml:3" in str(refusal.value)
    assert "pol" in str(refusal.value)
    assert refusal.value.code == "bad_definition"


def test_a_step_in_a_pool_that_there_is_not_is_not_deployed(tmp_path: Path) -> None:
    (tmp_path / "pooled.yaml").write_text(POOLED)
    with pytest.raises(BundlingError, match="pools that there are not: gpu"):
        bundling.pack(alone(tmp_path), {"default", "big"})
    assert bundling.pack(alone(tmp_path), {"default", "gpu"})["pools"] == ["default", "gpu"]


def test_what_functions_take_is_packed_for_the_api_which_has_no_code(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("@workflow\nasync def buy(ctx, sku: str): ...\n")

    assert bundling.pack(alone(tmp_path), {"default"})["functions"]["python:shop.buy"]["input_schema"] == {
        "type": "object",
        "properties": {"sku": {"type": "string"}},
        "required": ["sku"],
    }


def test_a_package_that_is_too_large_for_lambda_is_refused_with_what_is_large(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundling, "MOST_BYTES", 10_000_000)
    with pytest.raises(BundlingError, match=r"of 10.0 MB that Lambda allows; largest: ") as refusal:
        bundling.build(project, tmp_path, pools={"default"}, platform="local")
    assert refusal.value.code == "package_too_large"


def test_a_wheel_for_a_newer_c_library_than_that_of_lambdas_python_is_refused(tmp_path: Path) -> None:
    """Lambda's Python 3.11 runs on Amazon Linux 2, with glibc 2.26."""
    info = tmp_path / "quick-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: quick\nVersion: 1.0\n")
    (info / "WHEEL").write_text("Tag: cp311-cp311-manylinux_2_28_aarch64\n")
    bundling.check_glibc(tmp_path, "3.12")
    with pytest.raises(BundlingError, match=r"quick 1.0 has no wheel for Lambda \(arm64, Python 3.11\)") as refusal:
        bundling.check_glibc(tmp_path, "3.11")
    assert refusal.value.code == "no_wheel"
    (info / "WHEEL").write_text("Tag: cp311-cp311-manylinux_2_17_aarch64\nTag: cp311-cp311-manylinux_2_28_aarch64\n")
    bundling.check_glibc(tmp_path, "3.11")


@pytest.mark.parametrize(("language", "asked"), [("JSONata", {"asl", "otel"}), ("JSONPath", {"otel"})])
def test_what_evaluates_jsonata_is_asked_for_where_a_state_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str, asked: set[str]
) -> None:
    """Neither package had it, so that each run of such a machine failed on Lambda with `missing_extra`."""
    found: list[set[str]] = []

    def no_lock(*_: object, asked: Iterable[str]) -> Path:
        found.append(set(asked))
        raise BundlingError("not locked here")

    state = f"{{Type: Pass, QueryLanguage: {language}, End: true}}"
    (tmp_path / "a.asl.yaml").write_text(f"StartAt: A\nStates:\n  A: {state}\n")
    monkeypatch.setattr(bundling, "lock", no_lock)
    with pytest.raises(BundlingError, match="not locked here"):
        bundling.build(Project(tmp_path, tmp_path), tmp_path, pools={"default"}, platform="lambda", asked=["otel"])
    assert found == [asked]
