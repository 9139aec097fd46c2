"""Stepwell as its users have it: the wheel in environments of its own, in a path with a space, outside any clone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from uv import find_uv_bin

ROOT = Path(__file__).parents[2]
# What a fresh terminal has: nothing of this test's environment.
KEPT = ("HOME", "LANG", "PATH", "TMPDIR", "UV_CACHE_DIR", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "PIP_INDEX_URL",
        "SSL_CERT_FILE", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")  # fmt: skip


def clean() -> dict[str, str]:
    return {name: os.environ[name] for name in KEPT if name in os.environ}


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment with the wheel."""

    folder: Path

    def program(self, name: str) -> str:
        return str(self.folder / "bin" / name)

    def run(self, place: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a program of the environment in a folder."""
        return subprocess.run(  # noqa: S603 - programs of our own environment
            [self.program(words[0]), *words[1:]],
            cwd=place, env={**clean(), **variables}, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def done(self, place: Path, *words: str) -> str:
        """Runs a program that must succeed. Returns its output."""
        found = self.run(place, *words)
        assert found.returncode == 0, found.stdout + found.stderr
        return found.stdout


def uv(*words: str) -> None:
    subprocess.run([find_uv_bin(), *words], cwd=ROOT, check=True, capture_output=True)  # noqa: S603 - our own words


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    """A folder whose path has a space; on the disk, beside uv's cache, whose files an environment links."""
    with tempfile.TemporaryDirectory(prefix="wheel", ignore_cleanup_errors=True) as made:
        found = Path(made) / "my place"
        found.mkdir()
        yield found


@pytest.fixture(scope="session")
def wheel(place: Path) -> Path:
    uv("build", "-q", "--wheel", "-o", str(place / "dist"))
    (found,) = (place / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="session")
def content(wheel: Path) -> Mapping[str, int]:
    """The files of the wheel, with their sizes."""
    with zipfile.ZipFile(wheel) as archive:
        return {one.filename: one.file_size for one in archive.infolist()}


def install(place: Path, wheel: Path, name: str, extras: str) -> Installed:
    """Makes an environment with the versions of uv.lock, and without anything else."""
    locked = place / "locked.txt"
    if not locked.exists():
        uv("export", "--frozen", "-q", "--all-extras", "--no-emit-project", "--no-hashes", "-o", str(locked))
    uv("venv", "-q", "--python", sys.executable, str(place / name))
    target = str(place / name / "bin" / "python")
    uv("pip", "install", "-q", "--python", target, "-c", str(locked), f"stepwell{extras} @ {wheel.as_uri()}")
    _take_bytecode(place / name)
    return Installed(place / name)


def _take_bytecode(environment: Path) -> None:
    """Copies what was compiled here of other packages, 20 s of work: Python looks whether it still holds."""
    site = Path(sysconfig.get_path("purelib"))
    target = environment / site.relative_to(sys.prefix)
    for made in site.rglob("*.pyc"):
        place = target / made.relative_to(site)
        if place.parents[1].is_dir() and "-pytest-" not in made.name:
            place.parent.mkdir(exist_ok=True)
            shutil.copyfile(made, place)


@pytest.fixture(scope="session")
def light(place: Path, wheel: Path) -> Installed:
    """`pip install stepwell`."""
    return install(place, wheel, "light", "")


@pytest.fixture(scope="session")
def full(place: Path, wheel: Path) -> Installed:
    """`pip install "stepwell[dev,deploy]"`."""
    return install(place, wheel, "full", "[deploy,dev]")


@pytest.fixture(scope="session")
def lowest(place: Path, wheel: Path) -> Installed:
    """All extras in the lowest versions that pyproject.toml allows, on the newest of what these need in turn."""
    versions = place / "lowest.txt"
    uv("pip", "compile", "-q", "--resolution", "lowest-direct", "--all-extras", "--no-emit-package", "stepwell",
       "--python", sys.executable, "pyproject.toml", "-o", str(versions))  # fmt: skip
    uv("venv", "-q", "--python", sys.executable, str(place / "lowest"))
    target = str(place / "lowest" / "bin" / "python")
    uv("pip", "install", "-q", "--python", target, "-r", str(versions), f"stepwell @ {wheel.as_uri()}")
    return Installed(place / "lowest")
