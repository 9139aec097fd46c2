"""Computes the layered layout of a picture's shapes and lines, top to bottom.

Layers follow the longest path. A line longer than one layer passes through its own points in the layers between, and a
line's label is such a point with a size, so nothing overlaps. Layers are ordered by barycenter, and `columns`
places them in columns.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import pairwise

from stepwell.api.drawing.columns import place
from stepwell.values import dataclass

_GAP_Y = 17.0  # between a layer of shapes and the layer of labels beneath it
_SWEEPS = 12
_POINTS_MAX = 4_000  # lines that need more points pass straight behind the shapes
_PULL_PLAIN, _PULL_LABELLED, _PULL_BACK = 6.0, 2.0, 0.3  # how strongly a line pulls its ends under each other


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a shape or label. `beside` is extra room on its right."""

    width: float
    height: float
    beside: float = 0.0


@dataclass(frozen=True, slots=True)
class Link:
    """A line to lay out, and the size of its label."""

    source: str
    target: str
    label: Size | None = None


@dataclass(slots=True, eq=False)
class Spot:
    """A shape, a point of a line, or a line's label. x and y are its centre."""

    size: Size
    layer: int
    link: int = -1
    x: float = 0.0
    y: float = 0.0
    above: list[tuple[Spot, float]] = field(default_factory=list)  # with the pull of the line between
    below: list[tuple[Spot, float]] = field(default_factory=list)

    @property
    def real(self) -> bool:
        """Whether the spot is a shape."""
        return self.link < 0

    @property
    def reach_left(self) -> float:
        """The distance from its centre to its left edge."""
        return self.size.width / 2

    @property
    def reach_right(self) -> float:
        """The distance from its centre to the end of its room on the right."""
        return self.size.width / 2 + self.size.beside

    def near(self, above: bool) -> Sequence[tuple[Spot, float]]:
        """Returns its neighbours in the layer above or below, with the pull of the line between."""
        return self.above if above else self.below


@dataclass(frozen=True, slots=True)
class Route:
    """The spots of a line, from its upper to its lower end; a `back` line runs upwards."""

    spots: tuple[Spot, ...]
    label: Spot | None
    back: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """The centres in pixels, from the top left. A link from a shape to itself has no route."""

    shapes: Mapping[str, Spot]
    routes: tuple[Route | None, ...]
    rows: tuple[tuple[Spot, ...], ...]
    heights: tuple[float, ...]
    width: float
    height: float


def arrange(sizes: Mapping[str, Size], links: Sequence[Link]) -> Layout:
    """Computes the layout. The first of `sizes` is the top."""
    back = _back_links(sizes, links)
    layers = _layers(sizes, links, back)
    shapes = {name: Spot(size, layers[name]) for name, size in sizes.items()}
    rows: list[list[Spot]] = [[] for _ in range(max(layers.values(), default=0) + 1)]
    for spot in shapes.values():
        rows[spot.layer].append(spot)
    routes: list[Route | None] = [None] * len(links)
    # Backward lines come last, so that they begin at the right edge and stay there unless that adds crossings.
    for index in sorted(range(len(links)), key=lambda number: number in back):
        if links[index].source != links[index].target:
            routes[index] = _lay(index, links[index], index in back, shapes, rows)
    rows = _ordered(rows)
    columns = place(rows)
    heights = _place_y(rows)
    spots = [spot for row in rows for spot in row]
    left = min((columns[id(spot)] - spot.reach_left for spot in spots), default=0.0)
    for spot in spots:
        spot.x = columns[id(spot)] - left
    width = max((spot.x + spot.reach_right for spot in spots), default=0.0)
    height = max((spot.y + spot.size.height / 2 for spot in spots), default=0.0)
    return Layout(shapes, tuple(routes), tuple(map(tuple, rows)), heights, width, height)


