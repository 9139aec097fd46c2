"""Compiles the packages' Python: Lambda cannot write to its copy, so every cold start would do it again.

Bytecode belongs to one version of Python, so one of that version must be on this machine. It is the same for every
build of the same files: it has no times, and the paths that it will have on Lambda.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from uv import find_uv_bin

TASK = "/var/task"  # where Lambda unpacks a package


# Of ours: folders whose docstrings nothing reads at run time. Those of models and handlers are the API's description.
UNDOCUMENTED = ("api/step_functions", "aws", "definition/asl", "engine", "memory", "runtime", "simulation")


def compile_tree(tree: Path, interpreter: str, undocumented: Iterable[Path] = (), own: Iterable[Path] = ()) -> None:
    """Compiles every module below a folder. A module that cannot be compiled fails when it is imported.

    `undocumented`: folders in it whose bytecode has no docstrings, which make a tenth of it.
    `own`: the user's folders. In their tracebacks a line of carets marks the expression, whose columns are a fifth of
    the bytecode.
    """
    own, undocumented = list(own), list(undocumented)
    others = "|".join(re.escape(f"{folder}/") for folder in (*own, *undocumented)) or "$^"
    _compile([tree], tree, interpreter, "-x", others, flags=("-X", "no_debug_ranges"))
    _compile(own, tree, interpreter)
    _compile(undocumented, tree, interpreter, "-o", "2", flags=("-X", "no_debug_ranges"))
    for folder in undocumented:
        for made in list(folder.rglob("*.opt-2.pyc")):
            made.replace(made.with_name(made.name.replace(".opt-2.pyc", ".pyc")))


def link_compiled(tree: Path, into: Path) -> None:
    """Links the bytecode of a tree into one whose modules are all in that tree: compiled there, it would be equal."""
    for made in tree.rglob("*.pyc"):
        place = into / made.relative_to(tree)
        name = place.stem.rpartition(".")[0]  # without the version of Python
        if (place.parents[1] / f"{name}.py").is_file():
            place.parent.mkdir(exist_ok=True)
            os.link(made, place)


def _compile(folders: Iterable[Path], tree: Path, interpreter: str, *options: str, flags: tuple[str, ...] = ()) -> None:
    words = ("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "-s", str(tree), "-p", TASK, *options)
    if places := [str(folder) for folder in folders]:  # without any, it would compile all that Python has
        subprocess.run([interpreter, *flags, *words, *places], capture_output=True, check=False)  # noqa: S603 - fixed words


def interpreter_of(python: str) -> str:
    """Finds a Python of this version on this machine; empty if there is none."""
    if python == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    words = (find_uv_bin(), "python", "find", "--no-project", "--no-python-downloads", python)
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    return "" if done.returncode else done.stdout.strip()
