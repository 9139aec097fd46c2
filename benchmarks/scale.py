"""What a load asks of AWS, beside the quotas of a new account: what is full first, and what to raise.

    python benchmarks/scale.py starts --rate 1000 --steps 10 --step-seconds 0.1 --workflows 2
    python benchmarks/scale.py items --outer 1000 --inner 1000 --step-seconds 0.01
    python benchmarks/scale.py waiting --runs 10000000

A model, not a measurement: the counts below are those that tests/aws/test_scale.py counts on emulated AWS, and the rest
is arithmetic. `WRITE_SECONDS` and `CALL_SECONDS` are assumptions; set them to what you see.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

from stepwell.limits import FORK_CHUNK, FORK_SHARED_MS, FORK_WIDTH, PAGE_BRANCHES, SECOND_MS
from stepwell.prices import Prices

# What the tests count.
HEADER_UNITS = 3  # of the table, a run: created, picked up, completed
STEP_UNITS = 1
WORKFLOW_UNITS = 1  # of the index by workflow, a run: one partition for each workflow
STATE_UNITS = 2  # of the index by state, a run, spread over its partitions: it is live, and then no longer
STATE_PARTITIONS = 4
BRANCH_UNITS = 2  # its record and its arrival
FORK_UNITS = 4  # of a fork in a branch: its record and its join, on top of the branches
PAGE_UNITS = 3  # of each hundred branches, where a fork has more than one: its report to the fork
WAITING_BYTES = 2_000  # a run that waits, its entries in the indexes included: the most
MET_REQUESTS = 4  # of the sweeper, one after the other, for each run that lives for more than five minutes, once

# What we take for granted.
WRITE_SECONDS = 0.006  # one conditional put, seen from Lambda
CALL_SECONDS = 0.03  # of the API's function, for a start
SWEEP_SECONDS = 240  # of the five minutes from one sweep to the next
GB_MONTH_USD = 0.25  # of DynamoDB's storage


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit of AWS that a load may meet: `most`, in a new account in us-east-1; what to do about it."""

    service: str
    name: str
    most: int
    raise_it: str


TABLE = Quota("DynamoDB", "write units a second of one table", 40_000, "Service Quotas")
BY_WORKFLOW = Quota("DynamoDB", "… of one partition: the starts of one workflow", 1_000, "fixed: split the workflow")
BY_STATE = Quota("DynamoDB", "… of one partition: a quarter of the runs that live", 1_000, "fixed")
LAMBDA = Quota("Lambda", "concurrent executions", 1_000, "Service Quotas")
POLLERS = Quota("Lambda", "batches at once from one queue", 1_000, "fixed: another pool")
GATEWAY = Quota("API Gateway", "requests a second", 10_000, "Service Quotas")
STAGE = Quota("API Gateway", "requests a second of this stack", 1_000, "`rate_per_second`")
CREATE_SCHEDULE = Quota("EventBridge Scheduler", "CreateSchedule a second", 5_000, "Service Quotas")
SCHEDULES = Quota("EventBridge Scheduler", "schedules", 10_000_000, "Service Quotas")
FIRED = Quota("EventBridge Scheduler", "invocations a second", 1_000, "Service Quotas")
QUOTAS = (TABLE, BY_WORKFLOW, BY_STATE, LAMBDA, POLLERS, GATEWAY, STAGE, CREATE_SCHEDULE, SCHEDULES, FIRED)
RAMP_FIRST, RAMP_PER_SECOND = 5, 300 / 60  # how many batches of a queue Lambda takes at once, and how that grows


@dataclass(frozen=True, slots=True)
class Use:
    """How much of a quota a load needs."""

    quota: Quota
    needed: float

    @property
    def share(self) -> float:
        return self.needed / self.quota.most


@dataclass(frozen=True, slots=True)
class Starts:
    """Runs of a chain of small steps, begun at a steady rate."""

    rate: float = 1_000
    steps: int = 10
    step_seconds: float = 0.1
    workflows: int = 1
    sleeps: int = 0  # of more than fifteen minutes, in each run

    @property
    def workers(self) -> float:
        return self.rate * self.steps * (self.step_seconds + WRITE_SECONDS)

    def uses(self) -> list[Use]:
        """What each second of it needs, the fullest first."""
        units = HEADER_UNITS + STEP_UNITS * self.steps
        return _fullest(
            Use(TABLE, self.rate * units),
            Use(BY_WORKFLOW, self.rate * WORKFLOW_UNITS / self.workflows),
            Use(BY_STATE, self.rate * STATE_UNITS / STATE_PARTITIONS),
            Use(LAMBDA, self.workers + self.rate * CALL_SECONDS),
            Use(POLLERS, self.workers),
            Use(GATEWAY, self.rate),
            Use(STAGE, self.rate),
            Use(CREATE_SCHEDULE, self.rate * self.sleeps),
        )

    def ramp_seconds(self) -> float:
        """How long Lambda takes to poll the queue with as many as are needed."""
        return max(min(self.workers, POLLERS.most) - RAMP_FIRST, 0) / RAMP_PER_SECOND


