"""Leaves out of the packages what no function reads, and lets Lambda read the rest.

UNREAD          of every package: build trees, unused extensions, pages for browsers
UNREAD_BY_OURS  of the engine's alone, because a user's steps may import it
remove_stubs    the stubs of every package, which only a type checker reads
trim_compiled   the tables of symbols of compiled code, which only a debugger reads
"""

from __future__ import annotations

import fnmatch
import os
import shutil
import struct
from collections.abc import Iterable
from pathlib import Path

UNREAD = (
    ".lock",
    "bin",
    "bazel-project",
    "aws_lambda_powertools/event_handler/openapi/swagger_ui/*.css",
    "aws_lambda_powertools/event_handler/openapi/swagger_ui/*.js",
    "*.dist-info/RECORD",
    "*.dist-info/direct_url.json",  # a path of this machine, other in each build
    "*.dist-info/uv_cache.json",
    "*.dist-info/licenses",
    "*.dist-info/sboms",
    "*/__pycache__",
)
UNREAD_BY_OURS = (
    "aws_lambda_powertools/event_handler",
    *(f"aws_lambda_powertools/utilities/{name}" for name in (
        "auth_alpha", "batch", "circuit_breaker", "data_classes", "data_masking", "feature_flags", "idempotency",
        "kafka", "metadata", "parameters", "parser", "streaming", "validation")),
    "pydantic/experimental",
    "pydantic/mypy.py",
    "pydantic/v1",
    *(f"tzdata/zoneinfo/{name}" for name in ("*.tab", "tzdata.zi", "leapseconds")),  # zoneinfo reads the zones alone
)  # fmt: skip
# Those of ours that are built with them: a fifth to four fifths of their size.
_WITH_SYMBOLS = ("re2", "yaml")
_READS_STUB = b"attach_stub"  # of lazy_loader, in a module whose stub says what it imports later
_HEADER_BYTES = 64
_ELF64_LITTLE = b"\x7fELF\x02\x01"
_SEGMENTS, _SECTIONS = 32, 40  # where the header has the offsets of both tables
_SEGMENT_SIZE, _SECTION_COUNT = 54, 60  # each with the field after it


def remove(tree: Path, patterns: Iterable[str]) -> None:
    """Deletes files that match a pattern relative to the tree; `*` also matches folders."""
    wanted = tuple(patterns)
    for path in sorted(tree.rglob("*"), reverse=True):  # contents before their folder
        if any(fnmatch.fnmatch(path.relative_to(tree).as_posix(), pattern) for pattern in wanted):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def remove_stubs(tree: Path) -> None:
    """Deletes the stubs but those that their modules read themselves."""
    for stub in list(tree.rglob("*.pyi")):
        module = stub.with_suffix(".py")
        if not (module.is_file() and _READS_STUB in module.read_bytes()):
            stub.unlink()


def open_to_all(tree: Path) -> None:
    """Lets everybody read the files: on Lambda another user does, and a package keeps the modes of this machine."""
    for path in list(tree.rglob("*")):
        mode = path.stat().st_mode & 0o777
        wanted = mode | (0o555 if path.is_dir() or mode & 0o100 else 0o444)
        if wanted == mode:
            continue
        if path.is_file() and path.stat().st_nlink > 1:
            _replace(path, path.read_bytes())
        path.chmod(wanted)


def trim_compiled(tree: Path) -> None:
    """Cuts the compiled modules of our own dependencies to what is loaded."""
    for name in _WITH_SYMBOLS:
        for file in (tree / name).rglob("*.so"):
            content = file.read_bytes()
            trimmed = loaded_part(content)
            if len(trimmed) < len(content):
                _replace(file, trimmed)


def _replace(file: Path, content: bytes) -> None:
    """Writes a new file in the place of one that may be linked to the installer's cache."""
    whole = file.with_name(f"{file.name}.new")
    whole.write_bytes(content)
    shutil.copymode(file, whole)
    os.replace(whole, file)


def loaded_part(content: bytes) -> bytes:
    """Returns an ELF file up to the end of its last segment, which is all that the dynamic loader reads.

    What lies behind are sections for linkers and debuggers. Any other file is returned as it is. The processor does not
    matter: the header is the same for all of 64 bits.
    """
    if not content.startswith(_ELF64_LITTLE):
        return content
    (table,) = struct.unpack_from("<Q", content, _SEGMENTS)
    size, count = struct.unpack_from("<HH", content, _SEGMENT_SIZE)
    end = max(_HEADER_BYTES, table + size * count)
    for place in range(table, table + size * count, size):
        offset, length = struct.unpack_from("<Q16xQ", content, place + 8)
        end = max(end, offset + length)
    trimmed = bytearray(content[:end])
    struct.pack_into("<Q", trimmed, _SECTIONS, 0)
    struct.pack_into("<HH", trimmed, _SECTION_COUNT, 0, 0)
    return bytes(trimmed)
