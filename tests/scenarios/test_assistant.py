"""The example `assistant`, its own tests and not a line of difference, on every other backend."""

from __future__ import annotations

from pathlib import Path

import examples.assistant.test_assistant as example
from examples.assistant.test_assistant import *  # noqa: F403 - its tests and its fixtures

FOLDER = Path(example.__file__).parent
