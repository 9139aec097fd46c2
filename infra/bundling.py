"""Builds the functions' packages without Docker: uv installs the wheels of uv.lock for the functions' platform.

engine   functions/  stepwell/  dependencies  workflows.json  webhooks.yaml       every function but the workers
worker   the same, and workflows/ with what its requirements.txt names            the workers
"""

from __future__ import annotations

import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from uv import find_uv_bin

from infra.props import WEBHOOKS_FILES

ROOT = Path(__file__).resolve().parent.parent
DOORS, PACKAGE = ROOT / "functions", ROOT / "shared" / "stepwell"
PACKED = "workflows.json"
PYTHON = "3.14"  # the functions' runtime
WHEELS = ("--python-platform", "aarch64-manylinux_2_28", "--python-version", PYTHON, "--only-binary", ":all:")
RUNTIME_HAS = ("boto3", "botocore", "s3transfer")  # included in Lambda's Python
# Parts of stepwell for local use only.
NOT_DEPLOYED = ("local", "cli", "testing", "aws/emulator*.py", "aws/deployment.py", "aws/identity.py", "aws/signing.py")
# Parts of dependencies that no import reads. cel-expr-python ships its build tree and unused extensions.
UNREAD = (
    ".lock",
    "bin",
    "bazel-project",
    "cel_expr_python/ext/ext_bindings.*",
    "cel_expr_python/ext/ext_encoders.*",
    "cel_expr_python/ext/ext_optional.*",
    "cel_expr_python/ext/ext_proto.*",
    "*.dist-info/RECORD",
    "*.dist-info/licenses",
    "*.dist-info/sboms",
    "*.pyi",
    "*/__pycache__",
)
# Parts of the workflow folder: caches and hidden files, which may contain secrets.
_NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "*.pyc", "cdk.out", "node_modules")


class BundlingError(RuntimeError):
    """A package could not be built; the message has the tool's output."""


@dataclass(frozen=True, slots=True)
class Bundles:
    """The folders of the two packages, and the packed workflows."""

    engine: Path
    worker: Path
    packed: Mapping[str, Any]


def build(
    folder: Path,
    into: Path,
    *,
    pools: Collection[str],
    platform: str,
    tracing: bool = False,
    http_hosts: Collection[str] = (),
) -> Bundles:
    """Builds both packages of a workflow folder below `into`. Raises BundlingError."""
    engine, worker = into / "engine", into / "worker"
    engine.mkdir()
    packed = pack(
        folder, engine / PACKED, pools, http_hosts
    )  # first, because it is quick and reports the user's mistakes
    locked = into / "locked.txt"
    _install_locked(engine, locked, platform, tracing)
    _copy_own(engine)
    shutil.copytree(engine, worker, copy_function=os.link)
    shutil.copytree(folder, worker / "workflows", ignore=_NOT_COPIED)
    if (folder / "requirements.txt").is_file():
        install(worker, platform, "-r", str(folder / "requirements.txt"), "-c", str(locked))
    return Bundles(engine, worker, packed)


def pack(folder: Path, out: Path, pools: Collection[str], http_hosts: Collection[str] = ()) -> Mapping[str, Any]:
    """Checks the definitions and writes them to one file. Returns its content. Raises BundlingError."""
    command = [sys.executable, "-m", "stepwell.runtime.starts.pack", str(folder), str(out), ",".join(http_hosts)]
    _run(command, f"the workflows of {folder}")
    packed: Mapping[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    missing = sorted(set(packed["pools"]) - set(pools))
    if missing:
        raise BundlingError(
            f"the workflows of {folder} run steps in pools that there are not: {', '.join(missing)} "
            f"(there are: {', '.join(sorted(pools))}; add to the context `pools`)"
        )
    return packed


@cache
def pack_definitions(folder: Path, pools: tuple[str, ...], http_hosts: tuple[str, ...]) -> Mapping[str, Any]:
    """Returns a folder's definitions without building a package, and without webhooks."""
    with tempfile.TemporaryDirectory() as into:
        definitions = Path(into) / "definitions"
        shutil.copytree(folder, definitions, ignore=lambda _, names: [name for name in names if name in WEBHOOKS_FILES])
        return pack(definitions, Path(into) / PACKED, pools, http_hosts)


def _install_locked(into: Path, locked: Path, platform: str, tracing: bool) -> None:
    """Installs the dependencies exactly as locked, with hash checks."""
    extra = ("--extra", "tracing") if tracing else ()
    there = [word for name in RUNTIME_HAS for word in ("--no-emit-package", name)]
    lock = ("export", "--frozen", "--no-dev", "--no-emit-project", "--project", str(ROOT), "-o", str(locked), "-q")
    _run([find_uv_bin(), *lock, *there, *extra], "the locked dependencies")
    install(into, platform, "--no-deps", "-r", str(locked))
    remove(into, UNREAD)


def install(into: Path, platform: str, *what: str) -> None:
    """Runs `uv pip install` with these arguments for the platform. Raises BundlingError."""
    target = WHEELS if platform == "lambda" else ("--python", sys.executable)
    _run([find_uv_bin(), "pip", "install", "-q", "--target", str(into), *target, *what], "the dependencies")


def remove(tree: Path, patterns: Iterable[str]) -> None:
    """Deletes files that match a pattern relative to the tree; `*` also matches folders."""
    wanted = tuple(patterns)
    for path in sorted(tree.rglob("*"), reverse=True):  # contents before their folder
        if any(fnmatch.fnmatch(path.relative_to(tree).as_posix(), pattern) for pattern in wanted):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _copy_own(into: Path) -> None:
    """Copies the handlers, the package and its metadata, which has its version."""
    shutil.copytree(DOORS, into / "functions", ignore=_NOT_COPIED)
    own = into / "stepwell"
    shutil.copytree(PACKAGE, own, ignore=_NOT_COPIED)
    remove(own, NOT_DEPLOYED)
    told = into / f"stepwell-{version('stepwell')}.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: stepwell\nVersion: {version('stepwell')}\n")


def _run(command: Sequence[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed arguments
    if done.returncode:
        said = "\n".join(text.strip() for text in (done.stdout, done.stderr) if text.strip())
        raise BundlingError(f"{what}: {command[0]} ended with {done.returncode}\n{said}")
