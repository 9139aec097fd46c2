"""The example `triage`, its own tests and not a line of difference, on every other backend."""

from __future__ import annotations

from pathlib import Path

import examples.triage.test_triage as example
from examples.triage.test_triage import *  # noqa: F403 - its tests and its fixtures

FOLDER = Path(example.__file__).parent
