"""Templates of waits: those whose value is a list of names."""

from __future__ import annotations

from stepwell.definition.compiled import Expression
from stepwell.engine.names import Names
from stepwell.errors import ExpressionError


def texts(expression: Expression | None, names: Names, what: str) -> tuple[str, ...]:
    """A list of names. Raises ExpressionError for anything else."""
    if expression is None:
        return ()
    found = expression.evaluate(names)
    if not isinstance(found, list) or not all(isinstance(one, str) and one for one in found):
        raise ExpressionError(f"`{what}` gave {found!r:.80}", hint="a list of names")
    return tuple(dict.fromkeys(found))
