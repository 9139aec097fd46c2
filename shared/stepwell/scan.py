"""Scans a workflow folder to the bottom, without tests, hidden and generated folders, and environments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_GENERATED = frozenset({"__pycache__", "cdk.out", "node_modules"})
_TESTS = frozenset({"test", "tests"})


def walk(folder: Path) -> Iterator[Path]:
    """Yields the folder's files by name: those at the top first, then those of each sub-folder."""
    inner = []
    for path in sorted(folder.iterdir()):
        if is_hidden(path):
            continue
        if path.is_dir() and path.name not in _TESTS:
            inner.append(path)
        elif path.is_file():
            yield path
    for path in inner:
        yield from walk(path)


def is_hidden(path: Path) -> bool:
    """Returns whether a file or folder is none of the user's sources.

    It is hidden, generated, an environment, or a link back to a folder that it is in, which would never end.
    """
    if path.name.startswith(".") or path.name in _GENERATED or (path / "pyvenv.cfg").is_file():
        return True
    return path.is_symlink() and path.parent.resolve().is_relative_to(path.resolve())


def modules(folder: Path) -> Iterator[Path]:
    """Yields the Python modules of the folder, without tests."""
    for path in walk(folder):
        if path.suffix == ".py" and not path.stem.startswith(("test_", "conftest")):
            yield path


def module_name(folder: Path, file: Path) -> str:
    """Returns the name by which a module of the folder is imported: `billing/refund.py` is `billing.refund`."""
    parts = file.relative_to(folder).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
