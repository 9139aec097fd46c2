"""Checks the retry policies that the code of a folder writes, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from stepwell.definition.categories import doubtful_category
from stepwell.definition.code.modules import Code, Module
from stepwell.errors import Problem

_ON = 5  # the place of `on` among the arguments of `Retry`


def doubtful_categories_of(code: Code) -> list[Problem]:
    """Returns a warning for each doubtful name in `Retry(on=…)` and `retry={"on": …}` of a folder's code."""
    found: dict[tuple[str, int, int], Problem] = {}
    for module in code.modules.values():
        places = [one.node for one in (*module.functions.values(), *module.methods.values())]
        for node in (*places, *module.values.values()):
            for name in _names(module, node):
                if problem := doubtful_category(str(name.value)):
                    place = (module.file, name.lineno, name.col_offset + 1)
                    found[place] = replace(problem, file=place[0], line=place[1], column=place[2])
    return list(found.values())


def _names(module: Module, node: ast.AST) -> Iterator[ast.Constant]:
    """The texts that the policies within this node have in `on`; what a variable holds is left to the run."""
    for call in ast.walk(node):
        if not isinstance(call, ast.Call):
            continue
        if _is_retry(module, call.func):
            yield from _texts(call.args[_ON:])
            yield from _texts([one.value for one in call.keywords if one.arg == "on"])
        for given in call.keywords:
            if given.arg == "retry" and isinstance(given.value, ast.Dict):
                keys = zip(given.value.keys, given.value.values, strict=True)
                yield from _texts([value for key, value in keys if isinstance(key, ast.Constant) and key.value == "on"])


def _is_retry(module: Module, called: ast.expr) -> bool:
    match called:
        case ast.Name(name):
            return module.imports.get(name) == "stepwell.Retry"
        case ast.Attribute(value=ast.Name(name), attr="Retry"):
            return module.imports.get(name) == "stepwell"
    return False


def _texts(given: list[ast.expr]) -> Iterator[ast.Constant]:
    for collection in given:
        if isinstance(collection, ast.Tuple | ast.List | ast.Set):
            yield from (one for one in collection.elts if isinstance(one, ast.Constant) and isinstance(one.value, str))
