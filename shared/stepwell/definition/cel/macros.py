"""Expands CEL's macros to the loops that they stand for, as the library does."""

from __future__ import annotations

from stepwell.definition.cel.ast import Call, Const, Fold, Ident, ListOf, NotCel, Select, Tree

RESULT = "@result"  # a loop's accumulator, whose name nobody can write
_LOOPS = {("all", 2), ("exists", 2), ("exists_one", 2), ("filter", 2), ("map", 2), ("map", 3)}
_EXTREMES = {"math.greatest": "math.@max", "math.least": "math.@min"}


def expanded(name: str, target: Tree | None, args: tuple[Tree, ...]) -> Tree:
    """Returns the tree of a call, or of the macro that it is."""
    if target is None and name == "has" and len(args) == 1:
        return _has(args[0])
    if target is not None and (name, len(args)) in _LOOPS:
        return _loop(name, target, args)
    if name in _EXTREMES and target is None:
        return _extreme(name, args)
    return Call(name, target, args)


def _has(arg: Tree) -> Tree:
    if not isinstance(arg, Select) or arg.test_only:
        raise NotCel("has() argument must be a field selection")
    return Select(arg.operand, arg.field, test_only=True)


def _loop(name: str, target: Tree, args: tuple[Tree, ...]) -> Tree:
    if not isinstance(args[0], Ident) or args[0].name == "__result__":
        raise NotCel(f"{name}() variable name must be a simple identifier")
    variable, body, result = args[0].name, args[1], Ident(RESULT)
    match name:
        case "all":
            condition, step = Call("@not_strictly_false", None, (result,)), Call("_&&_", None, (result, body))
            return Fold(variable, target, RESULT, Const(True), condition, step, result)
        case "exists":
            condition = Call("@not_strictly_false", None, (Call("!_", None, (result,)),))
            return Fold(variable, target, RESULT, Const(False), condition, Call("_||_", None, (result, body)), result)
        case "exists_one":
            more = Call("_+_", None, (result, Const(1)))
            step = Call("_?_:_", None, (body, more, result))
            return Fold(variable, target, RESULT, Const(0), Const(True), step, Call("_==_", None, (result, Const(1))))
    item = Ident(variable) if name == "filter" else args[-1]
    step = Call("_+_", None, (result, ListOf((item,))))
    if name == "filter" or len(args) == 3:
        step = Call("_?_:_", None, (body, step, result))
    return Fold(variable, target, RESULT, ListOf(()), Const(True), step, result)


def _extreme(name: str, args: tuple[Tree, ...]) -> Tree:
    if not args:
        raise NotCel(f"{name}() requires at least one argument.")
    return Call(_EXTREMES[name], None, args if len(args) < 3 else (ListOf(args),))
