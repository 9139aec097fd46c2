"""Computes the SVG paths of a picture's lines: down from shape to shape, and up beside the shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from stepwell.api.drawing.layout import Layout, Route, Spot

_PORT_GAP = 16.0  # between lines that meet the same edge of a shape

_Point: TypeAlias = tuple[float, float]
_Sides: TypeAlias = tuple[_Point | None, _Point | None]


def line_curves(layout: Layout, looping: frozenset[str]) -> list[str]:
    """Returns path data for each route, empty if there is none. `looping` are shapes whose right side is taken."""
    busy = {id(layout.shapes[name]) for name in looping}
    routes = {number: route for number, route in enumerate(layout.routes) if route is not None}
    sides = {number: _sides(route, layout, busy) if route.back else (None, None) for number, route in routes.items()}
    ports = _ports(routes, sides)
    curves = [""] * len(layout.routes)
    for number, route in routes.items():
        top, *between, bottom = route.spots
        points = [(top.x + ports.get((number, 0), 0), top.y + top.size.height / 2)]
        for spot in between:
            half = layout.heights[spot.layer] / 2
            points += [(spot.x, spot.y - half), (spot.x, spot.y + half)]
        points.append((bottom.x + ports.get((number, -1), 0), bottom.y - bottom.size.height / 2))
        curves[number] = _back_curve(points, *sides[number]) if route.back else _curve(points)
    return curves


def _ports(routes: Mapping[int, Route], sides: Mapping[int, _Sides]) -> dict[tuple[int, int], float]:
    """Computes where lines meet the lower edge of their upper shape (0) and the upper edge of their lower one (-1).

    Lines stand side by side in order, so that none cross; a straight line stays straight.
    """
    meeting: dict[tuple[int, int], list[tuple[float, int]]] = {}
    for number, route in routes.items():
        for end, beside in ((0, 1), (-1, -2)):
            if sides[number][end] is None:
                spot = route.spots[end]
                meeting.setdefault((id(spot), end), []).append((route.spots[beside].x - spot.x, number))
    ports: dict[tuple[int, int], float] = {}
    for (_, end), lines in meeting.items():
        lines.sort()
        straight = [place for place, (away, _) in enumerate(lines) if abs(away) < 1]
        middle = straight[0] if straight else (len(lines) - 1) / 2
        width = routes[lines[0][1]].spots[end].size.width
        gap = min(_PORT_GAP, width * 0.42 / max(middle, len(lines) - 1 - middle, 1))
        for place, (_, number) in enumerate(lines):
            ports[number, end] = (place - middle) * gap
    return ports


def _curve(points: Sequence[_Point]) -> str:
    x, y = points[0]
    parts = [f"M{x:.1f} {y:.1f}"]
    for next_x, next_y in points[1:]:
        middle = (y + next_y) / 2
        if abs(next_x - x) < 0.1:
            parts.append(f"L{next_x:.1f} {next_y:.1f}")
        else:
            parts.append(f"C{x:.1f} {middle:.1f} {next_x:.1f} {middle:.1f} {next_x:.1f} {next_y:.1f}")
        x, y = next_x, next_y
    return " ".join(parts)


def _sides(route: Route, layout: Layout, busy: set[int]) -> _Sides:
    """Computes where a backward line meets the sides of its shapes; None if it meets them above or below."""
    upper, lower, first, last = route.spots[0], route.spots[-1], route.spots[1], route.spots[-2]
    return (
        _side(upper, first.x, layout.rows[upper.layer], busy),
        _side(lower, last.x, layout.rows[lower.layer], busy),
    )


def _back_curve(points: Sequence[_Point], upper: _Point | None, lower: _Point | None) -> str:
    """Draws a line up from the lower shape to the upper one."""
    inner = list(reversed(points[1:-1]))
    start = _curve([points[-1], inner[0]]) if lower is None else _quarter(lower, inner[0], out=True)
    finish = _curve([inner[-1], points[0]]) if upper is None else _quarter(upper, inner[-1], out=False)
    return f"{start} {_curve(inner).replace('M', 'L', 1)} {finish.replace('M', 'L', 1)}"


def _side(spot: Spot, x: float, row: Sequence[Spot], busy: set[int]) -> _Point | None:
    """Returns the middle of the side that faces x, unless x is inside or the way is blocked."""
    half = spot.size.width / 2
    to_right = x > spot.x
    if abs(x - spot.x) < half + 6 or (to_right and id(spot) in busy):
        return None
    edge = spot.x + half if to_right else spot.x - half
    low, high = min(edge, x), max(edge, x)
    for other in row:
        begin = other.x - other.size.width / 2 - 4
        end = other.x + other.size.width / 2 + other.size.beside + 4
        if other is not spot and begin < high and end > low:
            return None
    return edge, spot.y


def _quarter(side: _Point, point: _Point, *, out: bool) -> str:
    """Draws a quarter turn between a shape's side (horizontal) and a line's point (vertical)."""
    (side_x, side_y), (x, y) = side, point
    if out:
        return f"M{side_x:.1f} {side_y:.1f} C{x:.1f} {side_y:.1f} {x:.1f} {side_y:.1f} {x:.1f} {y:.1f}"
    return f"M{x:.1f} {y:.1f} C{x:.1f} {side_y:.1f} {x:.1f} {side_y:.1f} {side_x:.1f} {side_y:.1f}"
