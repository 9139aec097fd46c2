"""What a deployed function reads instead of a workflow folder: the document that `pack` has made of it.

Reading YAML and checking shapes takes a cold start 200 ms; compiling what was checked before takes 50.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.definition.clauses.throttles import limits_of
from stepwell.definition.compiler import compile_document
from stepwell.definition.graph import Graph, Json, Limit
from stepwell.prices import Prices
from stepwell.runtime.folder.pricing import prices_of


def unpack(packed: Mapping[str, Json]) -> tuple[Graph, ...]:
    """Returns the graphs of a packed folder."""
    return tuple(compile_document(document, trusted=True) for document in packed["definitions"])


def unpack_limits(packed: Mapping[str, Json]) -> Mapping[str, Limit]:
    """Returns the named limits of a packed folder."""
    return limits_of(packed.get("limits", {}))


def unpack_prices(packed: Mapping[str, Json]) -> Prices:
    """Returns the prices of a packed folder: those of its table, or the built-in ones."""
    return prices_of(packed.get("prices", {}))
