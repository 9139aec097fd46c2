"""An API over plain memory and a virtual clock: calls are the events that an API Gateway HTTP API sends."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import count
from typing import Any
from urllib.parse import urlencode

from stepwell.api.routes import create_app
from stepwell.definition.compiler import compile_definition, compile_document
from stepwell.definition.expressions import compile_expression
from stepwell.definition.graph import Graph, Json
from stepwell.engine.actions import Outcome
from stepwell.engine.records import Failure
from stepwell.memory.clocks import VirtualClock
from stepwell.memory.inbox import ALL_LANES
from stepwell.memory.queue import MemoryQueue
from stepwell.memory.store import MemoryStore
from stepwell.runtime.assembly import assemble
from stepwell.runtime.calls.links import Links
from stepwell.runtime.catalog import Catalog
from stepwell.runtime.dispatch import dispatch
from stepwell.runtime.log.door import Unlimited
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.steps.port import StepCall
from stepwell.testing.backend import ports_of
from tests.runtime.kit import PlainSteps

START_MS = 1_800_000_000_000
URL = "https://api.example.com"

ORDER = """
workflow: order
input_schema: {type: object, properties: {amount: {type: integer}}}
timeline:
  - {name: charge, run: python:shop.charge, timeout: 1m, retry: {max_retries: 2, backoff: constant, initial_delay: 5s}}
  - {name: approve, wait: {for: approval, data: {amount: "{{ state.charge.charged }}"}}}
  - {name: nap, sleep: 60s}
  - {name: ship, run: python:shop.ship, timeout: 1m}
"""
PAID = """
workflow: paid
nodes:
  wait: {wait: {for: event, name: paid, key: "{{ input.order }}"}, transitions: [{to: done}]}
  done: {}
"""
QUICK = """
workflow: quick
nodes:
  work: {run: python:shop.charge, timeout: 1m}
"""
FAILS = """
workflow: fails
nodes:
  work: {run: python:shop.fails, timeout: 1m}
"""


@cache
def graph_of(text: str) -> Graph:
    """The graph of a definition without errors."""
    compiled = compile_definition(text, "inline.yaml")
    assert compiled.graph is not None, compiled.problems
    return compiled.graph


class FakeSteps(PlainSteps):
    """Steps as functions of their call. `flaky` fails until it was tried as often as `failures` says."""

    def __init__(self) -> None:
        self.failures = 0
        self.functions: dict[str, Callable[[StepCall], Outcome]] = {
            "python:shop.charge": self._charge,
            "python:shop.ship": lambda call: Outcome({"shipped": True}),
            "python:shop.fails": lambda call: Outcome(failure=Failure("Broken", "step", "no luck", call.node)),
        }

    async def run(self, call: StepCall) -> Outcome:
        return self.functions[call.run](call)

    def _charge(self, call: StepCall) -> Outcome:
        if call.attempt <= self.failures:
            return Outcome(failure=Failure("ConnectionError", "transient", "try later", call.node, call.attempt))
        return Outcome({"charged": call.input.get("amount", 0)})


class Reply:
    """What came back."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        self.status: int = raw["statusCode"]
        self.headers: dict[str, str] = raw["headers"]
        self.text: str = raw["body"] or ""

    @property
    def json(self) -> Json:
        return json.loads(self.text)


class World:
    """The API and everything behind it; `drain` is the workers."""

    def __init__(self, *definitions: str) -> None:
        self.clock = VirtualClock(START_MS)
        self.store, self.queue = MemoryStore(), MemoryQueue(self.clock)
        self.steps = FakeSteps()
        graphs = [graph_of(text) for text in definitions or (ORDER, PAID, QUICK, FAILS)]
        self.link_keys = [b"a key of this test that signs its links"]
        numbers = count(1)
        self.parts = assemble(
            ports_of(self.store, self.queue, self.clock),
            Catalog(partial(compile_document, trusted=True), graphs),
            self.steps,
            compile_expression=compile_expression,
            new_id=lambda: f"{next(numbers):026d}",
            jitter=lambda: 0.5,
            links=Links(URL, lambda: self.link_keys),
        )
        self.app = create_app(self.parts)

    def send(self, event: Mapping[str, Any]) -> Reply:
        return Reply(self.app.resolve(dict(event)))

    def get(self, path: str, /, **query: Any) -> Reply:
        return self.send(event("GET", path, query=urlencode(query)))

    def post(self, path: str, body: Json = None, headers: Mapping[str, str] | None = None, **query: Any) -> Reply:
        text = None if body is None else json.dumps(body)
        return self.send(event("POST", path, text, headers=headers, query=urlencode(query)))

    def delete(self, path: str, **query: Any) -> Reply:
        return self.send(event("DELETE", path, query=urlencode(query)))

    def start(self, workflow: str = "order", **body: Any) -> str:
        """A run that stands where it can go no further without time or a caller."""
        reply = self.post(f"/workflows/{workflow}/runs", body)
        assert reply.status == 201, reply.text
        self.drain()
        run_id: str = reply.json["run_id"]
        return run_id

    def open(self, method: str, url: str, body: str = "", **headers: str) -> Reply:
        """What somebody outside sends to a link that they were given."""
        assert url.startswith(URL)
        return self.send(event(method, url.removeprefix(URL), body, headers=headers))

    def stored(self) -> str:
        """All that the store and the queue hold, to be compared."""
        logs = {place: log.records for place, log in self.store._logs.items()}
        held = {**vars(self.store), "_logs": logs}
        return repr((held, self.queue.pending()))

    def drain(self) -> None:
        """Handles every message that is due."""
        while self.turn():
            pass

    def turn(self) -> bool:
        """Handles one message, and returns whether one was due."""
        delivery = self.queue.receive(ALL_LANES, self.clock.now_ms(), 60_000)
        if delivery is None:
            return False
        run_now(dispatch(self.parts, delivery.lane, delivery.message, Unlimited(delivery.deliveries)))
        self.queue.delete(delivery)
        return True

    def advance(self, seconds: float) -> None:
        """So much time goes by, and what became due is handled."""
        self.clock.advance(int(seconds * 1000))
        self.drain()


def event(
    method: str,
    path: str,
    body: str | bytes | None = None,
    *,
    query: str = "",
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The event of one call; a body of bytes goes in base64, as one that is not text does."""
    text = base64.b64encode(body).decode() if isinstance(body, bytes) else body
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "headers": {"content-type": "application/json", **(headers or {})},
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "api-id",
            "http": {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1", "userAgent": ""},
            "requestId": "id",
            "stage": "$default",
            "time": "12/Mar/2020:19:03:58 +0000",
            "timeEpoch": START_MS,
        },
        "body": text,
        "isBase64Encoded": isinstance(body, bytes),
    }
