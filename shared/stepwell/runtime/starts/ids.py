"""Ids of runs, events and calls: they sort by their time and do not repeat."""

from __future__ import annotations

import secrets
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # base 32 without the letters that read as digits or as each other


def new_id() -> str:
    """26 characters that sort by their time, to the millisecond, and do not repeat."""
    value = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    digits = []
    for _ in range(26):
        value, digit = divmod(value, 32)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
