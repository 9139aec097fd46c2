"""Records side by side in JSON: what all share is there once, and what each has is in columns.

{"at_ms":1700000000000,"same":{"kind":"step",…},"each":{"at_ms":[3,5],"output":[1,4]},"rest":[{},{"error":{…}}]}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from stepwell.definition.graph import Json
from stepwell.engine.stored.jsons import fast_encoder

encode = fast_encoder(
    json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False)
)
Read: TypeAlias = Callable[[dict[str, Json]], dict[str, Any]]

_PLAIN = frozenset({str, int, bool, type(None)})  # of equal values of one of these types, the JSON is the same
_TIMES = ("at_ms", "started_ms")  # kept as what they are later than the first of all


def columns_of(rows: Sequence[dict[str, Json]]) -> dict[str, Json]:
    """Puts records side by side. It changes the rows; empty for none."""
    if not rows:
        return {}
    base = min(row["at_ms"] for row in rows)
    for row in rows:
        row |= {name: row[name] - base for name in _TIMES if name in row}
    first, *others = rows
    names = [name for name in first if all(name in row for row in others)]
    columns = {name: [row[name] for row in rows] for name in names}
    same = {name: first[name] for name in names if _are_same(columns[name])}
    columns = {name: column for name, column in columns.items() if name not in same}
    rest = [{name: part for name, part in row.items() if name not in names} for row in rows]
    return {"at_ms": base, "same": same, "each": columns} | ({"rest": rest} if any(rest) else {})


def rows_of(raw: Mapping[str, Json], count: int, read: Read) -> Iterator[dict[str, Any]]:
    """Yields the fields of each of so many records. `read`: reads some fields, and once for all what they share."""
    if not count:
        return
    same, columns, base = read(raw["same"]), raw["each"], raw["at_ms"]
    for place in range(count):
        own = {name: column[place] for name, column in columns.items()}
        row = {**same, **read(own | raw["rest"][place] if "rest" in raw else own)}
        yield row | {name: row[name] + base for name in _TIMES if name in row}


def part_of(raw: Mapping[str, Json], place: int, name: str) -> Json:
    """Returns a field of one of the records, which is no time."""
    if name in raw["same"]:
        return raw["same"][name]
    return raw["each"][name][place] if name in raw["each"] else raw["rest"][place].get(name)


def _are_same(values: Sequence[Json]) -> bool:
    """Whether all are the same JSON: 1 is neither true nor 1.0."""
    first = values[0]
    if any(type(one) is not type(first) or one != first for one in values):
        return False
    return type(first) in _PLAIN or len({encode({"": one}) for one in values}) == 1
