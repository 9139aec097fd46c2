"""The tour: an order goes through `stepwell dev`, which is killed twice on the way, and the order does not notice.

Starts the server as a process of its own, talks to it over HTTP, and checks every claim that it prints.
Exit status: 0, or 1 with what was not as it must be.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).resolve().parent / "order"
DATA = EXAMPLE.parent.parent / ".stepwell" / "tour"
SHOP_SECONDS = 1.0  # how long the shop's carrier, ledger and mail server take: long enough to be killed in
DEADLINE_SECONDS = 60.0  # for any one thing to happen
STEPS = ("validate", "charge", "ship", "confirm")  # the nodes that run code
_DEV = "from stepwell.cli.main import main; main()"
BEGAN = time.monotonic()

Json = Any


class TourError(Exception):
    """Something is not as it must be."""


def main() -> int:
    """Runs the tour."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the server is ended on the way out
    try:
        with closing(Server()) as server:
            tour(server)
    except TourError as error:
        print(f"\nThis is not as it must be: {error}", file=sys.stderr)
        print(f"What the server said is in {Server.log}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 1
    return 0


def tour(server: Server) -> None:
    """The whole story."""
    number = f"A-{secrets.token_hex(3)}"
    print(f"An order over 1229.50 EUR. It needs a manager, a payment and a carrier; each takes its time.\n{'-' * 88}")
    server.start()
    say(f"`stepwell dev examples/order` serves at {server.url} (process {server.process_id})")
    run = start_order(server, number)
    survive_while_waiting(server, run)
    approve_and_pay(server, run, number)
    survive_inside_a_step(server, run, number)
    wait_for_end(server, run)
    show_history(server, run)
    show_counts(server, run, number)
    say_what_next(run)


def start_order(server: Server, number: str) -> str:
    """A run of the order, as far as its approval."""
    order = {**json.loads((EXAMPLE / "events" / "order.json").read_text()), "order_id": number}
    run: str = server.call("POST", "/workflows/order/runs", {"input": order}, **{"idempotency-key": number})["run_id"]
    say(f"POST /workflows/order/runs: order {number} is the run {run}", server.view(run))
    view = server.until(run, lambda view: view["waiting_for"] == "approval", "the wait for an approval")
    say("validate has added the order up: over 1000.00, so a manager has to approve it", view)
    return run


def survive_while_waiting(server: Server, run: str) -> None:
    """A kill while nothing runs: what was known before is known after."""
    before = server.view(run)
    server.kill()
    say(f"kill -9 {server.process_id}: the server is gone, with everything that was in its memory")
    server.start()
    after = server.view(run)
    check(_known(before) == _known(after), f"the run was {_known(before)} before the kill and is {_known(after)}")
    say(f"started again (process {server.process_id}): the run is where it was, validate is not run again", after)


def approve_and_pay(server: Server, run: str, number: str) -> None:
    """A person's answer, then Stripe's webhook body as an event."""
    server.call("POST", f"/runs/{run}/approve", {"by": "ana", "data": {"cost_center": "4711"}})
    view = server.until(run, lambda view: view["current_steps"] == ["payment"], "the wait for the payment")
    say(f"POST /runs/{run[:10]}.../approve, by ana: now it needs the money", view)
    recorded = (EXAMPLE / "events" / "payment_intent.succeeded.json").read_text()
    body = json.loads(recorded.replace("A-1001", number).replace("A1001", number.replace("-", "")))
    event = {"name": "stripe.payment_intent.succeeded", "key": number, "id": body["id"], "payload": body}
    server.call("POST", "/events", event)
    view = server.until(run, lambda view: view["current_steps"] == ["charge"], "the payment to be taken")
    say(f"POST /events: Stripe's payment_intent.succeeded, key {number}", view)
    server.call("POST", "/events", event)
    say("POST /events: the same once more, as Stripe does when in doubt: it changes nothing", server.view(run))


def survive_inside_a_step(server: Server, run: str, number: str) -> None:
    """The worst moment: the carrier has the parcel, and the run does not know it yet."""
    wait_until(lambda: asked("parcels", number) == [1], "the carrier to have the parcel")
    view = server.view(run)
    check(view["current_steps"] == ["ship"], f"the run is at {view['current_steps']}, not in the middle of ship")
    say("charge has booked the payment; ship has told the carrier, and waits for the answer", view)
    server.kill()
    say(f"kill -9 {server.process_id}: in the middle of ship, which the carrier knows of and the run does not")
    server.start()
    say(
        f"started again (process {server.process_id}): ship runs again, with the same idempotency key", server.view(run)
    )
    view = server.until(run, lambda view: view["phase"] == "sleeping", "the sleep after ship")
    times = asked("parcels", number)
    check(len(times) == 1 and times[0] > 1, f"the carrier was asked {times} times for {len(times)} parcels")
    say(f"the carrier was asked {times[0]} times and has one parcel; the run sleeps 3 s, which costs nothing", view)


def wait_for_end(server: Server, run: str) -> None:
    """The rest happens by itself."""
    view = server.until(run, lambda view: view["ended_at"] is not None, "the end of the run")
    say(f"confirm has written to the customer: {json.dumps(view['result'])}", view)
    check(view["status"] == "completed", f"the run is {view['status']}: {view['error']}")


def show_history(server: Server, run: str) -> None:
    """GET /runs/{id}/history as a table."""
    print(f"\nGET /runs/{run}/history\n")
    print(f"  {'after':>8}  {'what':<20} {'step':<9} {'try':<4} {'more'}")
    began = None
    for entry in server.history(run):
        at = datetime.fromisoformat(entry["at"])
        began = began or at
        since = f"{(at - began).total_seconds():.3f} s"
        columns = f"{entry['type']:<20} {entry['step'] or '':<9} {entry['attempt'] or '':<4}"
        print(f"  {since:>8}  {columns} {_more(entry)}".rstrip())


def show_counts(server: Server, run: str, number: str) -> None:
    """Once each: in the history, and in the world outside."""
    committed = Counter(entry["step"] for entry in server.history(run) if entry["type"] == "step.completed")
    print("\nWhat the two kills left behind:\n")
    for step in STEPS:
        print(f"  {step:<9} committed {committed[step]} time{'' if committed[step] == 1 else 's'}")
        check(committed[step] == 1, f"{step} was committed {committed[step]} times")
    outside = {"ledger": "payments booked", "parcels": "parcels", "mails": "mails to the customer"}
    for table, what in outside.items():
        times = asked(table, number)
        again = f" (asked for {times[0]} times, under one key)" if times and times[0] > 1 else ""
        print(f"  {what:<24} {len(times)}{again}")
        check(len(times) == 1, f"there are {len(times)} {what}, not 1")


def say_what_next(run: str) -> None:
    """Commands that work as they stand."""
    uv = "uv run" if shutil.which("uv") else ".uv/bin/uv run"
    print(f"""
Next: serve the same runs, and look at them from a second terminal
  {uv} stepwell dev examples/order --data .stepwell/tour
  {uv} stepwell history {run}
  {uv} stepwell run order -i examples/order/events/order.json --watch
the same in virtual time, in milliseconds
  {uv} pytest examples
and why it holds: docs/concepts.md""")


class Server:
    """`stepwell dev examples/order` as a process of its own, on any free port."""

    log = DATA / "server.log"

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    @property
    def process_id(self) -> int:
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Returns once it serves."""
        DATA.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-c", _DEV, "dev", str(EXAMPLE), "--data", str(DATA), "--port", "0", "--no-reload"]
        environment = {**os.environ, "SHOP_DATA": str(DATA / "shop"), "SHOP_SECONDS": str(SHOP_SECONDS)}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  this Python, our own folder
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
            )
        late = threading.Timer(DEADLINE_SECONDS, self._process.kill)
        late.start()
        line = self._process.stdout.readline() if self._process.stdout else ""
        late.cancel()
        if not line.startswith("ready "):
            last = self.log.read_text(errors="replace").strip().splitlines()[-1:]
            raise TourError(f"the server did not start: {' '.join(last) or 'it said nothing'}")
        self.url = line.removeprefix("ready ").strip()

    def kill(self) -> None:
        """kill -9: no goodbye, nothing is written."""
        if self._process:
            self._process.kill()
            self._process.wait(DEADLINE_SECONDS)

    def close(self) -> None:
        """Never leaves a process behind."""
        self.kill()
        if self._process and self._process.stdout:
            self._process.stdout.close()

    def call(self, method: str, path: str, body: Json = None, **headers: str) -> Json:
        """One call of the HTTP API."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310  our own server
            self.url + path, data, {"content-type": "application/json", **headers}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_SECONDS) as answer:  # noqa: S310
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                raise TourError(f"{method} {path} was answered {error.code}: {error.read().decode()}") from error
        except OSError as error:
            raise TourError(f"{method} {path} was not answered: {error}") from error

    def view(self, run: str) -> Mapping[str, Json]:
        """GET /runs/{id}."""
        view: Mapping[str, Json] = self.call("GET", f"/runs/{run}")
        return view

    def history(self, run: str) -> list[Mapping[str, Json]]:
        """GET /runs/{id}/history."""
        entries: list[Mapping[str, Json]] = self.call("GET", f"/runs/{run}/history?limit=500")["items"]
        return entries

    def until(self, run: str, look: Callable[[Mapping[str, Json]], bool], what: str) -> Mapping[str, Json]:
        """The run, as soon as it looks like this."""
        view: Mapping[str, Json] = {}

        def seen() -> bool:
            nonlocal view
            view = self.view(run)
            check(not view["ended_at"] or look(view), f"the run ended, {view['status']}: {view['error']}")
            return look(view)

        wait_until(seen, what)
        return view


