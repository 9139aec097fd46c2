"""Computes the horizontal position of each spot of a layered picture, given the layers and their order.

After Brandes and Köpf, "Fast and Simple Horizontal Coordinate Assignment": spots are stacked into columns four
times (from above and from below, preferring left and right), and each spot stands at the average of the middle two
answers. A line's points in the layers between stay in one column, so that a long line is straight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Protocol

_GAP = 26.0
_POINT_GAP = 14.0
_ROUNDS = 8


class Placed(Protocol):
    """A spot to place: its room on either side, and its neighbours with the pull of the line between."""

    @property
    def real(self) -> bool:
        """Whether it is a shape instead of a point of a line."""

    @property
    def reach_left(self) -> float:
        """The distance from its centre to its left edge."""

    @property
    def reach_right(self) -> float:
        """The distance from its centre to its right edge."""

    def near(self, above: bool) -> Sequence[tuple[Placed, float]]:
        """Returns its neighbours in the layer above or below."""


def place(rows: Sequence[Sequence[Placed]]) -> dict[int, float]:
    """Computes x of each spot, by `id`."""
    crossed = _crossed(rows)
    answers = [_stacked(rows, crossed, above=above, left=left) for above in (True, False) for left in (True, False)]
    return min(answers, key=lambda answer: _length(rows, answer))


def _length(rows: Sequence[Sequence[Placed]], x: Mapping[int, float]) -> float:
    """Sums the sideways length of the lines, weighted by their pull."""
    return sum(abs(x[id(spot)] - x[id(near)]) * pull for row in rows for spot in row for near, pull in spot.near(True))


def _crossed(rows: Sequence[Sequence[Placed]]) -> frozenset[tuple[int, int]]:
    """Returns the line segments, as (upper, lower), that cross a segment between two points and must give way."""
    found: set[tuple[int, int]] = set()
    for upper, lower in pairwise(rows):
        places = {id(spot): index for index, spot in enumerate(upper)}
        pieces = [
            (places[id(near)], index, near.real or spot.real, (id(near), id(spot)))
            for index, spot in enumerate(lower)
            for near, _ in spot.near(True)
            if id(near) in places
        ]
        inner = [piece for piece in pieces if not piece[2]]
        for top, bottom, real, ends in pieces:
            if real and any((top - other[0]) * (bottom - other[1]) < 0 for other in inner):
                found.add(ends)
    return frozenset(found)


def _stacked(
    rows: Sequence[Sequence[Placed]], crossed: frozenset[tuple[int, int]], *, above: bool, left: bool
) -> dict[int, float]:
    ordered = [row if left else row[::-1] for row in (rows if above else rows[::-1])]
    heads = _columns(ordered, crossed, above=above)
    x = _compacted(ordered, heads, left=left)
    columns: dict[int, list[tuple[Placed, Placed | None, Placed | None]]] = {}
    for row in rows:
        for spot, left_of, right_of in zip(row, [None, *row], [*row[1:], None], strict=False):
            columns.setdefault(heads[id(spot)], []).append((spot, left_of, right_of))
    for _ in range(_ROUNDS):
        for column in columns.values():
            _tighten(column, x)
    return x


def _tighten(column: Sequence[tuple[Placed, Placed | None, Placed | None]], x: dict[int, float]) -> None:
    """Moves a column to the weighted median of its connections, as far as its neighbours leave room."""
    here = {id(spot) for spot, _, _ in column}
    joined = sorted(
        (x[id(near)], pull)
        for spot, _, _ in column
        for near, pull in (*spot.near(True), *spot.near(False))
        if id(near) not in here
    )
    half = sum(pull for _, pull in joined) / 2
    wanted = x[id(column[0][0])]
    for wanted, pull in joined:  # noqa: B007 - ends at the item that passes half of the pull
        half -= pull
        if half <= 0:
            break
    lowest = max((x[id(other)] + _distance(other, spot) for spot, other, _ in column if other), default=-inf)
    highest = min((x[id(other)] - _distance(spot, other) for spot, _, other in column if other), default=inf)
    x.update(dict.fromkeys(here, max(lowest, min(highest, wanted))))


def _columns(
    rows: Sequence[Sequence[Placed]], crossed: frozenset[tuple[int, int]], *, above: bool
) -> Mapping[int, int]:
    """Finds the head of each spot's column: a spot joins its middle neighbour unless that crosses another line.

    It joins only along the strongest line of both, so the usual path of runs is straight.
    """
    heads = {id(spot): id(spot) for row in rows for spot in row}
    for before, row in pairwise(rows):
        places = {id(spot): index for index, spot in enumerate(before)}
        reached = -1
        for spot in row:
            best = sorted(
                (places[id(other)], id(other))
                for other, pull in spot.near(above)
                if id(other) in places and pull == _strongest(spot, above) == _strongest(other, not above)
            )
            for place_before, other_id in best[(len(best) - 1) // 2 : len(best) // 2 + 1]:
                ends = (other_id, id(spot)) if above else (id(spot), other_id)
                if reached < place_before and ends not in crossed:
                    heads[id(spot)] = heads[other_id]
                    reached = place_before
                    break
    return heads


def _strongest(spot: Placed, above: bool) -> float:
    return max((pull for _, pull in spot.near(above)), default=0.0)


def _compacted(rows: Sequence[Sequence[Placed]], heads: Mapping[int, int], *, left: bool) -> dict[int, float]:
    """Pushes the columns together as far as the widest pairs allow, then each back towards its successor."""
    before: dict[int, dict[int, float]] = {head: {} for head in heads.values()}
    after: dict[int, dict[int, float]] = {head: {} for head in heads.values()}
    for row in rows:
        for first, second in pairwise(row):
            gap = _distance(first, second) if left else _distance(second, first)
            one, two = heads[id(first)], heads[id(second)]
            before[two][one] = after[one][two] = max(gap, before[two].get(one, 0.0))
    order = _in_order(before, after)
    x: dict[int, float] = {}
    for head in order:
        x[head] = max((x[other] + gap for other, gap in before[head].items()), default=0.0)
    for head in reversed(order):
        if after[head] and before[head]:
            x[head] = max(x[head], min(x[other] - gap for other, gap in after[head].items()))
        elif after[head]:
            x[head] = min(x[other] - gap for other, gap in after[head].items())
    return {spot: x[head] if left else -x[head] for spot, head in heads.items()}


def _in_order(before: Mapping[int, Mapping[int, float]], after: Mapping[int, Mapping[int, float]]) -> list[int]:
    missing = {head: len(others) for head, others in before.items()}
    order = [head for head, count in missing.items() if not count]
    for head in order:  # grows while it is walked
        for other in after[head]:
            missing[other] -= 1
            if not missing[other]:
                order.append(other)
    return order


def _distance(left: Placed, right: Placed) -> float:
    return left.reach_right + (_GAP if left.real or right.real else _POINT_GAP) + right.reach_left
