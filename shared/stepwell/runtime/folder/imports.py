"""Checks that the modules that steps and workflows import exist, without importing any."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from stepwell.definition.code.modules import Code, Module, imported_from, package_of, problem_at
from stepwell.definition.text import closest
from stepwell.errors import Problem
from stepwell.runtime.folder.circles import circular_imports
from stepwell.runtime.folder.own_names import wrong_own_names


def check_imports(code: Code, texts: Mapping[str, tuple[str, str]], targets: Collection[str]) -> list[Problem]:
    """Returns the failing imports of modules with workflows or steps, and of the modules that these import.

    `texts`: the file and the source of each module, by name. `targets`: the modules that definitions name.
    """
    marked = {function.module.name for function in code.functions() if function.mark}
    todo, seen = sorted((marked | {*targets}) & texts.keys()), set[str]()
    found: list[Problem] = []
    while todo:
        if (name := todo.pop()) in seen or name not in code.modules:
            continue
        seen.add(name)
        file, text = texts[name]
        tree = ast.parse(text)
        needed = list(_imports(tree, code.modules[name]))
        found += wrong_own_names(tree, needed, file)
        for imported, node in needed:
            todo += [one for one in (imported, imported.rpartition(".")[0]) if one in texts]
            if isinstance(node, ast.ImportFrom) and _is_beyond(node, code.modules[name]):
                several = [one for one, _ in texts.values() if Path(one).resolve() == Path(file).resolve()]
                found.append(_relative(imported, file, node, is_certain=len(several) == 1))
            elif not _is_there(imported, texts):
                found.append(_missing(imported, file, node))
            elif isinstance(node, ast.ImportFrom) and (module := code.modules.get(imported)):
                names = (one.name for one in node.names if one.name != "*" and not _has(texts, imported, one.name))
                found += [_no_such_name(module, one, file, node) for one in names if not module.has(one)]
    trees = {name: ast.parse(texts[name][1]) for name in code.modules.keys() & texts.keys()}
    found += circular_imports(code, trees, sorted((marked | {*targets}) & trees.keys()))
    found += _own_names_of(sorted(code.modules.keys() & texts.keys() - seen), texts)
    return sorted(found, key=lambda problem: (problem.file, problem.line))


def _own_names_of(modules: Iterable[str], texts: Mapping[str, tuple[str, str]]) -> Iterator[Problem]:
    """What modules without a step or a workflow want of Stepwell: `@Step` marks none."""
    for file, text in (texts[name] for name in modules):
        tree = ast.parse(text)
        yield from wrong_own_names(tree, _imports(tree), file)


def _has(texts: Collection[str], package: str, name: str) -> bool:
    """Tells whether a package has this module, or a folder of modules of this name."""
    return any(one == f"{package}.{name}" or one.startswith(f"{package}.{name}.") for one in texts)


def _imports(tree: ast.AST, module: Module | None = None) -> Iterator[tuple[str, ast.stmt]]:
    """Yields the imports that must succeed: not those in a `try`, nor those for types alone.

    `module`: the module of the tree. Without it, relative imports are left out.
    """
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, ast.Try) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, node
        elif isinstance(node, ast.ImportFrom):
            if module is not None and module.name != "__init__":
                yield imported_from(module, node), node
        else:
            left += reversed([*ast.iter_child_nodes(node)])  # in their order


def _is_there(module: str, own: Collection[str]) -> bool:
    """Tells whether a module is the project's own, or in an installed package."""
    head = module.partition(".")[0]
    return any(name == head or name.startswith(f"{head}.") for name in own) or find_spec(head) is not None


def _is_beyond(node: ast.ImportFrom, module: Module) -> bool:
    """Tells whether a relative import leaves the packages that its module is in."""
    return node.level > len(package_of(module))


def _relative(imported: str, file: str, node: ast.ImportFrom, *, is_certain: bool) -> Problem:
    """`is_certain`: no package has the module under another name, by which it may be imported too."""
    names = ", ".join(one.name for one in node.names)
    written = f"{'.' * node.level}{node.module or ''}"
    message = f"`from {written} import {names}` fails: this module is imported by its name alone, without a package"
    hint = f"from {imported} import {names}" if imported else f"import {names}"
    return problem_at(node, file, "unknown_import", message, hint, "error" if is_certain else "warning")


def _no_such_name(module: Module, name: str, file: str, node: ast.stmt) -> Problem:
    message = f"there is no {name!r} in {module.name}, so this import fails"
    hint = closest(name, sorted(module.names))
    return problem_at(node, file, "unknown_import", message, hint)


def _missing(module: str, file: str, node: ast.stmt) -> Problem:
    head = module.partition(".")[0]
    hint = f"pip install the package that has it, and add it to the project's dependencies; or is {head}.py elsewhere?"
    message = f"there is no module {head!r}, so this import fails"
    return problem_at(node, file, "unknown_import", message, hint)
