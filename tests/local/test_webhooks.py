"""Webhooks on the dev server: served from the folder, with secrets from the environment, reloaded on change."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from pathlib import Path

import pytest

from stepwell.local.webhooks import LocalWebhooks
from tests.local.kit import Dev, until

Start = Callable[[], Dev]

PAID = "workflow: paid\nnodes:\n  wait: {wait: {for: event, name: paid, key: '{{ input.order }}'}}\n"
SOURCES = """
sources:
  shop: {scheme: hmac, secret: [env:WEBHOOK_TEST_SECRET, "ssm:/shop"], header: X-Signature, event: "'paid'",
         key: body.order}
"""
BODY = b'{"order": "A-1"}'
SIGNED = {"x-signature": hmac.new(b"on this machine", BODY, hashlib.sha256).hexdigest()}


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBHOOK_TEST_SECRET", "on this machine")


def test_a_signed_call_ends_the_wait_of_a_run(dev: Start, folder: Path) -> None:
    (folder / "paid.yaml").write_text(PAID)
    (folder / "webhooks.yaml").write_text(SOURCES)
    server = dev()
    assert server.call("POST", "/workflows/paid/runs", {"run_id": "r1", "input": {"order": "A-1"}})[0] == 201
    assert server.call("POST", "/webhooks/shop", BODY, **SIGNED)[0] == 202
    assert server.call("GET", "/runs/r1/result?wait=20")[0] == 200
    assert "cannot be read here" not in server.errors  # one secret is enough
    assert "on this machine" not in server.errors


def test_a_source_without_a_secret_that_can_be_read_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """With each of its secrets, and what to do."""
    document = {"sources": {"shop": {"scheme": "github", "secret": ["ssm:/shop", "env:GONE"], "event": "'paid'"}}}
    LocalWebhooks({}).replace(document)
    assert [record.getMessage() for record in caplog.records] == [
        "webhook shop: ssm:/shop cannot be read here (what can be read is env; list such a secret too)",
        "webhook shop: the variable GONE is not set (set GONE)",
    ]


def test_a_form_is_signed_over_its_bytes(dev: Start, folder: Path) -> None:
    (folder / "webhooks.yaml").write_text(SOURCES)
    body = "order=A-1&who=grüße".encode()
    signature = hmac.new(b"on this machine", body, hashlib.sha256).hexdigest()
    form = {"content-type": "application/x-www-form-urlencoded", "x-signature": signature}
    assert dev().call("POST", "/webhooks/shop", body, **form)[0] == 202


def test_changed_webhooks_are_taken_up(dev: Start, folder: Path) -> None:
    server = dev()
    assert server.call("POST", "/webhooks/shop", BODY, **SIGNED)[0] == 404
    (folder / "webhooks.yaml").write_text(SOURCES)
    until(lambda: server.call("POST", "/webhooks/shop", BODY, **SIGNED)[0] == 202, "the new source")
    (folder / "webhooks.yaml").write_text(SOURCES.replace("hmac", "hamc"))
    until(lambda: "unknown scheme 'hamc'" in server.errors, "the error")
    assert server.call("POST", "/webhooks/shop", BODY, **SIGNED)[0] == 202  # the last good version stays
    (folder / "webhooks.yaml").unlink()
    until(lambda: server.call("POST", "/webhooks/shop", BODY, **SIGNED)[0] == 404, "its removal")