def _back_links(names: Iterable[str], links: Sequence[Link]) -> frozenset[int]:
    """Returns the links that close a cycle in a walk from the top; reversing them leaves no cycle."""
    outgoing: dict[str, list[int]] = {}
    for index, link in enumerate(links):
        outgoing.setdefault(link.source, []).append(index)
    back: set[int] = set()
    done: set[str] = set()
    for root in names:
        path: list[tuple[str, Iterable[int]]] = [] if root in done else [(root, iter(outgoing.get(root, ())))]
        inside = {root}
        while path:
            name, rest = path[-1]
            following = next(iter(rest), None)
            if following is None:
                done.add(name)
                inside.discard(name)
                path.pop()
                continue
            target = links[following].target
            if target in inside:
                back.add(following)
            elif target not in done:
                inside.add(target)
                path.append((target, iter(outgoing.get(target, ()))))
    return frozenset(back)


def _layers(names: Iterable[str], links: Sequence[Link], back: frozenset[int]) -> dict[str, int]:
    """Returns layers as twice the longest path from a top; odd layers are for labels."""
    layers = dict.fromkeys(names, 0)
    after: dict[str, list[str]] = {}
    missing = dict.fromkeys(layers, 0)
    for index, link in enumerate(links):
        if index not in back:
            after.setdefault(link.source, []).append(link.target)
            missing[link.target] += 1
    ready = [name for name, count in missing.items() if not count]
    for name in ready:  # grows during the loop
        for target in after.get(name, ()):
            layers[target] = max(layers[target], layers[name] + 2)
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    return layers


def _lay(index: int, link: Link, back: bool, shapes: Mapping[str, Spot], rows: list[list[Spot]]) -> Route:
    """Adds the spots of one line to its layers; its label is the spot nearest to its start."""
    top, bottom = shapes[link.source], shapes[link.target]
    if back:
        top, bottom = bottom, top
    between = range(top.layer + 1, bottom.layer)
    labelled = between[-1] if back else between[0]
    if sum(map(len, rows)) > _POINTS_MAX:
        between = range(labelled, labelled + 1)
    pull = _PULL_BACK if back else _PULL_LABELLED if link.label else _PULL_PLAIN
    spots = [top]
    label: Spot | None = None
    for layer in between:
        spot = Spot(Size(0, 0), layer, index)
        if layer == labelled and link.label is not None:
            spot.size, label = link.label, spot
        rows[layer].append(spot)
        spots.append(spot)
    spots.append(bottom)
    for upper, lower in pairwise(spots):
        upper.below.append((lower, pull))
        lower.above.append((upper, pull))
    return Route(tuple(spots), label, back)


def _ordered(rows: list[list[Spot]]) -> list[list[Spot]]:
    """Returns the order with the fewest crossings among those of the barycenter sweeps."""
    best, fewest = rows, _crossings(rows)
    current = [list(row) for row in rows]
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        for number in range(1, len(current)) if down else range(len(current) - 2, -1, -1):
            beside = current[number - 1 if down else number + 1]
            places = {id(spot): place for place, spot in enumerate(beside)}
            keys = {
                id(spot): _mean(
                    [places[id(near)] for near, _ in (spot.above if down else spot.below) if id(near) in places], place
                )
                for place, spot in enumerate(current[number])
            }
            current[number].sort(key=lambda spot: keys[id(spot)])
        crossings = _crossings(current)
        if crossings < fewest:
            best, fewest = [list(row) for row in current], crossings
    return best


def _mean(places: Sequence[int], default: float) -> float:
    return sum(places) / len(places) if places else default


def _crossings(rows: Sequence[Sequence[Spot]]) -> int:
    total = 0
    for upper, lower in pairwise(rows):
        places = {id(spot): place for place, spot in enumerate(lower)}
        seen: list[int] = []
        for spot in upper:
            ends = sorted(places[id(near)] for near, _ in spot.below if id(near) in places)
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            seen = sorted([*seen, *ends])
    return total


def _place_y(rows: Sequence[Sequence[Spot]]) -> tuple[float, ...]:
    heights = tuple(max((spot.size.height for spot in row), default=0.0) for row in rows)
    top = 0.0
    for row, height in zip(rows, heights, strict=True):
        for spot in row:
            spot.y = top + height / 2
        top += height + _GAP_Y
    return heights
