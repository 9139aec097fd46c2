"""AWS's list prices, with their date, and what a run costs by them. A table of yours replaces any of them."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.values import dataclass

MEMORY_GB = 0.5  # of the function that runs the steps, where nobody says otherwise
SYSTEMS = {
    "stepwell": "Stepwell",
    "step_functions_standard": "Step Functions Standard",
    "lambda_durable_functions": "Lambda durable functions",
}
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


def usd_by_system(used: Mapping[str, float], prices: Prices, memory_gb: float, runs: int) -> dict[str, float]:
    """USD of so many runs on each of SYSTEMS."""
    usd = (usd_here, usd_on_step_functions, usd_on_durable_functions)
    return {name: cost(used, prices, memory_gb) * runs for name, cost in zip(SYSTEMS, usd, strict=True)}


def _millions(count: float, price: float) -> float:
    """The price of so many of something that is sold by the million."""
    return count * price / _MILLION
