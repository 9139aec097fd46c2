"""Finds the function of `python:module.function`, importing modules from the workflow folder and its project."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from stepwell.definition.authoring import StepDefaults
from stepwell.errors import UserError
from stepwell.runtime.steps.folders import FOLDERS
from stepwell.scan import module_name, modules

Function: TypeAlias = Callable[..., object]

_IMPORTING = threading.RLock()  # sys.path and sys.modules belong to the whole process
_current: list[Path] = []  # the folders from which plain names are imported
_entries: list[str] = []  # of these, on sys.path
_PRESENT: set[Path] = set()  # folders with modules in sys.modules
_ADDED: set[Path] = set()  # folders that are on sys.path only because they are current
_NO_DEFAULTS = StepDefaults()
_AWAY: dict[Path, dict[str, ModuleType]] = {}  # modules of other folders, by their names


class UnknownStepError(UserError):
    """A definition names a function that does not exist."""

    code = "unknown_step"


class Registry:
    """The functions of one workflow folder. Another folder in the same process does not see this one's modules."""

    def __init__(self, folder: Path, paths: Sequence[Path] = ()) -> None:
        """`paths`: the project's other folders that modules are imported from."""
        self._folder = folder.resolve()
        self._places = tuple(dict.fromkeys((self._folder, *(path.resolve() for path in paths))))
        FOLDERS.update(map(str, self._places))
        self._found: dict[str, Function] = {}
        self._modules: dict[str, ModuleType] = {}

    def function(self, run: str) -> Function:
        """Returns the function. Raises UnknownStepError; whatever importing the user's module raises passes through."""
        found = self.known(run)
        if found is None:
            found = self._found[run] = self._find(run)
        return found

    def known(self, run: str) -> Function | None:
        """Returns the function if it was found before, else None: runs no code."""
        _make_current(self._places)  # for imports that the function itself makes when it runs
        return self._found.get(run)

    def reload(self) -> None:
        """Forgets the folder's modules, so that the next call imports them anew."""
        with _IMPORTING:
            _make_current(self._places)
            self._found, self._modules = {}, {}
            for name, module, file in _below(self._places):
                if self._owns(module, file):
                    del sys.modules[name]
                    _forget_compiled(module)
            importlib.invalidate_caches()

    def _find(self, run: str) -> Function:
        scheme, _, path = run.partition(":")
        if scheme == "python" and path:
            module_name, _, name = path.rpartition(".")
            module = self._module(module_name, run)
            function: Function | None = getattr(module, name, None)
            if function is None or not callable(function):
                hint = f"{module_name} has {', '.join(_functions(module)) or 'no functions'}"
                raise UnknownStepError(f"{run}: there is no function {name!r} in {module_name}", hint=hint)
            return function
        return self._named(run)

    def _named(self, name: str) -> Function:
        """Returns the step with this name, from @step(name=…) or its own, in the folder. Raises UnknownStepError."""
        known: list[str] = []
        broken: list[Exception] = []
        for path in modules(self._folder):
            try:
                module = self._module(module_name(self._folder, path), name)
            except Exception as error:  # the step may be in another module
                broken.append(error)
                continue
            for function in _steps_of(module):
                own = defaults_of(function).name or function.__name__
                if own == name:
                    return function
                known.append(own)
        if broken:
            raise broken[0]
        hint = f"the folder has {', '.join(sorted(known)) or 'no function marked with @step'}"
        raise UnknownStepError(f"no step is named {name!r}", hint=hint)

    def _module(self, name: str, run: str) -> ModuleType:
        with _IMPORTING:
            module = self._modules.get(name)
            if module is None:
                module = self._modules[name] = self._imported(name, run)
            return module

    def _imported(self, name: str, run: str) -> ModuleType:
        there = sys.modules.get(name)
        if there is not None and self._owns(there, _file_of(there)):
            return there
        _put_others_away(self._places)
        shadowed = sys.modules.pop(name, None) if (self._folder / f"{name}.py").is_file() else None
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise
            hint = f"modules are imported from {', '.join(f'{place.name}/' for place in self._places)}"
            raise UnknownStepError(f"{run}: there is no module {name!r}", hint=hint) from error
        finally:
            if shadowed is not None:
                sys.modules[name] = shadowed  # Python's own calendar, say, which other code means

    def _owns(self, module: ModuleType, file: str) -> bool:
        return any(_is_of(module, file, place) for place in self._places)


