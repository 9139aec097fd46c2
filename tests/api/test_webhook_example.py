"""The webhooks of examples/order: the payment that a run waits for comes as a signed call."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from stepwell.api.resolver import app_of
from stepwell.api.webhooks.route import webhook_routes
from stepwell.api.webhooks.sources import sources_of
from stepwell.runtime.folder.loading import load_folder
from stepwell.runtime.steps.secrets import EnvironmentSecrets, SecretsByKind
from stepwell.testing.backend import START
from stepwell.testing.kit import Stepwell
from tests.api.kit import event
from tests.api.webhook_kit import standard

ORDER = Path(__file__).resolve().parents[2] / "examples" / "order"
KEY = b"what the relay signs with"


def test_the_payment_comes_as_a_webhook_twice_and_is_booked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_DATA", str(tmp_path))
    shop = Stepwell(ORDER)
    run = shop.start("order", json.loads((ORDER / "events" / "order.json").read_text()))
    run.approve(by="ana")
    secrets = EnvironmentSecrets({"PAYMENTS_SECRET": "whsec_" + base64.b64encode(KEY).decode()})
    sources = sources_of(load_folder(ORDER).webhooks, SecretsByKind({"env": secrets}))
    app = app_of(shop._parts, webhook_routes(lambda: sources))

    def deliver(key: bytes) -> int:
        body = (ORDER / "events" / "payment_intent.succeeded.json").read_bytes()
        headers = standard(body, key=key, at=int(START.timestamp()))
        return int(app.resolve(event("POST", "/webhooks/payments", body, headers=headers))["statusCode"])

    assert deliver(b"a guess") == 401
    assert run.view["current_steps"] == ["payment"]
    assert [deliver(KEY), deliver(KEY)] == [202, 202]
    assert run.phase == "sleeping"
    shop.advance("3s")
    assert run.status == "completed"
    assert sum(entry["type"] == "event.received" for entry in run.history) == 1
