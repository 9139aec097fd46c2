"""Builds folders and source archives of this machine into wheels, and reads what a wheel says of itself."""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from uv import find_uv_bin

from stepwell.cdk.errors import BundlingError
from stepwell.cdk.packaging.tools import Target, run
from stepwell.project import FILE, name_of, read_document

WHEEL = ".whl"
ARCHIVES = (".tar.gz", ".zip")
_PURE = "-none-any.whl"
_METADATA = re.compile(r"[^/]+\.dist-info/METADATA")
_NEED = re.compile(rb"^Requires-Dist: *([^;\r\n]*)", re.MULTILINE)
_PATH = re.compile(rb"^(Requires-Dist: [^@;\r\n]*?) *@ *file:[^;\r\n]*?(?= +;|\r?$)", re.MULTILINE)


class Wheels:
    """The wheels of folders and source archives, each built once, below `into`."""

    def __init__(self, into: Path, target: Target) -> None:
        self._into = into / "wheels"
        self._target = target
        self._built: dict[Path, Path] = {}

    def of(self, source: Path) -> Path:
        """Returns the wheel of a folder or an archive, or a wheel itself. Raises BundlingError."""
        if source.is_file() and source.name.endswith(WHEEL):
            return source
        if source not in self._built:
            self._built[source] = self._build(source)
        return self._built[source]

    def _build(self, source: Path) -> Path:
        """Builds a wheel by way of a source archive, as for a release: no file of an earlier build gets into it."""
        out = self._into / str(len(self._built))
        only = ("--wheel",) if source.is_file() else ()
        words = ("build", "--python", sys.executable, "-o", str(out), *only)
        try:
            run([find_uv_bin(), *words, str(source)], str(source), self._target)
        except BundlingError as error:
            raise _without_build_system(source) or error from None
        (wheel,) = out.glob(f"*{WHEEL}")
        if not (self._target.is_this_machine or wheel.name.endswith(_PURE)):
            message = f"{source}: {wheel.name} has compiled code, and no wheel for {self._target.name}"
            hint = "depend on a release that has one, or another package (nothing is compiled for Lambda here)"
            raise BundlingError(message, code="no_wheel", hint=hint)
        _remove_paths(wheel)
        return wheel


def _without_build_system(source: Path) -> BundlingError | None:
    """Returns the error for a folder without a build system, of which setuptools says less."""
    if source.is_file() or (source / "setup.py").is_file() or "build-system" in read_document(source / FILE):
        return None
    lacks = f"its {FILE} has no [build-system]" if (source / FILE).is_file() else f"it has no {FILE}"
    hint = "take it out of the requirements, and list its packages under `packages` of [tool.stepwell]; or add one"
    return BundlingError(f"{source} cannot be built to a wheel: {lacks}", hint=hint)


def name_of_file(wheel: Path) -> str:
    """Returns the normalised name of the package in a wheel or an archive."""
    return name_of(wheel.name.partition("-")[0])


def needs_of(wheel: Path) -> Iterator[str]:
    """Yields the names of the packages that a wheel needs, those of its extras too."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if _METADATA.fullmatch(name):
                yield from (name_of(need.decode()) for need in _NEED.findall(archive.read(name)))


def write_stub(into: Path, name: str, version: str, needs: Iterable[str]) -> Path:
    """Writes a wheel that has these needs and no code, for a resolver to find instead of one of an index."""
    metadata = f"{name}-{version}.dist-info"
    headers = (
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        *(f"Requires-Dist: {one}" for one in needs),
    )
    wheel = into / f"{name}-{version}-py3{_PURE}"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{metadata}/METADATA", "\n".join((*headers, "")))
        archive.writestr(
            f"{metadata}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3{_PURE.removesuffix(WHEEL)}\n"
        )
        archive.writestr(f"{metadata}/RECORD", f"{metadata}/METADATA,,\n{metadata}/WHEEL,,\n{metadata}/RECORD,,\n")
    return wheel


def _remove_paths(wheel: Path) -> None:
    """Leaves only the name of a folder that the metadata requires: Poetry writes a path, another one in each build."""
    with zipfile.ZipFile(wheel) as archive:
        files = [(info, archive.read(info)) for info in archive.infolist()]
    new = [(info, _PATH.sub(rb"\1", data) if _METADATA.fullmatch(info.filename) else data) for info, data in files]
    if new != files:  # RECORD keeps the old hash: no installer of ours reads it, and it is not deployed
        with zipfile.ZipFile(wheel, "w") as archive:
            for info, data in new:
                archive.writestr(info, data)
