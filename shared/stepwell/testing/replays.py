"""Stored histories against today's code, in a test: a change that would get runs in flight stuck fails it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stepwell.local.replaying import Export, Replayed, is_function, read_exports, replay


def assert_replays(folder: Path | str, exports: Path | str) -> list[Replayed]:
    """Every export of a durable function's run replays against the folder's code.

    `exports`: a file that `stepwell export` wrote, or a folder of `*.jsonl`. Raises AssertionError with all that
    differ, NotFound where there is no export.
    """
    return assert_all_replay(Path(folder), read_exports(Path(exports)))


def assert_all_replay(folder: Path, exports: Sequence[Export]) -> list[Replayed]:
    """The same of exports that were read. A graph's runs are left out: they go on with their own definition."""
    replayed = [replay(one, folder) for one in exports if is_function(one)]
    if not replayed:
        raise AssertionError("none of the exports is of a durable function's run")
    different = "\n".join(str(one) for one in replayed if one.difference is not None)
    if different:
        raise AssertionError(different)
    return replayed
