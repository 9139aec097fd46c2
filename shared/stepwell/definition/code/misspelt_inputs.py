"""Names in a step's `input:` that its function does not take, and that are nearly one that it does: `amuont: 3`.

def take(sku: str, amount: int = 1)      a name that no parameter has is left out, and `amount` is 1
def take(order: Order)                   the fields of Order, which gets the whole input
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

from stepwell.definition.code.full_names import FullNames
from stepwell.definition.code.modules import Code, Function
from stepwell.definition.code.schemas import Schemas
from stepwell.definition.code.signatures import CONTEXT
from stepwell.definition.graph import Json
from stepwell.definition.text import did_you_mean

_CUTOFF = 0.8  # as near as one letter in six


def misspelt_inputs(function: Function, given: Mapping[str, Json], code: Code) -> Iterator[tuple[str, str, str]]:
    """Yields the names that are most likely misspelt, each with what does not have it, and a hint."""
    known, owner = _taken(function, given, code)
    there = {_plain(name) for name in known}
    free = [name for name in known if _plain(name) not in {_plain(one) for one in given}]
    for name in given:
        if _plain(name) not in there and (hint := did_you_mean(name, free, _CUTOFF)):
            yield name, owner, hint


def _taken(function: Function, given: Collection[str], code: Code) -> tuple[Collection[str], str]:
    """Returns the names that the function takes, and what has them; none if it may take any."""
    args = function.node.args
    parameters = [one for one in (*args.posonlyargs, *args.args, *args.kwonlyargs) if one.arg != CONTEXT]
    others = [one for one in function.node.decorator_list if not _is_step(one)]  # they may change the parameters
    if args.kwarg is not None or others:
        return (), ""
    if len(parameters) == 1 and parameters[0].arg not in given:
        return _fields(function, parameters[0].annotation, code)
    return [one.arg for one in parameters], function.name


def _fields(function: Function, hint: ast.expr | None, code: Code) -> tuple[Collection[str], str]:
    """Returns the fields of the class of the folder that a sole parameter is of."""
    schemas = Schemas(FullNames(code))
    whole = schemas.with_definitions(schemas.of(function.module, hint))
    name = str(whole.get("$ref", "")).rpartition("/")[2]
    return (whole["$defs"][name].get("properties", {}), name) if name else ((), "")


def _is_step(mark: ast.expr) -> bool:
    called = mark.func if isinstance(mark, ast.Call) else mark
    return ast.unparse(called).rpartition(".")[2] == "step"


def _plain(name: str) -> str:
    """Returns a name as a model may know it by an alias: `orderId` and `order_id` are one."""
    return name.replace("_", "").replace("-", "").lower()
