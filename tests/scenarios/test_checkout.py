"""The example `checkout`, its own tests and not a line of difference, on every other backend."""

from __future__ import annotations

from pathlib import Path

import examples.checkout.test_checkout as example
from examples.checkout.test_checkout import *  # noqa: F403 - its tests and its fixtures

FOLDER = Path(example.__file__).parent
