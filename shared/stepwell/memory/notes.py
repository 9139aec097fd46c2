"""Definitions, and notes by kind and name, in dictionaries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from heapq import nsmallest


class MemoryNotes:
    """The Notes port in dictionaries."""

    def __init__(self) -> None:
        self._notes: dict[str, dict[str, str]] = defaultdict(dict)
        self._definitions: dict[str, str] = {}

    async def put_definition(self, version: str, body: str) -> None:
        self._definitions.setdefault(version, body)

    async def get_definition(self, version: str) -> str | None:
        return self._definitions.get(version)

    async def put_note(self, kind: str, name: str, body: str, before: str | None, *, replaces: bool = False) -> bool:
        there = self._notes[kind].get(name)
        if there not in ({before, body} if replaces else {None, before, body}):
            return False
        self._notes[kind][name] = body
        return True

    async def get_note(self, kind: str, name: str) -> str | None:
        return self._notes[kind].get(name)

    async def notes(self, kind: str, limit: int | None = None) -> Mapping[str, str]:
        there = self._notes[kind]
        return {name: there[name] for name in (sorted(there) if limit is None else nsmallest(limit, there))}

    async def drop_note(self, kind: str, name: str, before: str | None = None, *, once: bool = False) -> bool:
        there = self._notes[kind].get(name)
        if there is None or before not in {None, there}:
            return there is None and before is not None and not once
        del self._notes[kind][name]
        return True
