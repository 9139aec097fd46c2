"""What a compiler makes of a definition's texts: expressions, schemas and the like, as the engine calls them.

Standard library only, like the graph that holds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

Json: TypeAlias = Any  # None | bool | int | float | str | list[Json] | dict[str, Json]; finite numbers only


class Expression(Protocol):
    """A compiled CEL condition, or a template: any JSON value whose strings may hold `{{ … }}`."""

    @property
    def text(self) -> str:
        """The source, as the user wrote it."""

    @property
    def names(self) -> frozenset[str]:
        """The top-level names it reads: a subset of `input`, `state`, `steps`, `result`, `error`, …"""

    @property
    def reads_error(self) -> bool:
        """Whether it looks at `error` or `state._last_error`."""

    def evaluate(self, names: Mapping[str, Json]) -> Json:
        """The value under these names, plain JSON. Raises ExpressionError; never anything else."""


class Collection(Expression, Protocol):
    """An expression that can be asked for a list's items one by one."""

    def items(self, names: Mapping[str, Json]) -> Sequence[Json]:
        """The items of the list that `evaluate` gives, or of the object as key and value. Raises ExpressionError.

        Each is made when it is taken, and what is not taken is neither copied nor measured: to have a few of many.
        """


class Schema(Protocol):
    """A compiled JSON Schema."""

    def problems(self, value: Json) -> tuple[tuple[str, str], ...]:
        """(path, message) for each violation; empty when the value is valid."""


class Shaping(Protocol):
    """Turns what a node's step, wait or branches returned into the node's result."""

    def shape(self, names: Mapping[str, Json], brought: Json) -> tuple[Json, Mapping[str, Json]]:
        """The node's result, and what it writes into the scope. Raises ExpressionError alone.

        It writes something, except where it leaves as it is what has come to a node that does nothing itself.
        """


class Errors(Protocol):
    """A set of errors."""

    def take(self, failure_type: str, category: str, data: Json = None) -> bool:
        """Whether an error of this type and category, with this data, is one of them."""
