"""The example `callers`, its own tests and not a line of difference, on every other backend."""

from __future__ import annotations

from pathlib import Path

import examples.callers.test_callers as example
from examples.callers.test_callers import *  # noqa: F403 - its tests and its fixtures

FOLDER = Path(example.__file__).parent
