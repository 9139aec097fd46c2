"""The workflow patterns, forks and joins among them, their own tests and not a line of difference, on every backend."""

from __future__ import annotations

from pathlib import Path

import examples.patterns.test_patterns as example
from examples.patterns.test_cancels import *  # noqa: F403 - its tests
from examples.patterns.test_cycles import *  # noqa: F403 - its tests
from examples.patterns.test_patterns import *  # noqa: F403 - its tests and its fixtures

FOLDER = Path(example.__file__).parent