def wait_until(look: Callable[[], bool], what: str) -> None:
    """Polls; raises TourError when the time is up."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not look():
        if time.monotonic() > end:
            raise TourError(f"waited {DEADLINE_SECONDS:g} s for {what}, in vain")
        time.sleep(0.03)


def asked(table: str, number: str) -> list[int]:
    """How often the world outside was asked for each thing that it has done for this order."""
    column = {"mails": "text LIKE '%' || ? || '%'"}.get(table, "order_id = ?")
    with closing(sqlite3.connect(DATA / "shop" / "backoffice.db", timeout=10)) as database:
        try:
            rows = database.execute(f"SELECT asked FROM {table} WHERE {column}", (number,))  # noqa: S608  our own words
        except sqlite3.OperationalError:
            return []  # nobody has used the table yet
        return [int(row[0]) for row in rows]


def check(holds: bool, otherwise: str) -> None:
    """Raises TourError unless it holds."""
    if not holds:
        raise TourError(otherwise)


def say(what: str, view: Mapping[str, Json] | None = None) -> None:
    """One line with the time, and one with what the run is now."""
    print(f"{time.monotonic() - BEGAN:5.1f} s  {what}", flush=True)
    if view is not None:
        print(f"         the run: {_state(view)}", flush=True)


def _state(view: Mapping[str, Json]) -> str:
    at = f" at {view['current_steps'][0]}" if view["current_steps"] else ""
    until = f" until {view['waiting_until'][:19].replace('T', ' ')}Z" if view["waiting_until"] else ""
    waits = f", for {view['waiting_for']}{until}" if view["waiting_for"] else ""
    return f"{view['status']}{at}{waits}, {view['progress']} done"


def _known(view: Mapping[str, Json]) -> Json:
    return {name: view[name] for name in ("status", "phase", "current_steps", "steps", "state", "waiting_until")}


def _more(entry: Mapping[str, Json]) -> str:
    data = entry["data"] if isinstance(entry["data"], dict) else {}
    match entry["type"]:
        case "step.completed":
            return f"next: {data['next'] or 'the end'}"
        case "approval.received":
            return f"by {entry['by']}"
        case "event.received":
            return str(data["name"])
        case "sleep.started" | "approval.requested" | "event.awaited":
            return f"until {data['until']}"
        case "run.completed":
            return json.dumps(data["result"])
        case _:
            return ""


if __name__ == "__main__":
    sys.exit(main())
