"""Compiles the packages' Python: Lambda cannot write to its copy, so every cold start would do it again.

Bytecode belongs to one version of Python, so one of that version must be on this machine. It is the same for every
build of the same files: it has no times, and the paths that it will have on Lambda.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from uv import find_uv_bin

TASK = "/var/task"  # where Lambda unpacks a package


def compile_tree(tree: Path, interpreter: str) -> None:
    """Compiles every module below a folder. One that cannot be compiled says so when it is imported."""
    words = ("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "-s", str(tree), "-p", TASK, str(tree))
    subprocess.run([interpreter, *words], capture_output=True, check=False)  # noqa: S603 - fixed words


def interpreter_of(python: str) -> str:
    """Finds a Python of this version on this machine; empty if there is none."""
    if python == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    words = (find_uv_bin(), "python", "find", "--no-project", "--no-python-downloads", python)
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    return "" if done.returncode else done.stdout.strip()
