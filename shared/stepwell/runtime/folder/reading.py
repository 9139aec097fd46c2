"""Reads the files of a workflow folder: their text, and side files that may have one of several names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from stepwell.definition.side_files import SideFile
from stepwell.errors import Problem
from stepwell.limits import DEFINITION_BYTES


def read_text(file: Path) -> tuple[str | None, tuple[Problem, ...]]:
    """Returns the text of a file, or None and its problems. Without the mark that Windows writes."""
    try:
        if file.stat().st_size > DEFINITION_BYTES:
            message = f"the file has more than {DEFINITION_BYTES} bytes"
            return None, (Problem("definition_too_large", message, file=str(file)),)
        return file.read_text(encoding="utf-8-sig"), ()
    except UnicodeDecodeError as error:
        hint = "save it as UTF-8"
        return None, (Problem("bad_encoding", f"the file is not UTF-8: {error}", hint=hint, file=str(file)),)
    except OSError as error:
        return None, (Problem("unreadable", f"the file cannot be read: {error}", file=str(file)),)


def only_file(folder: Path, names: Sequence[str]) -> tuple[Path | None, tuple[Problem, ...]]:
    """Returns the folder's file with one of these names, None if there is none; a problem if there are two."""
    files = [file for name in names if (file := folder / name).is_file()]
    if len(files) < 2:
        return (files[0] if files else None), ()
    message = f"{' and '.join(file.name for file in files)} are both there"
    return None, (Problem("duplicate_file", message, hint="keep one of them", file=str(files[1])),)


def only_side_file(folder: Path, names: Sequence[str], check: Callable[[str, str], SideFile]) -> SideFile:
    """Checks the folder's side file with one of these names by its text and path; empty if there is none."""
    file, problems = only_file(folder, names)
    if file is None:
        return SideFile({}, problems)
    text, problems = read_text(file)
    return SideFile({}, problems) if text is None else check(text, str(file))
