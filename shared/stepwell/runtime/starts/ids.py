"""Ids of runs, events and calls: unique, and sorted by time."""

from __future__ import annotations

import hashlib
import json
import secrets
import time

from stepwell.runtime.ports.headers import REDRIVE

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # base 32 without letters that look like digits or each other


def new_id() -> str:
    """Returns a unique id of 26 characters that sorts by its time, to the millisecond."""
    value = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    digits = []
    for _ in range(26):
        value, digit = divmod(value, 32)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def redriven_id(run_id: str) -> str:
    """Returns the id of the run that a redrive of this run creates."""
    return "run_" + hashlib.sha256(json.dumps([REDRIVE, run_id]).encode()).hexdigest()[:26]
