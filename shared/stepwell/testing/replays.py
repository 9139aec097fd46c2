"""Replays stored histories in a test, which fails for a change that would leave runs in progress stuck."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stepwell.definition.graph import Json
from stepwell.limits import PAGE_ITEMS_MAX
from stepwell.local.replaying import Export, Replayed, is_function, read_exports, replay
from stepwell.runtime.calls.exporting import read_export
from stepwell.runtime.calls.service import Service


def assert_replays(folder: Path | str, exports: Path | str) -> list[Replayed]:
    """Asserts that every exported run of a durable function replays against the folder's code.

    `exports` is a file of `stepwell export`, or a folder of `*.jsonl`. Raises AssertionError with all differences,
    NotFound if there is no export.
    """
    return assert_all_replay(Path(folder), read_exports(Path(exports)))


def assert_all_replay(folder: Path, exports: Sequence[Export]) -> list[Replayed]:
    """Asserts the same for parsed exports. Skips runs of graphs, which keep their own definition."""
    replayed = [replay(one, folder) for one in exports if is_function(one)]
    if not replayed:
        raise AssertionError("none of the exports is of a durable function's run")
    different = "\n".join(str(one) for one in replayed if one.difference is not None)
    if different:
        raise AssertionError(different)
    return replayed


async def export_lines(service: Service, run_id: str) -> list[Json]:
    """Reads all pages of a run's export."""
    header = await service.header(run_id)
    lines: list[Json] = []
    cursor: str | None = ""
    while cursor is not None:
        page = await read_export(service.ports, header, cursor, PAGE_ITEMS_MAX)
        lines, cursor = [*lines, *page.items], page.next_cursor or None
    return lines
