"""What a durable function takes, read from its code without importing it: a JSON Schema, its queries and its updates.

async def checkout(ctx, order: Order): …          the schema of Order: a sole model is given the whole input
async def checkout(ctx, sku: str, count=1): …     {sku, count}

The schema is for forms and examples. A start is not checked against it: the function's own types take the input. But
a start without a parameter that has no default is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from stepwell.definition.code.full_names import FullNames
from stepwell.definition.code.modules import Code, Function
from stepwell.definition.code.schemas import Schemas, default_of
from stepwell.definition.code.signatures import CONTEXT
from stepwell.definition.durable import NAMES, VALUE, WHOLE, FunctionFacts
from stepwell.definition.graph import Json

_MARK = "workflow"


def facts_of(code: Code) -> Mapping[str, FunctionFacts]:
    """Returns the facts of each durable function, by its path: `python:module.name`."""
    names = FullNames(code)
    return {f"python:{one.module.name}.{one.name}": _facts(names, one) for one in code.functions() if one.mark == _MARK}


def _facts(names: FullNames, function: Function) -> FunctionFacts:
    schema, takes = _input_schema(names, function)
    needs = [arg.arg for arg, value in _given_by_callers(function) if value is None]
    if len(function.node.decorator_list) > 1:  # another one may change the parameters
        needs, takes = [], WHOLE
    queries, updates = _registered(function, "query"), _registered(function, "update")
    return FunctionFacts(input_schema=schema, needs=needs, takes=takes, queries=queries, updates=updates)


def _input_schema(names: FullNames, function: Function) -> tuple[dict[str, Json] | None, str]:
    """Returns the schema, None if the code does not tell, and how an input gives the parameters (see FunctionFacts)."""
    parameters = _given_by_callers(function)
    takes_rest = function.node.args.kwarg is not None
    schemas, is_sole = Schemas(names), len(parameters) == 1 and not takes_rest
    made = {arg.arg: schemas.of(function.module, arg.annotation) for arg, _ in parameters}
    if is_sole:
        sole = parameters[0][0]
        if sole.annotation is not None and not made[sole.arg]:
            return None, WHOLE  # of a library: it may be a model, which is given the whole input
        if schemas.is_whole(made[sole.arg]):
            return schemas.with_definitions(made[sole.arg]), WHOLE
    properties = {arg.arg: made[arg.arg] | ({} if value is None else default_of(value)) for arg, value in parameters}
    schema: dict[str, Json] = {"type": "object", "properties": properties}
    if required := [arg.arg for arg, value in parameters if value is None]:
        schema["required"] = required
    whole = schemas.with_definitions(schema | ({"additionalProperties": True} if takes_rest else {}))
    return whole, VALUE if is_sole else NAMES


def _given_by_callers(function: Function) -> list[tuple[ast.arg, ast.expr | None]]:
    return [(arg, value) for arg, value in _parameters(function.node.args) if arg.arg != CONTEXT]


def _parameters(given: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Yields each parameter with its default; None if it is required."""
    plain = [*given.posonlyargs, *given.args]
    yield from zip(plain, [*[None] * (len(plain) - len(given.defaults)), *given.defaults], strict=True)
    yield from zip(given.kwonlyargs, given.kw_defaults, strict=True)


def _registered(function: Function, kind: str) -> list[str]:
    """The names that the function's own code gives to `ctx.query` or `ctx.update`."""
    found: dict[str, None] = {}
    for node in ast.walk(function.node):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="ctx"), attr=attr), args=[ast.Constant(value=str(name)), *_]
            ) if attr == kind:
                found[name] = None
    return list(found)
