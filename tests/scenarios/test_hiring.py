"""The example `hiring`, its own tests and not a line of difference, on every other backend."""

from __future__ import annotations

from pathlib import Path

import examples.hiring.test_hiring as example
from examples.hiring.test_hiring import *  # noqa: F403 - its tests and its fixtures

FOLDER = Path(example.__file__).parent
