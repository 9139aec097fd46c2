"""A workflow folder: its definition files read and compiled. All file I/O of definitions is here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stepwell.definition.compiler import compile_definition
from stepwell.definition.graph import Graph
from stepwell.errors import NotFound, Problem
from stepwell.limits import DEFINITION_BYTES

_ENDINGS = frozenset({".yaml", ".yml", ".json"})
_OTHERS = frozenset({"webhooks.yaml", "webhooks.yml", "package.json", "package-lock.json", "cdk.json", "tsconfig.json"})


@dataclass(frozen=True, slots=True)
class Folder:
    """What a folder holds: the graphs without errors, and everything there is to say about the files."""

    graphs: tuple[Graph, ...]
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")


def load_folder(path: Path) -> Folder:
    """Compiles the definitions of the folder's top level. Raises NotFound when there is no such folder."""
    if not path.is_dir():
        raise NotFound(f"there is no folder {path}", code="unknown_folder",
                       hint="name the folder with your definitions, or make one: stepwell init DIR")  # fmt: skip
    graphs: dict[str, Graph] = {}
    files: dict[str, Path] = {}
    problems: list[Problem] = []
    for file in definition_files(path):
        graph, found = _load(file)
        problems.extend(found)
        if graph is None:
            continue
        if graph.name in graphs:
            problems.append(_twice(graph.name, file, files[graph.name]))
            continue
        graphs[graph.name], files[graph.name] = graph, file
    return Folder(tuple(graphs.values()), tuple(problems))


def check_folder(path: Path) -> tuple[Problem, ...]:
    """Everything that is wrong, or worth a warning, in the folder's definitions. Raises NotFound."""
    return load_folder(path).problems


def definition_files(path: Path) -> tuple[Path, ...]:
    """The files that are read as definitions, by name."""
    return tuple(file for file in sorted(path.iterdir()) if is_definition(file) and file.is_file())


def is_definition(file: Path) -> bool:
    """By its name: YAML and JSON, but nothing hidden and nothing that belongs to another tool."""
    return file.suffix in _ENDINGS and not file.name.startswith(".") and file.name not in _OTHERS


def _load(file: Path) -> tuple[Graph | None, tuple[Problem, ...]]:
    if file.name.endswith(".asl.json"):
        message = "Amazon States Language is not supported yet"
        return None, (Problem("unsupported_format", message, file=str(file)),)
    try:
        if file.stat().st_size > DEFINITION_BYTES:
            message = f"the file has more than {DEFINITION_BYTES} bytes"
            return None, (Problem("definition_too_large", message, file=str(file)),)
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        return None, (Problem("bad_encoding", f"the file is not UTF-8: {error}", file=str(file)),)
    except OSError as error:
        return None, (Problem("unreadable", f"the file cannot be read: {error}", file=str(file)),)
    compiled = compile_definition(text, str(file))
    return compiled.graph, compiled.problems


def _twice(name: str, file: Path, first: Path) -> Problem:
    message = f"workflow {name!r} is defined in {first.name} already; this file is left out"
    return Problem(
        "duplicate_workflow", message, path="/workflow", hint="give one of them another name", file=str(file)
    )
