"""The example `claim`, its own tests and not a line of difference, on every other backend."""

from __future__ import annotations

from pathlib import Path

import examples.claim.test_claim as example
from examples.claim.test_claim import *  # noqa: F403 - its tests and its fixtures

FOLDER = Path(example.__file__).parent
