"""Draws a workflow, coloured by a run's history, as Mermaid, Graphviz or SVG. Pure functions.

`shape` decides the content of a picture; this module and `drawing_svg` write it. Names and conditions are
user text, so each format escapes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stepwell.api.drawing.shape import MARKS, NO_WORDS, NOT_TAKEN, Drawable, Line, Picture, Shape, outline, picture
from stepwell.api.drawing.svg import FILLS, render

__all__ = ["draw", "outline"]

_MERMAID_PLAIN = frozenset(" _-.,/=+*?!'")
_MERMAID_SHAPES = {
    "start": ("((", "))"),
    "end": ("([", "])"),
    "fail": ("([", "])"),
    "wait": ("(", ")"),
    "call": ("[[", "]]"),
}
_DOT_SHAPES = {
    "start": "circle",
    "end": "oval",
    "fail": "oval",
    "wait": "box",
    "step": "box",
    "call": "box",
    "route": "diamond",
}


def draw(
    form: str,
    graph: Drawable,
    states: Mapping[str, str],
    words: Mapping[str, str] = NO_WORDS,
    taken: Mapping[str, int] = NOT_TAKEN,
) -> str:
    """Draws a picture as `svg`, as `mermaid` for Markdown pages, or as `dot` for Graphviz.

    `states` has the status of each node that the run has visited, `words` how it went.
    """
    return _FORMS[form](picture(graph, states, words, taken))


def _mermaid(drawn: Picture) -> str:
    lines = ["flowchart TD"]
    lines += [f"    {_mermaid_shape(shape)}" for shape in drawn.shapes]
    lines += [f"    {_mermaid_line(line)}" for line in drawn.lines]
    if ways := [str(index) for index, line in enumerate(drawn.lines) if line.taken]:
        lines.append(f"    linkStyle {','.join(ways)} stroke-width:3px")
    for status in sorted({_look(shape) for shape in drawn.shapes} - {""}):
        ground, border, ink = FILLS[status]
        members = ",".join(shape.id for shape in drawn.shapes if _look(shape) == status)
        lines += [
            f"    classDef {status} fill:{ground},stroke:{border},color:{ink}",
            f"    class {members} {status}",
        ]
    return "\n".join(lines) + "\n"


def _dot(drawn: Picture) -> str:
    lines = [
        f"digraph {_dot_text(drawn.name)} {{",
        "    rankdir=TB",
        '    node [fontname="sans-serif", fontsize=11, style=filled]',
        '    edge [fontname="sans-serif", fontsize=9, color="#848d97"]',
    ]
    lines += [f"    {_dot_shape(shape)}" for shape in drawn.shapes]
    lines += [f"    {_dot_line(line)}" for line in drawn.lines]
    return "\n".join([*lines, "}"]) + "\n"


_FORMS: dict[str, Callable[[Picture], str]] = {"svg": render, "mermaid": _mermaid, "dot": _dot}


def _look(shape: Shape) -> str:
    """Returns a shape's status; the end of a failed run looks like a failed node."""
    return "failed" if shape.kind == "fail" else shape.status


def _words(shape: Shape) -> list[str]:
    mark = f"{MARKS[shape.status]} " if shape.status else "✗ " if shape.kind == "fail" else ""
    return [mark + shape.name, *filter(None, (shape.detail, shape.words))]


def _mermaid_shape(shape: Shape) -> str:
    opening, closing = _MERMAID_SHAPES.get(shape.kind, ("[", "]"))
    return f'{shape.id}{opening}"{_mermaid_text(_words(shape))}"{closing}'


def _mermaid_line(line: Line) -> str:
    label = f'|"{_mermaid_text(line.labels)}"|' if line.labels else ""
    return f"{line.source} {'-.->' if line.error else '-->'}{label} {line.target}"


def _mermaid_text(texts: list[str] | tuple[str, ...]) -> str:
    return "<br/>".join("".join(map(_mermaid_character, text)) for text in texts)


def _mermaid_character(character: str) -> str:
    """Replaces special characters by codes, so that a name cannot contain quotes, tags, directives or comments."""
    if character.isalnum() or character in _MERMAID_PLAIN:
        return character
    return f"#{ord(character)};" if character.isprintable() else "#65533;"


def _dot_shape(shape: Shape) -> str:
    ground, border, ink = FILLS[_look(shape)]
    style = "filled,rounded" if shape.kind == "wait" else "filled,dashed" if shape.status == "skipped" else "filled"
    double = ", peripheries=2" if shape.kind == "call" else ""
    return (
        f"{shape.id} [label={_dot_text(*_words(shape))}, shape={_DOT_SHAPES[shape.kind]}, "
        f'style="{style}", fillcolor="{ground}", color="{border}", fontcolor="{ink}"{double}]'
    )


def _dot_line(line: Line) -> str:
    attributes = [f"label={_dot_text(*line.labels)}"] if line.labels else []
    attributes += ["style=dashed", 'color="#d1495b"'] if line.error else []
    attributes += ["penwidth=3"] if line.taken else []
    options = f" [{', '.join(attributes)}]" if attributes else ""
    return f"{line.source} -> {line.target}{options}"


def _dot_text(*texts: str) -> str:
    """A quoted string. Graphviz reads escapes (`\\N` is a node's name) and HTML entities in it."""
    return '"' + "\\n".join("".join(map(_dot_character, text)) for text in texts) + '"'


def _dot_character(character: str) -> str:
    if character in '\\"':
        return f"\\{character}"
    return "&amp;" if character == "&" else character if character.isprintable() else "\ufffd"
