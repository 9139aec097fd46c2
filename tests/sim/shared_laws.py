"""The law of transactions: a table is what the records of its runs' logs make it, each of them once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from stepwell.engine.durable.journal import TRANSACT
from stepwell.engine.records import Record
from stepwell.memory.items import decode_item
from tests.sim.world import World


def laws_of_tables(world: World) -> Iterator[str]:
    """Of all runs of a world, which share one item."""
    made = Counter(record.node for record in _transactions(world) if record.error is None)
    items = [decode_item(item) for item in world.memory.items("till")]
    found = items[0] if items else {"left": 0, "times": 0}
    expected = {"left": made["put"] - made["take"], "times": made.total()}
    if {name: int(found[name]) for name in expected} != expected:
        yield f"transactions: the table has {found}, and the logs have {dict(made)}"


def _transactions(world: World) -> Iterator[Record]:
    for view in world.runs():
        for log in view.logs.look().records.values():
            yield from (record for record in log if TRANSACT in record.rules)
