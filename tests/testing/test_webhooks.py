"""A test sends webhooks as their senders do: the kit signs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.errors import PortError
from stepwell.testing.kit import Stepwell

SOURCES = """
sources:
  sites: {scheme: hmac, secret: "env:SECRET", header: X-Signature, event: "'ready'", key: body.site}
  pushes: {scheme: github, secret: "env:SECRET", event: "headers['x-github-event']", key: body.site}
  paid: {scheme: stripe, secret: "env:SECRET", event: "'ready'", key: body.site}
  texts: {scheme: twilio, secret: "env:SECRET", event: "'ready'", key: body.site}
  open: {scheme: none, secret: none, event: "'ready'", key: body.site}
"""
WAITS = 'workflow: build\ntimeline: [{name: hold, wait: {for: event, name: ready, key: "{{ input.site }}"}}]'
BODY = {"site": "dock", "id": "d-1"}


@pytest.fixture
def stepwell(tmp_path: Path) -> Stepwell:
    (tmp_path / "webhooks.yaml").write_text(SOURCES)
    (tmp_path / "build.yaml").write_text(WAITS)
    return Stepwell(tmp_path)


@pytest.mark.parametrize(("source", "status"), [("sites", 202), ("paid", 202), ("texts", 200), ("open", 202)])
def test_a_body_that_is_no_text_is_sent_as_signed_json(stepwell: Stepwell, source: str, status: int) -> None:
    run = stepwell.start("build", {"site": "dock"})
    assert stepwell.webhooks({"SECRET": "hush"}).deliver(source, BODY) == status
    assert (run.status, run.steps["hold"].output) == ("completed", BODY)


def test_headers_without_a_signature_are_sent_beside_it(stepwell: Stepwell) -> None:
    run = stepwell.start("build", {"site": "dock"})
    assert stepwell.webhooks({"SECRET": "hush"}).deliver("pushes", BODY, {"X-GitHub-Event": "ready"}) == 202
    assert run.status == "completed"


def test_a_signature_of_the_test_s_own_is_left_as_it_is(stepwell: Stepwell) -> None:
    assert stepwell.webhooks({"SECRET": "hush"}).deliver("sites", BODY, {"X-Signature": "0" * 64}) == 401


def test_each_delivery_has_an_id_of_its_own(stepwell: Stepwell) -> None:
    webhooks = stepwell.webhooks({"SECRET": "hush"})
    runs = [stepwell.start("build", {"site": "dock"}) for _ in range(2)]
    for _ in runs:
        webhooks.deliver("pushes", BODY, {"x-github-event": "ready"})
    assert [run.status for run in runs] == ["completed", "completed"]


def test_an_unknown_source_answers_404_and_a_secret_that_is_not_given_is_named(stepwell: Stepwell) -> None:
    assert stepwell.webhooks({}).deliver("site", BODY) == 404
    with pytest.raises(PortError, match="no secret of sites can be read here: env:SECRET"):
        stepwell.webhooks({}).deliver("sites", BODY)
