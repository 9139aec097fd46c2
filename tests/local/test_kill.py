"""`kill -9` of the dev server, again and again in the course of one run."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from stepwell.limits import DELIVERIES
from tests.local.kit import Dev, until

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "order"
KILLS = int(os.environ.get("KILLS", "10"))
APPROVED_AT, PAID_AT = KILLS // 4, KILLS // 2  # before which kill the run gets what it waits for
LONGEST_SECONDS = 0.5  # a server's life, once it serves; each step takes half of it
SEED = 17
CODE = ("validate", "charge", "ship", "confirm")
WOKEN = frozenset({"run.pending", "approval.received", "event.received", "timer.fired"})


def recorded(name: str) -> Any:
    return json.loads((EXAMPLE / "events" / f"{name}.json").read_text())


@contextmanager
def serving(folder: Path, data: Path) -> Iterator[Dev]:
    """A server that ends by kill -9, whatever happens."""
    server = Dev(folder, data)
    try:
        assert server.line.startswith("ready "), server.errors
        yield server
    finally:
        server.end(signal.SIGKILL)


def entries(server: Dev) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.call("GET", "/runs/a1/history?limit=500")[1]["items"]
    return found


def nudge(server: Dev, number: int) -> None:
    """The outside world's part: the start, the approval, the payment; each only once."""
    if number == 0:
        server.call("POST", "/workflows/order/runs", {"run_id": "a1", "input": recorded("order")})
    elif number == APPROVED_AT:
        until(lambda: server.call("GET", "/runs/a1")[1]["waiting_for"] == "approval", "the approval")
        assert server.call("POST", "/runs/a1/approve", {"by": "ana"})[0] == 200
    elif number == PAID_AT:
        body = recorded("payment_intent.succeeded")
        event = {"name": "stripe.payment_intent.succeeded", "key": "A-1001", "id": body["id"], "payload": body}
        assert server.call("POST", "/events", event)[0] == 202


def live(server: Dev, moments: random.Random, killed: Counter[int]) -> None:
    """Lets the server live for a moment. A message that kills its worker too often is given up: not in this test."""
    woken = sum(entry["type"] in WOKEN for entry in entries(server))
    if server.status("a1") in {"pending", "running"}:
        killed[woken] += 1
    if killed[woken] >= DELIVERIES - 1:
        killed[woken] = 0
        until(lambda: server.status("a1") not in {"pending", "running"}, "the step to end")
    time.sleep(moments.uniform(0, LONGEST_SECONDS))


def asked(folder: Path, table: str) -> list[int]:
    with closing(sqlite3.connect(folder / "backoffice.db")) as database:
        return [row[0] for row in database.execute(f"SELECT asked FROM {table}")]  # noqa: S608  our own words


def test_a_run_whose_server_is_killed_again_and_again_ends_right_and_does_everything_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, shop = tmp_path / "order", tmp_path / "shop"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("test_*", "__pycache__"))
    monkeypatch.setenv("SHOP_DATA", str(shop))
    monkeypatch.setenv("SHOP_SECONDS", str(LONGEST_SECONDS / 2))
    moments, killed = random.Random(SEED), Counter[int]()
    for number in range(KILLS):
        with serving(folder, tmp_path / "data") as server:
            nudge(server, number)
            live(server, moments, killed)
    with serving(folder, tmp_path / "data") as server:
        status, run = server.call("GET", "/runs/a1/result?wait=20")
        told = entries(server)
    assert (status, run["result"]) == (200, {"order_id": "A-1001", "tracking": "PX000001"})
    committed = Counter(entry["step"] for entry in told if entry["type"] == "step.completed")
    assert {step: committed[step] for step in CODE} == dict.fromkeys(CODE, 1)
    assert sum(entry["type"] == "run.completed" for entry in told) == 1
    for table in ("parcels", "ledger", "mails"):
        assert len(asked(shop, table)) == 1
    assert sum(killed.values()) > 0  # some kills met a step under way
