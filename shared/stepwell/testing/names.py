"""The names that a workflow's steps and waits have, so that a misspelt one in a test or an option is refused.

A definition says all of its names. A durable function gives some only while it runs (`name=f"charge-{number}"`), so of
these a name counts if the code has it as a function or as text, or if an operation had it in the end.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from stepwell.definition.authoring import wait_for_event
from stepwell.definition.code.names import steps_of
from stepwell.definition.durable import parsed
from stepwell.definition.graph import Graph, Node
from stepwell.definition.text import closest
from stepwell.engine.children import DETACHED
from stepwell.errors import UserError
from stepwell.project import project_of
from stepwell.runtime.folder.reading import read_text
from stepwell.scan import modules


class Names:
    """The names that something may have: those of definitions, and those in the code of durable functions."""

    def __init__(self, kind: str, named: Iterable[str], suggested: Iterable[str], code: Path | None) -> None:
        """`kind`: of what, such as `step`. `code`: the folder of the functions; None if there are none."""
        self._kind, self._named, self._code = kind, frozenset(named), code
        self._suggested = dict.fromkeys((*suggested, *sorted(self._named), *(_functions(code) if code else ())))

    def refuse(self, names: Iterable[str], said: str) -> None:
        """Raises UserError for a name that nothing can have. `said`: where the user wrote it, such as `--fail`."""
        if self._code is None:  # else a function may give the name while it runs
            self.refuse_unmet(names, (), said)

    def refuse_unmet(self, names: Iterable[str], met: Collection[str], said: str) -> None:
        """Raises UserError for a name that nothing has. `met`: the names of what ran."""
        for name in names:
            if name not in met and name not in self._named and not (self._code and name in _in_code(self._code)):
                hint = closest(name, self._suggested) or f"there is no {self._kind} to name"
                raise UserError(f"{said}: no {self._kind} is called {name!r}", code="no_such_name", hint=hint)


def step_names(folder: Path, graphs: Iterable[Graph]) -> Names:
    """The names for a stand-in: a node, its compensation, a function, the whole `run`, or a workflow that is run."""
    known = tuple(graphs)
    nodes = [name for name, node in _nodes(known) if node.step is not None or _has_nothing_else(node)]
    undone = [f"{name}.compensate" for name, node in _nodes(known) if node.compensate is not None]
    runs = [step.run for graph in known for step in steps_of(graph)]
    functions = [run.rpartition(".")[2] for run in runs]
    named = (*nodes, *undone, *runs, *functions, *_called(known))
    return Names("step", named, (*nodes, *functions), _code_of(folder, known))


def event_names(folder: Path, graphs: Iterable[Graph]) -> Names:
    """The names of events: what the definitions wait for, are triggered by, and have settings of.

    A durable function, and a step that asks for its wait, may wait for any.
    """
    known = tuple(graphs)
    waits = [wait for _, node in _nodes(known) if node.wait is not None for wait in (node.wait, *node.wait.arms)]
    named = {wait.event for wait in waits if wait.event is not None}
    for graph in known:
        named |= {*graph.events, *(one.event for one in graph.event_triggers)}
    is_open = any(map(_asks_for_events, _trees(folder)))
    return Names("event", named, (), folder if is_open else _code_of(folder, known))


def _called(graphs: Iterable[Graph]) -> Iterator[str]:
    """The workflows whose runs nodes of the definitions start."""
    for graph in graphs:
        calls = (node.call for node in graph.nodes.values() if node.call is not None)
        yield from (child.workflow for call in calls for child in call.children)
        yield from (step.run.removeprefix(DETACHED) for step in steps_of(graph) if step.run.startswith(DETACHED))


def _has_nothing_else(node: Node) -> bool:
    return node.wait is None and node.call is None and node.durable is None


def _nodes(graphs: Iterable[Graph]) -> Iterator[tuple[str, Node]]:
    return ((name, node) for graph in graphs for name, node in graph.nodes.items())


def _code_of(folder: Path, graphs: Iterable[Graph]) -> Path | None:
    return folder if any(graph.replays for graph in graphs) else None


def _trees(folder: Path) -> Iterator[ast.Module]:
    """The parsed modules of the folder and of its project's packages. `check` tells of those that cannot be parsed."""
    sources = project_of(folder).sources if folder.is_dir() else ()
    for file in dict.fromkeys(file for source in sources if source.is_dir() for file in modules(source)):
        text, problems = read_text(file)
        if text is None or problems:
            continue
        try:
            yield parsed(text)
        except SyntaxError:
            continue  # whoever imports it is told


def _functions(folder: Path) -> Iterator[str]:
    for tree in _trees(folder):
        yield from _defined(tree)


@lru_cache(maxsize=64)
def _defined(tree: ast.Module) -> tuple[str, ...]:
    return tuple(one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))


@lru_cache(maxsize=64)
def _asks_for_events(tree: ast.Module) -> bool:
    """Tells whether the code has the name `wait_for_event`."""
    for one in ast.walk(tree):
        match one:
            case ast.alias(name=name) | ast.Name(id=name) | ast.Attribute(attr=name):
                if name == wait_for_event.__name__:
                    return True
    return False


def _in_code(folder: Path) -> Iterator[str]:
    """The functions of the code, what it imports or reads off other modules, and its texts."""
    for tree in _trees(folder):
        for one in ast.walk(tree):
            match one:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    yield name
                case ast.alias(name=name, asname=other):
                    yield other or name.rpartition(".")[2]
                case ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                    yield name
