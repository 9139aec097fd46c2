"""Full names of what expressions of a folder's code mean, followed through aliases, and from module to module.

helpers.clock()  in  shop.py          helpers.clock   is  time.time, by  `clock = time.time`  in  helpers.py
till.stamp()     with  till = Till()  Till().stamp    is  shop.Till().stamp: the brackets tell an object from its class
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping

from stepwell.definition.code.modules import Code, Function, Module, values_of

MOST_HOPS = 12  # from alias to alias: those that go round have no name
_WRAPPERS = frozenset({"staticmethod", "classmethod"})
Variables = Mapping[str, ast.expr | None]


class FullNames:
    """What names mean in the modules of a folder."""

    def __init__(self, code: Code) -> None:
        self._modules = code.modules

    def of(self, module: Module, node: ast.expr, variables: Variables | None = None, hops: int = MOST_HOPS) -> str:
        """The full name of what this expression of the module is; empty for what is not known.

        `variables`: those of the function that it stands in, each with the one value that it has, if that is known.
        """
        match node:
            case ast.Name(name) if variables and name in variables:
                value, others = variables[name], {key: one for key, one in variables.items() if key != name}
                return self.of(module, value, others, hops) if value is not None else ""
            case ast.Name(name):
                return self._of_name(module, name, hops)
            case ast.Attribute(value=base, attr=attr):
                return self._of_part(self.of(module, base, variables, hops), attr, hops)
            case ast.Call(func=ast.Name("getattr"), args=[base, ast.Constant(str(attr)), *_]):
                return self._of_part(self.of(module, base, variables, hops), attr, hops)
            case ast.Call(func=made, args=args):
                name = self.of(module, made, variables, hops)
                return _imported(name, args) or (f"{name}()" if name else "")
            case ast.BinOp(left=left, op=ast.Div()):  # a path below another
                return self.of(module, left, variables, hops)
            case _:
                return ""

    def function(self, name: str) -> Function | None:
        """The folder's function or method of this full name."""
        home, parts = self._split(name)
        match parts if home is not None else ():
            case [one]:
                return home.functions.get(one) if home is not None else None
            case [owner, one]:
                return next(self._methods(f"{home.name}.{owner}", one), None) if home is not None else None
            case _:
                return None

    def value(self, module: Module, node: ast.expr) -> tuple[Module, ast.expr] | None:
        """What the top level of a module of the folder gives to the name that this expression is, and that module."""
        match node:
            case ast.Name(name):
                full = f"{module.name}.{name}" if name in module.values else module.imports.get(name, "")
            case ast.Attribute(value=base, attr=attr):
                full = f"{self.of(module, base)}.{attr}"
            case _:
                return None
        home, parts = self._split(full)
        for _ in range(MOST_HOPS):
            if home is None or len(parts) != 1 or parts[0] in home.values or parts[0] not in home.imports:
                break
            home, parts = self._split(home.imports[parts[0]])
        made = home.values.get(parts[0]) if home is not None and len(parts) == 1 else None
        return (home, made) if home is not None and made is not None else None

    def owner(self, name: str) -> tuple[Module, ast.ClassDef] | None:
        """The folder's class of this full name, and its module."""
        home, parts = self._split(name)
        made = home.classes.get(parts[0]) if home is not None and len(parts) == 1 else None
        return (home, made) if home is not None and made is not None else None

    def is_own(self, name: str) -> bool:
        """Whether the folder has what this is: its `requests.get` is not that of a library."""
        home, parts = self._split(name)
        return home is not None and bool(parts)

    def lacks(self, name: str) -> tuple[Module, str] | None:
        """The folder's module that should have this, and the name that it lacks."""
        home, parts = self._split(name)
        return (home, parts[0]) if home is not None and len(parts) == 1 and not home.has(parts[0]) else None

    def _of_name(self, module: Module, name: str, hops: int) -> str:
        further = self._further(module, [name], hops)
        if further is not None:
            return self._followed(further, hops - 1)
        if name in module.functions or name in module.classes:
            return f"{module.name}.{name}"
        return name if name not in module.names and hasattr(builtins, name) else ""

    def _of_part(self, base: str, attr: str, hops: int) -> str:
        return self._followed(f"{base}.{attr}", hops) if base else ""

    def _followed(self, name: str, hops: int) -> str:
        while hops > 0:
            home, parts = self._split(name)
            further = self._further(home, parts, hops) if home is not None and parts else None
            if further is None:
                return name
            name, hops = further, hops - 1
        return ""

    def _further(self, home: Module, parts: list[str], hops: int) -> str | None:
        """What the module means by its name, if it has it from elsewhere; None if it is its own."""
        name, *more = parts
        meant: str | None = None
        if name in home.functions or hops <= 0:
            return None
        if (owner := name.removesuffix("()")) in home.classes:
            given = dict(values_of(home.classes[owner].body)).get(more[0]) if more else None
            meant, more = (self.of(home, _unwrapped(given), hops=hops - 1) if given is not None else None), more[1:]
        elif name in home.imports:
            meant = home.imports[name]
        elif name in home.values:
            meant = self.of(home, home.values[name], hops=hops - 1)
        else:
            meant = self._of_star(home, name)
        return ".".join((meant, *more)) if meant else None

    def _of_star(self, home: Module, name: str) -> str | None:
        """The name by one of the module's `import *`: that of the folder's module which has it, else the first's."""
        may = [star for star in home.stars if self._may_have(home, star, name)]
        has = (star for star in may if (module := self._modules.get(star)) is not None and name in module.names)
        return next((f"{star}.{name}" for star in (*has, *may)), None)

    def _may_have(self, home: Module, star: str, name: str) -> bool:
        module = self._modules.get(star)
        is_unknown = name not in home.names and not hasattr(builtins, name)
        return module.has(name) if module is not None else is_unknown

    def _methods(self, owner: str, name: str, hops: int = MOST_HOPS) -> Iterator[Function]:
        """The method of a class, or else those of the classes that it is made of."""
        found = self.owner(owner.removesuffix("()"))
        if found is None or hops <= 0:
            return
        home, made = found
        if own := home.methods.get(f"{made.name}.{name}"):
            yield own
        for base in made.bases:
            yield from self._methods(self.of(home, base), name, hops - 1)

    def _split(self, name: str) -> tuple[Module | None, list[str]]:
        """The module of the folder that a full name begins with, and the parts of the rest."""
        parts = name.split(".")
        for count in range(len(parts), 0, -1):
            if (module := self._modules.get(".".join(parts[:count]))) is not None:
                return module, parts[count:]
        return None, parts


def _unwrapped(value: ast.expr) -> ast.expr:
    match value:
        case ast.Call(func=ast.Name(name), args=[inner]) if name in _WRAPPERS:
            return inner
        case _:
            return value


def _imported(name: str, args: list[ast.expr]) -> str:
    """The module that `__import__("time")` gives."""
    match args:
        case [ast.Constant(str(module)), *_] if name in {"__import__", "importlib.import_module"}:
            return module
        case _:
            return ""
