"""Values that are written out in code."""

from __future__ import annotations

import ast
from typing import Any, Final


class _NoLiteral:
    """The type of NO_LITERAL, which equals nothing else."""


NO_LITERAL: Final[Any] = _NoLiteral()


def literal(node: ast.expr) -> Any:
    """Returns the value that is written there; NO_LITERAL for what only a run knows."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return NO_LITERAL
