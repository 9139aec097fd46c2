"""Renders a picture as SVG with presentation attributes only (no style sheet, no script), for use in any page.

Text has its own background and lines are medium grey, so a picture is readable on white and on black.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from unicodedata import east_asian_width
from xml.sax.saxutils import escape, quoteattr

from stepwell.api.drawing.curves import line_curves
from stepwell.api.drawing.layout import Link, Size, Spot, arrange
from stepwell.api.drawing.shape import MARKS, STATUSES, Line, Picture, Shape, shorten

FILLS = {  # status: ground, border, text
    "": ("#f6f8fa", "#8b949e", "#1f2328"),
    "completed": ("#d2f4d9", "#1a7f37", "#0b3d1a"),
    "running": ("#d6e9ff", "#0969da", "#0a3069"),
    "waiting": ("#fff1c2", "#bf8700", "#4d3500"),
    "paused": ("#fff1c2", "#bf8700", "#4d3500"),
    "failed": ("#ffdcd9", "#cf222e", "#6e0b14"),
    "skipped": ("#eaeef2", "#8b949e", "#57606a"),
    "cancelled": ("#e4dff0", "#6e5a9e", "#3c2f63"),
    "compensated": ("#fbe3cf", "#b35900", "#5c2d00"),
}
_LINE, _ERROR_LINE = "#848d97", "#d1495b"
_FONT = "font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif\""
_MARGIN = 16.0
_TITLE, _DETAIL, _LABEL = 13.0, 11.0, 11.0  # font sizes
_DETAIL_CHARACTERS = 38
_LOOP = 28.0  # the width of a line from a shape to itself


def render(picture: Picture) -> str:
    """Renders the whole document."""
    shapes = {shape.id: shape for shape in picture.shapes}
    loops = {line.source: line for line in picture.lines if line.source == line.target}
    sizes = {shape.id: _shape_size(shape, loops.get(shape.id)) for shape in picture.shapes}
    links = [Link(line.source, line.target, _label_size(line.labels)) for line in picture.lines]
    layout = arrange(sizes, links)
    curves = line_curves(layout, frozenset(loops))
    body = [
        *(_path(curve, line) for line, curve in zip(picture.lines, curves, strict=True) if curve),
        *(part for name, line in loops.items() for part in _loop(line, layout.shapes[name])),
        *(part for name, spot in layout.shapes.items() for part in _shape(shapes[name], spot)),
        *(
            part
            for line, route in zip(picture.lines, layout.routes, strict=True)
            if route and route.label
            for part in _label(line, route.label)
        ),
    ]
    legend, legend_width = _legend(picture, layout.height + 20)
    width = max(layout.width, legend_width) + 2 * _MARGIN
    height = layout.height + (40 if legend else 0) + 2 * _MARGIN
    return "\n".join([_head(picture.name, width, height), *body, *legend, "</g>", "</svg>", ""])


def text_width(text: str, size: float) -> float:
    """Estimates the width of text in a sans-serif font, rather too wide than too narrow."""
    return size * sum(_character_width(character) for character in text)


def _character_width(character: str) -> float:
    if east_asian_width(character) in "WF":
        return 1.05
    if character in "iljtfrI.,:;'|!()[]{} /":
        return 0.36
    if character in "mwMW@%":
        return 0.95
    if character in "<>=+&":
        return 0.84
    return 0.7 if character.isupper() else 0.61


def _shape_size(shape: Shape, loop: Line | None) -> Size:
    if shape.kind == "start":
        return Size(18, 18)
    if shape.kind in {"end", "fail"}:
        return Size(text_width(shape.name, _DETAIL) + 36, 24)
    mark = 16 if shape.status else 0
    title = text_width(shape.name, _TITLE) * 1.06 + mark
    detail = text_width(shorten(shape.detail, _DETAIL_CHARACTERS), _DETAIL)
    label = _label_size(loop.labels) if loop else None
    beside = _LOOP + (label.width if label else 0) if loop else 0
    words = text_width(shape.words, _DETAIL)
    height = 34 + 12 * bool(shape.detail) + 14 * bool(shape.words)
    return Size(max(title, detail, words, 64) + 28, height, beside)


def _label_size(labels: Sequence[str]) -> Size | None:
    if not labels:
        return None
    return Size(max(text_width(label, _LABEL) for label in labels) + 12, len(labels) * 14 + 4)


def _head(name: str, width: float, height: float) -> str:
    arrows = "".join(
        f'<marker id="stepwell-{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0.5 L8 4 L0 7.5 Z" fill="{colour}"/></marker>'
        for kind, colour in (("arrow", _LINE), ("error", _ERROR_LINE))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" {_FONT}>\n'
        f"<title>{_safe(name)}</title>\n<defs>{arrows}</defs>\n"
        f'<g transform="translate({_MARGIN:.0f} {_MARGIN:.0f})">'
    )


def _shape(shape: Shape, spot: Spot) -> Iterator[str]:
    width, height = spot.size.width, spot.size.height
    ground, border, ink = FILLS["failed" if shape.kind == "fail" else shape.status]
    whole = " · ".join(filter(None, (shape.title, shape.detail, shape.words)))
    yield (
        f"<g data-node={_attribute(shape.title)} data-status={_attribute(shape.status)} "
        f'transform="translate({spot.x:.1f} {spot.y:.1f})"><title>{_safe(whole)}</title>'
    )
    if shape.kind == "start":
        yield f'<circle r="9" fill="{_LINE}"/></g>'
        return
    radius = {"wait": 17, "step": 7, "call": 7, "route": 7}.get(shape.kind, 12)
    dashes = ' stroke-dasharray="4 3"' if shape.status == "skipped" or shape.kind == "route" else ""
    yield (
        f'<rect x="{-width / 2:.1f}" y="{-height / 2:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius}" '
        f'fill="{ground}" stroke="{border}" stroke-width="{2 if shape.status else 1.2}"{dashes}/>'
    )
    if shape.kind == "call":  # bars at its sides, the flowchart symbol of a process defined elsewhere
        x, y = width / 2 - 5, height / 2
        yield f'<path d="M{-x:.1f} {-y:.1f} V{y:.1f} M{x:.1f} {-y:.1f} V{y:.1f}" stroke="{border}"/>'
    if shape.kind in {"end", "fail"}:
        mark = "✗" if shape.kind == "fail" else "■"
        yield f"{_text(0, 4, f'{mark} {shape.name}', _DETAIL, ink)}</g>"
        return
    mark = f"{MARKS[shape.status]} " if shape.status else ""
    below = list(filter(None, (shorten(shape.detail, _DETAIL_CHARACTERS), shape.words)))
    top = 4.5 - 7.5 * len(below)
    yield _text(0, top, mark + shape.name, _TITLE, ink, 'font-weight="600"')
    for number, text in enumerate(below, 1):
        yield _text(0, top + 2 + 15 * number, text, _DETAIL, ink, 'opacity="0.75"')
    yield "</g>"


def _loop(line: Line, spot: Spot) -> Iterator[str]:
    edge, reach = spot.x + spot.size.width / 2, _LOOP * 1.2
    top, bottom = spot.y - 9, spot.y + 9
    yield _path(
        f"M{edge:.1f} {bottom:.1f} C{edge + reach:.1f} {bottom + 6:.1f} {edge + reach:.1f} {top - 6:.1f} "
        f"{edge:.1f} {top:.1f}",
        line,
    )
    size = _label_size(line.labels)
    if size is not None:
        yield from _label(line, Spot(size, 0, x=edge + _LOOP + size.width / 2 - 2, y=spot.y))


def _path(data: str, line: Line) -> str:
    dashes = ' stroke-dasharray="5 4"' if line.error else ""
    colour, arrow = (_ERROR_LINE, "error") if line.error else (_LINE, "arrow")
    end = f'marker-end="url(#stepwell-{arrow})"'
    return f'<path d="{data}" fill="none" stroke="{colour}" stroke-width="{3 if line.taken else 1.6}"{dashes} {end}/>'


def _label(line: Line, spot: Spot) -> Iterator[str]:
    width, height = spot.size.width, len(line.labels) * 14 + 4
    yield (
        f'<g transform="translate({spot.x:.1f} {spot.y:.1f})"><title>{_safe(" · ".join(line.conditions))}</title>'
        f'<rect x="{-width / 2:.1f}" y="{-height / 2:.1f}" width="{width:.1f}" height="{height}" rx="5" '
        f'fill="#ffffff" stroke="{_ERROR_LINE if line.error else "#c4cad1"}" stroke-width="0.8"/>'
    )
    for number, text in enumerate(line.labels):
        yield _text(0, -height / 2 + 13 + 14 * number, text, _LABEL, "#424a53")
    yield "</g>"


def _legend(picture: Picture, y: float) -> tuple[list[str], float]:
    """Renders the legend of the statuses that occur; empty without a run."""
    present = {shape.status for shape in picture.shapes}
    x, parts = 0.0, []
    for status in STATUSES:
        if status in present:
            ground, border, ink = FILLS[status]
            text = f"{MARKS[status]} {status}"
            width = text_width(text, _DETAIL) + 16
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="20" rx="10" fill="{ground}" '
                f'stroke="{border}"/>{_text(x + width / 2, y + 14, text, _DETAIL, ink)}'
            )
            x += width + 8
    return parts, max(x - 8, 0)


def _text(x: float, y: float, text: str, size: float, ink: str, more: str = "") -> str:
    extra = f" {more}" if more else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:.0f}" text-anchor="middle" fill="{ink}"{extra}>'
        f"{_safe(text)}</text>"
    )


def _safe(text: str) -> str:
    return escape(_xml_characters(text))


def _attribute(text: str) -> str:
    return quoteattr(_xml_characters(text))


def _xml_characters(text: str) -> str:
    """Escapes text for XML; control characters, which XML cannot contain, become a replacement mark."""
    return "".join(character if character.isprintable() or character in "\t\n" else "\ufffd" for character in text)
