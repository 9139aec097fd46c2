"""Fingerprints of errors: what failures of one cause have in common, whatever their ids, amounts and times are.

ship · CarrierDown · order A-17 was refused after 31 s
ship · CarrierDown · order A-18 was refused after 4 s      the same fingerprint
"""

from __future__ import annotations

import hashlib
import re

from stepwell.engine.records import Failure
from stepwell.limits import FAILURE_CHARACTERS

# What is quoted, and every word with a digit. A word is looked at from its start alone, so that long ones cost no more.
_VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|(?<![^\s'\"])[^\s\d'\"]*\d\S*")
_MESSAGE = 200  # characters of it that count


def failure_of(error: Failure) -> str:
    """Returns `<fingerprint> <type> <step>`, which a run's header keeps."""
    cause = [error.step, error.type, _VARYING.sub("#", error.message)[:_MESSAGE]]
    mark = hashlib.sha256("\n".join(cause).encode(errors="replace")).hexdigest()[:12]
    return f"{mark} {error.type} {error.step}"[:FAILURE_CHARACTERS]
