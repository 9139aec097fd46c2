"""The program `account`, its own tests and not a line of difference, on every other backend."""

from __future__ import annotations

from pathlib import Path

import examples.programs.account.test_account as example
from examples.programs.account.test_account import *  # noqa: F403 - its tests and its fixtures

FOLDER = Path(example.__file__).parent
