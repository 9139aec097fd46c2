"""Reads what callers of a folder's durable functions need to know, without importing its code."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from stepwell.definition.code.inputs import facts_of
from stepwell.definition.durable import FunctionFacts
from stepwell.runtime.folder.sources import read_folder_code


def function_facts(path: Path, packages: Collection[Path] = ()) -> Mapping[str, FunctionFacts]:
    """Returns the facts by the function's path. `packages`: the project's packages beside the folder."""
    return facts_of(read_folder_code(path, packages))
