"""Which records may wait for those that follow, to be written with them: of workflows with `durability: batch`."""

from __future__ import annotations

from stepwell.definition.graph import Graph
from stepwell.engine.actions import Write
from stepwell.engine.effects import effects
from stepwell.engine.records import Goto, Kind
from stepwell.engine.token import Token

_GATHERED = frozenset({Kind.STEP, Kind.MOVED})


def waits(graph: Graph, token: Token, write: Write, after: Token) -> bool:
    """Tells whether a record may wait for those that follow it. `after`: the token with it.

    Nobody but the token's worker may rely on it: it leads to the next node, demands no effect, undoes nothing and
    failed nothing. A step that runs at most once, or that has a compensation, is committed at once.
    """
    record = write.record
    if record.kind not in _GATHERED or not isinstance(record.next, Goto) or record.error is not None:
        return False
    if write.also or write.consumes is not None or (token.last is not None and token.last.kind is Kind.BEGAN):
        return False
    node = graph.nodes.get(record.node)
    if node is None or node.compensate is not None or node.durable is not None:
        return False
    return not effects(graph, after)
