"""The example `onboarding`, its own tests and not a line of difference, on every other backend."""

from __future__ import annotations

from pathlib import Path

import examples.onboarding.test_onboarding as example
from examples.onboarding.test_onboarding import *  # noqa: F403 - its tests and its fixtures

FOLDER = Path(example.__file__).parent
