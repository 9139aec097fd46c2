"""The example `refund`, its own tests and not a line of difference, on every other backend."""

from __future__ import annotations

from pathlib import Path

import examples.refund.test_refund as example
from examples.refund.test_refund import *  # noqa: F403 - its tests and its fixtures

FOLDER = Path(example.__file__).parent
