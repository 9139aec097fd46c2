"""AWS's list prices, with their date. `--prices FILE` replaces any of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from stepwell.errors import UserError

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """USD in us-east-1, on demand, without free tiers. Names say what one unit is."""

    as_of: str = "2026-11-20"
    source: str = "AWS's price pages of DynamoDB, SQS, Lambda, EventBridge Scheduler and Step Functions, us-east-1"
    million_write_units: float = 0.625
    million_read_units: float = 0.125
    million_queue_requests: float = 0.40
    million_lambda_requests: float = 0.20
    gb_second: float = 0.0000133334  # arm64
    million_schedules: float = 1.00
    million_transitions: float = 25.0  # Step Functions Standard
    million_operations: float = 8.0  # Lambda durable functions
    durable_gb: float = 0.25  # that a durable function writes


def read_prices(path: Path | None) -> Prices:
    """Returns the prices, those of the file instead of ours. Raises UserError for a file that has none."""
    if path is None:
        return Prices()
    names = {one.name for one in fields(Prices)}
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
        is_table = isinstance(given, dict) and given.keys() <= names and all(map(_is_price, given.items()))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON: {error}", code="bad_prices") from error
    if not is_table or "as_of" not in given:
        hint = f'{{"as_of": "2027-01-31"}} and any of {", ".join(sorted(names - {"as_of"}))}'
        raise UserError(f"{path} is no table of prices with its date", code="bad_prices", hint=hint)
    return replace(Prices(), **given)


def _is_price(named: tuple[str, Any]) -> bool:
    name, value = named
    if name in {"as_of", "source"}:
        return isinstance(value, str)
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def millions(count: float, price: float) -> float:
    """The price of so many of something that is sold by the million."""
    return count * price / _MILLION
