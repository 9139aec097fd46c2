"""AWS's list prices, with their date, and what a run costs by them. `--prices FILE` replaces any of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from stepwell.errors import UserError

MEMORY_GB = 0.5  # of the function that runs the steps, where nobody says otherwise
_MILLION, _GB = 1_000_000, 10**9


@dataclass(frozen=True, slots=True)
class Prices:
    """USD in us-east-1, on demand, without free tiers. Names say what one unit is."""

    as_of: str = "2026-11-20"
    source: str = "AWS's price pages of DynamoDB, SQS, Lambda, EventBridge Scheduler, S3 and Step Functions, us-east-1"
    million_write_units: float = 0.625
    million_read_units: float = 0.125
    million_queue_requests: float = 0.40
    million_lambda_requests: float = 0.20
    gb_second: float = 0.0000133334  # arm64
    million_schedules: float = 1.00
    million_objects: float = 5.0  # written to S3
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


def usd_here(used: Mapping[str, float], prices: Prices, memory_gb: float = MEMORY_GB) -> float:
    """USD on this system: its table, queues, schedules and objects, and the Lambda that runs the steps."""
    return (
        _millions(used["write_units"], prices.million_write_units)
        + _millions(used["read_units"], prices.million_read_units)
        + _millions(used["queue_requests"], prices.million_queue_requests)
        + _millions(used["invocations"], prices.million_lambda_requests)
        + _millions(used["schedules"], prices.million_schedules)
        + _millions(used["objects"], prices.million_objects)
        + used["step_seconds"] * memory_gb * prices.gb_second
    )


def usd_on_step_functions(used: Mapping[str, float], prices: Prices, memory_gb: float = MEMORY_GB) -> float:
    """USD on Step Functions Standard: a transition for each attempt, wait and fork, and two for start and end."""
    return (
        _millions(used["steps"] + used["waits"] + used["forks"] + 2, prices.million_transitions)
        + _millions(used["steps"], prices.million_lambda_requests)
        + used["step_seconds"] * memory_gb * prices.gb_second
    )


def usd_on_durable_functions(used: Mapping[str, float], prices: Prices, memory_gb: float = MEMORY_GB) -> float:
    """USD on Lambda durable functions: an operation for each attempt, wait and fork, and one for the execution."""
    return (
        _millions(used["steps"] + used["waits"] + used["forks"] + 1, prices.million_operations)
        + used["output_bytes"] / _GB * prices.durable_gb
        + _millions(1 + used["waits"], prices.million_lambda_requests)
        + used["step_seconds"] * memory_gb * prices.gb_second
    )


def _millions(count: float, price: float) -> float:
    """The price of so many of something that is sold by the million."""
    return count * price / _MILLION
