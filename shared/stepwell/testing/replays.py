"""Replays stored histories in a test, which fails for a change that would leave runs in progress stuck."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stepwell.local.replaying import Export, Replayed, is_function, read_exports, replay


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
