"""The example `release`, its own tests and not a line of difference, on every other backend."""

from __future__ import annotations

from pathlib import Path

import examples.release.test_release as example
from examples.release.test_release import *  # noqa: F403 - its tests and its fixtures

FOLDER = Path(example.__file__).parent
