"""`out:` of `webhooks.yaml`: what is taken, and every mistake with its place and what to do."""

from __future__ import annotations

import pytest

from stepwell.definition.webhooks import Webhooks, check_webhooks
from stepwell.runtime.notify.telling import TOLD

URL = "url: https://crm.example.com/hooks"


def checked(endpoint: str) -> Webhooks:
    return check_webhooks(f"out:\n  crm: {endpoint}\n", "webhooks.yaml", ("order", "refund"), TOLD)


def test_an_endpoint_is_told_of_runs_of_all_workflows_unless_it_says_otherwise() -> None:
    found = checked(f"{{{URL}, secret: env:CRM}}")
    assert found.problems == ()
    assert found.document is not None
    assert found.document["sources"] == {}
    crm = found.document["out"]["crm"]
    assert (crm["secret"], crm["workflows"]) == (["env:CRM"], None)
    assert crm["events"] == ["run.cancelled", "run.compensated", "run.completed", "run.created", "run.failed",
                             "run.forked", "run.paused", "run.redriven", "run.started", "run.timed_out",
                             "run.unpaused"]  # fmt: skip


def test_families_of_events_are_spelled_out() -> None:
    found = checked(f"{{{URL}, secret: env:CRM, events: ['approval.*', run.failed], workflows: [refund, order]}}")
    assert found.document is not None
    crm = found.document["out"]["crm"]
    assert crm["events"] == sorted([*(one for one in TOLD if one.startswith("approval.")), "run.failed"])
    assert crm["workflows"] == ["order", "refund"]
    every = checked(f"{{{URL}, secret: env:CRM, events: ['*']}}")
    assert every.document is not None
    assert every.document["out"]["crm"]["events"] == sorted(TOLD)


@pytest.mark.parametrize(
    ("endpoint", "code", "path", "hint"),
    [
        ("{secret: env:A}", "missing_key", "", "out: {crm:"),
        (f"{{{URL}}}", "missing_key", "", "write env:NAME"),
        ("{url: 'http://crm.example.com/', secret: env:A}", "bad_url", "/url", "write https://"),
        ("{url: 'https://a:b@crm.example.com/', secret: env:A}", "bad_url", "/url", "put credentials"),
        ("{url: 'https://10.0.0.1/', secret: env:A}", "bad_url", "/url", "call hosts by their names"),
        ("{url: 7, secret: env:A}", "wrong_type", "/url", "url: https://"),
        (f"{{{URL}, secret: whsec_aHVudGVyMg}}", "bad_secret", "/secret", "write env:NAME"),
        (f"{{{URL}, secret: [env:A, env:B, env:C, env:D, env:E, env:F]}}", "too_many_secrets", "/secret", "at most 5"),
        (f"{{{URL}, secret: env:A, events: [run.complete]}}", "unknown_event", "/events", "mean `run.completed`?"),
        (f"{{{URL}, secret: env:A, events: [step.started]}}", "unknown_event", "/events", "did you mean"),
        (f"{{{URL}, secret: env:A, events: ['rnu.*']}}", "unknown_event", "/events", "for example run.*"),
        (f"{{{URL}, secret: env:A, events: []}}", "wrong_type", "/events", "events: [run.*"),
        (f"{{{URL}, secret: env:A, workflows: [odrer]}}", "unknown_workflow", "/workflows", "did you mean `order`?"),
        (f"{{{URL}, secret: env:A, workflows: order}}", "wrong_type", "/workflows", "workflows: [order]"),
        (f"{{{URL}, secret: env:A, event: [run.failed]}}", "unknown_key", "/event", "did you mean `events`?"),
        ("https://crm.example.com", "wrong_type", "", "out: {crm:"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_what_to_do(endpoint: str, code: str, path: str, hint: str) -> None:
    found = checked(endpoint)
    assert found.document is None
    (problem,) = found.problems
    assert (problem.code, problem.path, problem.file) == (code, f"/out/crm{path}", "webhooks.yaml")
    assert problem.line == (0 if code == "bad_secret" else 2)
    assert hint in problem.hint
    assert "aHVudGVyMg" not in str(problem)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("out: []", "wrong_type"),
        ("out: {'a b': {url: 'https://a.example.com', secret: env:A}}", "bad_name"),
        ("out: {}\nsourcse: {}", "unknown_key"),
    ],
)
def test_what_is_no_part_of_webhooks_is_told(text: str, code: str) -> None:
    assert [one.code for one in check_webhooks(text, types=TOLD).problems] == [code]