@dataclass(frozen=True, slots=True)
class Items:
    """One run that forks into `outer` branches, each of which forks into `inner` branches of one small step."""

    outer: int = 1_000
    inner: int = 1_000
    step_seconds: float = 0.01

    @property
    def items(self) -> int:
        return self.outer * self.inner

    @property
    def pages(self) -> int:
        """Hundreds that report to their fork: those of forks with more than one."""
        return self.outer * _pages(self.inner) + _pages(self.outer)

    @property
    def units(self) -> int:
        return BRANCH_UNITS * self.items + FORK_UNITS * (self.outer + 1) + PAGE_UNITS * self.pages

    @property
    def begun(self) -> int:
        """Branches that share a message to their end; those not begun after 0.2 s get messages of their own."""
        in_time = ceil(FORK_SHARED_MS / SECOND_MS / self.branch_seconds)
        return min(self.inner, FORK_CHUNK, in_time)

    @property
    def messages(self) -> int:
        """Each is an invocation."""
        shared = self.outer * ceil(self.inner / FORK_CHUNK)
        handed_over = self.outer * max(self.inner - ceil(self.inner / FORK_CHUNK) * self.begun, 0)
        return shared + handed_over + ceil(self.outer / FORK_CHUNK) + 1

    @property
    def branch_seconds(self) -> float:
        return self.step_seconds + BRANCH_UNITS * WRITE_SECONDS

    def seconds(self, at_once: int = POLLERS.most) -> float:
        """Until all are done, with as many invocations at once as one queue gets, which grow at Lambda's rate."""
        work = self.items * self.branch_seconds
        ramp = (at_once - RAMP_FIRST) / RAMP_PER_SECOND
        done_in_ramp = RAMP_FIRST * ramp + RAMP_PER_SECOND * ramp**2 / 2
        if work > done_in_ramp:
            return ramp + (work - done_in_ramp) / at_once
        return (sqrt(RAMP_FIRST**2 + 2 * RAMP_PER_SECOND * work) - RAMP_FIRST) / RAMP_PER_SECOND

    def usd(self, prices: Prices) -> float:
        """Of the table, the queue and the invocations, without the time of the steps."""
        requests = (2 + 1 / 10) * self.messages  # received and deleted one by one, sent in tens
        millions = (
            self.units * prices.million_write_units
            + requests * prices.million_queue_requests
            + self.messages * prices.million_lambda_requests
        )
        return millions / 1e6


@dataclass(frozen=True, slots=True)
class Waiting:
    """Runs that wait, for weeks; `with_timer` of them until a time that is more than fifteen minutes away."""

    runs: int = 10_000_000
    with_timer: float = 1.0

    @property
    def gigabytes(self) -> float:
        return self.runs * WAITING_BYTES / 1e9

    @property
    def usd_a_month(self) -> float:
        return self.gigabytes * GB_MONTH_USD

    def uses(self) -> list[Use]:
        return [Use(SCHEDULES, self.runs * self.with_timer)]

    def wake_seconds(self) -> float:
        """How long it takes until all have woken that were to wake at one time."""
        return self.runs * self.with_timer / FIRED.most

    def met_a_second(self) -> float:
        """How many new runs that live on the sweeper can look at, a second: the first time, it reads their logs."""
        return 1 / (MET_REQUESTS * WRITE_SECONDS) * SWEEP_SECONDS / 300


def _pages(width: int) -> int:
    pages = ceil(width / PAGE_BRANCHES)
    return pages if pages > 1 else 0


def _fullest(*uses: Use) -> list[Use]:
    return sorted((use for use in uses if use.needed), key=lambda use: -use.share)


def rows(uses: Sequence[Use]) -> list[list[str]]:
    """For a table: what is needed of each quota, and what to do where it is not enough."""
    return [
        [use.quota.service, use.quota.name, f"{use.needed:,.0f}", f"{use.quota.most:,}", f"{use.share:.0%}",
         use.quota.raise_it if use.share > 0.8 else ""]
        for use in uses
    ]  # fmt: skip


HEAD = ["service", "quota", "needed", "a new account has", "share", "to raise it"]


def main() -> None:
    """Prints what the load needs."""
    parser = argparse.ArgumentParser(prog="benchmarks/scale.py", description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    starts, items, waiting = (kinds.add_parser(kind) for kind in ("starts", "items", "waiting"))
    for name, default in (("rate", 1_000.0), ("steps", 10), ("step-seconds", 0.1), ("workflows", 1), ("sleeps", 0)):
        starts.add_argument(f"--{name}", type=type(default), default=default)
    for name, default in (("outer", 1_000), ("inner", 1_000), ("step-seconds", 0.01)):
        items.add_argument(f"--{name}", type=type(default), default=default)
    for name, default in (("runs", 10_000_000), ("with-timer", 1.0)):
        waiting.add_argument(f"--{name}", type=type(default), default=default)
    given = vars(parser.parse_args())
    kind = given.pop("kind")
    if kind == "items":
        _print_items(Items(**given))
        return
    load = Starts(**given) if kind == "starts" else Waiting(**given)
    for row in [HEAD, *rows(load.uses())]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, (22, 50, 10, 18, 6, 0), strict=True)).rstrip())
    if isinstance(load, Waiting):
        print(f"{load.gigabytes:,.0f} GB: {load.usd_a_month:,.2f} USD a month")
        print(f"all that wake at one time have woken after {load.wake_seconds():,.0f} s")
        print(f"the sweeper looks at {load.met_a_second():,.0f} new ones a second")
    else:
        print(f"the queue's pollers have grown to it after {load.ramp_seconds():,.0f} s")


def _print_items(load: Items) -> None:
    if max(load.outer, load.inner) > FORK_WIDTH:
        raise SystemExit(f"a fork has at most {FORK_WIDTH:,} branches")
    print(
        f"{load.items:,} items: {load.units:,} write units, {load.messages:,} invocations, {load.usd(Prices()):.2f} USD"
        f" beside the time of the steps; done in {load.seconds():,.0f} s"
    )


if __name__ == "__main__":
    main()