def _forget_compiled(module: ModuleType) -> None:
    """Deletes compiled code: Python would reuse it for a source of the same size from the same second."""
    compiled = getattr(module, "__cached__", None)
    if compiled is not None:
        Path(compiled).unlink(missing_ok=True)


def _is_of(module: ModuleType, file: str, folder: Path) -> bool:
    """Tells whether the module with this file was imported from this folder, under its own name there."""
    if not file.startswith(str(folder)):
        return False
    place = folder.joinpath(*getattr(module, "__name__", "").split("."))
    return Path(file) in {place, place.parent / f"{place.name}.py", place / "__init__.py"}


def _below(folders: Iterable[Path]) -> list[tuple[str, ModuleType, str]]:
    """Returns the modules whose files are below these folders: of thousands, a prefix leaves a few to look at.

    With their files, since a package without one has none once the package around it is gone.
    """
    prefixes, found = tuple(map(str, folders)), []
    for name, module in list(sys.modules.items()):  # each time that a process of tests comes to another folder
        file = getattr(module, "__file__", None)
        if (_file_of(module) if file is None else file).startswith(prefixes):
            found.append((name, module, _file_of(module)))
    return found


def _file_of(module: ModuleType) -> str:
    file: str | None = getattr(module, "__file__", None)
    return next(iter(getattr(module, "__path__", ())), "") if file is None else file  # a package may have no file


def _make_current(places: Sequence[Path]) -> None:
    """Makes plain names mean modules of these folders; those of other folders are set aside until their turn."""
    if _current == [*places] and sys.path[0] == _entries[0]:
        return
    with _IMPORTING:
        _put_others_away(places)
        for place in reversed(places):
            entry = str(place)
            if entry not in sys.path:
                _ADDED.add(place)
            sys.path[:] = [entry, *(other for other in sys.path if other != entry)]
            for name, module in _AWAY.pop(place, {}).items():
                sys.modules.setdefault(name, module)
        _PRESENT.update(places)
        _current[:], _entries[:] = places, map(str, places)


def _put_others_away(places: Sequence[Path]) -> None:
    """Takes other folders' modules out of sys.modules.

    If the process itself has a folder on its path, only modules whose names these folders have too.
    """
    others = _PRESENT.difference(places)
    heads = {path.stem for place in places for path in place.glob("*")} if others else set()
    theirs = _below(others) if others else []
    for other in others:
        is_added = other in _ADDED
        away = {name: module for name, module, file in theirs
                if (is_added or name.partition(".")[0] in heads) and _is_of(module, file, other)}  # fmt: skip
        for name in away:
            sys.modules.pop(name, None)
        _AWAY.setdefault(other, {}).update(away)
        if is_added:
            sys.path[:] = [entry for entry in sys.path if entry != str(other)]
            _ADDED.discard(other)
            _PRESENT.discard(other)


def defaults_of(function: Function) -> StepDefaults:
    found = getattr(function, "__stepwell__", None)
    return found if isinstance(found, StepDefaults) else _NO_DEFAULTS


def _functions(module: ModuleType) -> list[str]:
    """Returns the names of the functions of this module, or of its package: not of those that it imports."""
    return sorted(name for name, value in vars(module).items() if not name.startswith("_") and _is_own(value, module))


def _is_own(value: object, module: ModuleType) -> bool:
    made_in = str(getattr(value, "__module__", ""))
    is_called = callable(value) and not isinstance(value, type)
    return is_called and f"{made_in}.".startswith(f"{module.__name__}.")


def _steps_of(module: ModuleType) -> Iterator[Function]:
    for value in vars(module).values():
        if isinstance(getattr(value, "__stepwell__", None), StepDefaults):
            yield value
