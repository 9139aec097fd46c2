"""The example `saga`, its own tests and not a line of difference, on every other backend."""

from __future__ import annotations

from pathlib import Path

import examples.saga.test_saga as example
from examples.saga.test_saga import *  # noqa: F403 - its tests and its fixtures

FOLDER = Path(example.__file__).parent

del test_it_ends_the_same_in_rarer_cases  # noqa: F821 - the same on every backend, and not quick on one
