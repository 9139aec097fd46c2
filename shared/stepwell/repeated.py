"""Tells a warning that a file gives many times once, with the number of the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stepwell.errors import Problem

MOST = 3  # warnings of one code in a file that are told one by one
_LINES = 3  # of the others that are named


def told_once(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Returns the problems for people to read: of more than three warnings of one kind in a file, the first alone.

    It says how many others there are, and where the first of them are. Errors stay one by one: each is to be mended.
    """
    found = tuple(problems)
    alike: dict[tuple[str, str, str], list[Problem]] = {}
    for one in found:
        if one.severity != "error":
            alike.setdefault(_kind(one), []).append(one)
    many = {kind: ones for kind, ones in alike.items() if len(ones) > MOST}
    shown = (_first(one, many) for one in found)
    return tuple(one for one in shown if one is not None)


def _kind(problem: Problem) -> tuple[str, str, str]:
    return problem.file, problem.workflow, problem.code


def _first(problem: Problem, many: dict[tuple[str, str, str], list[Problem]]) -> Problem | None:
    """Returns the first of many with the number of the others, none in place of those, and any other as it is."""
    ones = many.get(_kind(problem)) if problem.severity != "error" else None
    if ones is None:
        return problem
    if problem is not ones[0]:
        return None
    lines = [str(line) for line in dict.fromkeys(one.line for one in ones[1:] if one.line)]
    places = f" (lines {', '.join(lines[:_LINES])}{', …' if len(lines) > _LINES else ''})" if lines else ""
    return replace(problem, message=f"{problem.message}, and {len(ones) - 1} others like it{places}")
