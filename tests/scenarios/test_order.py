"""The example `order`, its own tests and not a line of difference, on every other backend."""

from __future__ import annotations

from pathlib import Path

import examples.order.test_order as example
from examples.order.test_order import *  # noqa: F403 - its tests and its fixtures

FOLDER = Path(example.__file__).parent
