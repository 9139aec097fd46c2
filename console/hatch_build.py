"""Builds the console into the wheel, and at `uv sync` into the working copy."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ConsoleHook(BuildHookInterface[Any]):
    """Stepwell works without its console, where npm's registry is out of reach: `stepwell dev` says what is missing."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        spec = importlib.util.spec_from_file_location("console_build", Path(self.root) / "console" / "build.py")
        if spec is None or spec.loader is None:
            raise RuntimeError("console/build.py is missing")
        build = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(build)
        try:
            build.build()
        except build.ConsoleNotBuilt as error:
            self.app.display_warning(f"The console was not built. {error}")
