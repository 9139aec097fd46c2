"""The stores on DynamoDB and SQLite answer any sequence of calls as the one in memory does."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from stepwell.engine.records import Status
from stepwell.memory.store import MemoryStore
from stepwell.runtime.ports.headers import RunQuery, StatusChange
from tests.contract.emulated import dynamo_store
from tests.contract.kit import NOW_MS, ORDER, Store, event, header, run, sqlite_store, waiter
from tests.contract.on_moto import moto_store
from tests.contract.troubled import troubled_store

STATUSES = list(Status)


def call(rng: random.Random) -> Any:
    """A random call, as a function of the store."""
    run_id, number = f"r{rng.randrange(12)}", rng.randrange(6)
    status, workflow = rng.choice(STATUSES), f"w{rng.randrange(3)}"
    waits: dict[str, Any] = {"waiting_for": rng.choice(["event", "approval"]), "waiting_until_ms": NOW_MS + number}
    made = header(
        run_id, workflow=workflow, created_ms=NOW_MS + number, tags={"t": f"{number % 2}"}, input="x" * number * 300
    )
    due_ms = rng.choice([None, NOW_MS + rng.randrange(6)])
    change = StatusChange(
        run_id, rng.randrange(20), status, NOW_MS, due_ms=due_ms, **(waits if status is Status.WAITING else {})
    )
    query = RunQuery(
        workflow=rng.choice(["", "", workflow]),
        statuses=frozenset(rng.sample(STATUSES, rng.randrange(4))),
        tag=rng.choice([None, None, ("t", "1")]),
        since_ms=rng.choice([0, NOW_MS + number]),
        waiting_for=frozenset(rng.choice([(), (), (), ("event",)])),
        overdue_at_ms=rng.choice([None, None, None, NOW_MS + 3]),
        limit=rng.randrange(1, 6),
    )
    calls: list[Any] = [
        lambda store: store.create_run(made),
        lambda store: store.change_status(change),
        lambda store: store.get_run(run_id),
        lambda store: store.watch(run_id, due_ms),
        lambda store: store.watch(run_id, NOW_MS + number, run(store.get_run(run_id))),
        lambda store: store.list_due(NOW_MS + 3, number + 1),
        lambda store: store.list_runs(query),
        lambda store: store.stats(),
        lambda store: store.append(run_id, "0", number, f"body {number}"),
        lambda store: store.load(run_id, "0"),
        lambda store: store.save_snapshot(run_id, "0", number, f"{number}"),
        lambda store: store.read_log(run_id, "0", number - 2, 2),
        lambda store: store.put_event(event(f"e{number}", NOW_MS + number, payload=number)),
        lambda store: store.pending_events(ORDER, NOW_MS + 1_003),
        lambda store: store.append(run_id, "0", number, "resumed", consumes=(ORDER, f"e{number}")),
        lambda store: store.get_event(ORDER, f"e{number}"),
        lambda store: store.put_waiter(waiter(run_id, NOW_MS + number)),
        lambda store: store.forget_waiter(waiter(run_id)),
        lambda store: store.waiters(ORDER),
        lambda store: store.arrive(run_id, "j", f"{number}"),
    ]
    return rng.choice(calls)


def answer(store: Store, one: Any) -> Any:
    made = run(one(store))
    return list(made) if isinstance(made, list | tuple) else made


@pytest.mark.parametrize(
    ("opened", "seed"),
    [
        *((dynamo_store, seed) for seed in range(8)),
        *((troubled_store, seed) for seed in range(8, 10)),
        *((moto_store, seed) for seed in range(10, 11)),
        *((sqlite_store, seed) for seed in range(12, 18)),
    ],
)
def test_random_calls_get_the_same_answers(
    opened: Callable[[Path], AbstractContextManager[Store]], seed: int, tmp_path: Path
) -> None:
    rng, memory = random.Random(seed), MemoryStore()
    with opened(tmp_path) as other:
        for number in range(250):
            one = call(rng)
            assert answer(other, one) == answer(memory, one), f"call {number} of seed {seed}"
