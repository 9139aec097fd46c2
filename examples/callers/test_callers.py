"""Two programs that call Stepwell, tested in process: no server, no AWS, no waiting."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from stepwell.testing.kit import Stepwell

Visit = Callable[..., httpx.Response]


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the programs and `refunds` importable, as they are where a program runs in this folder."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.fixture
def visit(stepwell: Stepwell, modules: None) -> Visit:
    """Calls the service, whose client calls the testing kit."""
    service = importlib.import_module("service")

    service.app.dependency_overrides[service.stepwell] = stepwell.async_client

    def visit(method: str, path: str, **more: Any) -> httpx.Response:
        async def main() -> httpx.Response:
            transport = httpx.ASGITransport(app=service.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://service") as browser:
                return await browser.request(method, path, **more)

        return asyncio.run(main())

    return visit


def test_a_small_refund_is_paid_at_once(visit: Visit) -> None:
    made = visit("POST", "/refunds", json={"order_id": "A-1", "amount_cents": 500})
    assert (made.status_code, made.json()) == (202, {"id": "refund-A-1"})
    assert visit("GET", "/refunds/refund-A-1").json() == {
        "status": "completed",
        "decision": {"paid_cents": 500, "why": "small enough"},
    }


def test_a_large_refund_waits_for_a_person(visit: Visit) -> None:
    visit("POST", "/refunds", json={"order_id": "A-2", "amount_cents": 90_000})
    assert visit("GET", "/refunds/refund-A-2").json() == {"status": "waiting", "decision": None}
    assert visit("POST", "/refunds/refund-A-2/approval", params={"by": "ana"}).status_code == 200
    assert visit("GET", "/refunds/refund-A-2").json()["decision"]["why"] == "approved by ana"
    assert visit("POST", "/refunds/refund-A-2/approval", params={"by": "ben"}).status_code == 409


def test_a_second_click_starts_nothing_and_another_amount_is_refused(visit: Visit, stepwell: Stepwell) -> None:
    for _ in range(2):
        assert visit("POST", "/refunds", json={"order_id": "A-3", "amount_cents": 500}).status_code == 202
    assert visit("POST", "/refunds", json={"order_id": "A-3", "amount_cents": 600}).status_code == 409
    assert len(stepwell.runs("refund")) == 1
    assert visit("GET", "/refunds/refund-A-4").status_code == 404


def test_the_function_starts_a_run_for_each_message_once(
    stepwell: Stepwell, modules: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = importlib.import_module("function")

    client = stepwell.client()
    monkeypatch.setattr(function, "stepwell", lambda: client)
    good = {"messageId": "m1", "body": json.dumps({"order_id": "A-1", "amount_cents": 500})}
    bad = {"messageId": "m2", "body": "no claim"}
    for _ in range(2):
        assert function.handler({"Records": [good, bad]}, None) == {"batchItemFailures": [{"itemIdentifier": "m2"}]}
    (run,) = stepwell.runs("refund")
    assert run.result == {"paid_cents": 500, "why": "small enough"}
