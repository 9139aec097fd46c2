"""`webhooks.yaml`: what is taken, and every mistake with its place and what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepwell.definition.webhooks import check_webhooks
from stepwell.errors import Problem
from stepwell.runtime.folder.loading import load_folder, load_webhooks

GOOD = """
sources:
  github: {scheme: github, secret: "secretsmanager:stepwell/github#key", event: "'github.' + headers['x-github-event']",
           key: "body.repository.full_name", id: "headers['x-github-delivery']"}
  shop:
    scheme: standard-webhooks
    secret: ["env:SHOP_SECRET", "ssm:/shop/old"]
    event: body.type
    payload: "{'order': body.data, 'test': query.test == '1'}"
  plain: {scheme: hmac, secret: env:PLAIN, header: X-Signature, digest: sha512, encoding: base64,
          workflow: order, input: body}
"""


def problem_of(source: str) -> Problem:
    """The one thing that is wrong with a source named s; all of it on line 2."""
    found = check_webhooks(f"sources:\n  s: {source}\n", "webhooks.yaml")
    assert found.document is None
    (problem,) = found.problems
    assert problem.file == "webhooks.yaml"
    return problem


def test_a_good_file_is_plain_json_with_its_secrets_as_lists() -> None:
    found = check_webhooks(GOOD, "webhooks.yaml")
    assert (found.problems, found.document is not None) == ((), True)
    assert json.loads(json.dumps(found.document)) == found.document
    assert found.document is not None
    assert found.document["sources"]["github"]["secret"] == ["secretsmanager:stepwell/github#key"]
    assert found.document["sources"]["shop"]["secret"] == ["env:SHOP_SECRET", "ssm:/shop/old"]


def test_an_unknown_scheme_is_refused_by_name_with_those_there_are() -> None:
    problem = problem_of("{scheme: strpe, secret: env:A, event: body.type}")
    assert (problem.code, problem.message) == ("unknown_scheme", "unknown scheme 'strpe'")
    assert problem.hint == (
        "the schemes are standard-webhooks, stripe, github, slack, shopify, twilio, docusign, hmac, basic, none"
    )
    assert (problem.path, problem.line, problem.column) == ("/sources/s/scheme", 2, 7)


@pytest.mark.parametrize(
    ("source", "code", "path"),
    [
        ("{secret: env:A, event: body.type}", "missing_key", "/sources/s"),
        ("{scheme: github, event: body.type}", "missing_key", "/sources/s"),
        ("{scheme: github, secret: [], event: body.type}", "missing_key", "/sources/s"),
        ("{scheme: github, secret: env:A}", "missing_key", "/sources/s"),
        ("{scheme: hmac, secret: env:A, event: body.type}", "missing_key", "/sources/s"),
        ("{scheme: [], secret: env:A, event: body.type}", "unknown_scheme", "/sources/s/scheme"),
        ("{scheme: hmac, secret: env:A, header: 'X: y', event: body.type}", "bad_value", "/sources/s/header"),
        ("{scheme: hmac, secret: env:A, header: X, digest: md5, event: body.type}", "bad_value", "/sources/s/digest"),
        ("{scheme: hmac, secret: env:A, header: X, prefix: 1, event: body.type}", "bad_value", "/sources/s/prefix"),
        ("{scheme: github, secret: env:A, event: body.type, header: X}", "misplaced_key", "/sources/s/header"),
        ("{scheme: github, secret: env:A, event: body.type, url: 'https://a'}", "misplaced_key", "/sources/s/url"),
        ("{scheme: twilio, secret: env:A, event: body.type, url: 'https://a/?b=c'}", "bad_value", "/sources/s/url"),
        ("{scheme: twilio, secret: env:A, event: body.type, url: a.example.com}", "bad_value", "/sources/s/url"),
        ("{scheme: stripe, secret: none, event: body.type}", "bad_secret", "/sources/s/secret"),
        ("{scheme: github, secret: env:A, evnt: a, event: body.type}", "unknown_key", "/sources/s/evnt"),
        ("{scheme: github, secret: env:A, event: order.paid}", "unknown_name", "/sources/s/event"),
        ("{scheme: github, secret: env:A, event: 'body.'}", "bad_expression", "/sources/s/event"),
        ("{scheme: github, secret: env:A, event: body.type, key: 5}", "wrong_type", "/sources/s/key"),
        ("{scheme: github, secret: env:A, event: body.type, workflow: w}", "conflict", "/sources/s/workflow"),
        ("{scheme: github, secret: env:A, workflow: w, payload: body}", "misplaced_key", "/sources/s/payload"),
        ("{scheme: github, secret: env:A, event: body.type, input: body}", "misplaced_key", "/sources/s/input"),
        ("{scheme: github, secret: env:A, event: body.type, match: true}", "wrong_type", "/sources/s/match"),
        ("{scheme: github, secret: env:A, event: body.type, match: boddy.a}", "unknown_name", "/sources/s/match"),
        ("{scheme: github, secret: env:A, event: body.type, keep: soon}", "bad_duration", "/sources/s/keep"),
        ("{scheme: github, secret: env:A, event: body.type, keep: 31d}", "bad_value", "/sources/s/keep"),
        ("{scheme: github, secret: env:A, event: body.type, keep: 0}", "bad_value", "/sources/s/keep"),
        ("{scheme: github, secret: env:A, workflow: 7}", "wrong_type", "/sources/s/workflow"),
        ("[]", "wrong_type", "/sources/s"),
    ],
)
def test_a_mistake_is_told_with_its_place(source: str, code: str, path: str) -> None:
    problem = problem_of(source)
    assert (problem.code, problem.path, problem.line) == (code, path, 0 if code == "bad_secret" else 2)


@pytest.mark.parametrize("secret", ["", ", secret: env:A", ", secret: [none]", ", secret: hunter2"])
def test_whoever_wants_a_source_without_signatures_says_so_twice(secret: str) -> None:
    problem = problem_of(f"{{scheme: none{secret}, event: body.type}}")
    assert (problem.code, problem.severity) == ("unsigned_source", "error")
    assert problem.hint == "to allow this, write both scheme: none and secret: none"
    assert "hunter2" not in str(problem)


def test_a_source_without_signatures_is_taken_with_a_warning() -> None:
    found = check_webhooks("sources:\n  s: {scheme: none, secret: none, event: body.type}\n")
    assert [(one.code, one.severity, one.line) for one in found.problems] == [("unsigned_source", "warning", 2)]
    assert found.document is not None
    assert found.document["sources"]["s"]["secret"] == []


def test_text_that_should_be_in_quotes_gets_a_hint() -> None:
    hint = problem_of("{scheme: github, secret: env:A, event: paid}").hint
    assert hint == "the names are body, headers, query; quote fixed text: \"'paid'\""


@pytest.mark.parametrize(
    "secret", ["hunter2", "'env:'", "env:A B", "vault:x", "ssm:a#b", "7", "[env:A, hunter2]", "{}"]
)
def test_a_secret_written_into_the_file_is_refused_and_its_line_never_shown(secret: str) -> None:
    problem = problem_of(f"{{scheme: github, secret: {secret}, event: body.type}}")
    assert (problem.code, problem.line) == ("bad_secret", 0)
    assert "hunter2" not in str(problem)
    assert problem.hint.startswith("write env:NAME, ssm:NAME or secretsmanager:NAME#field")


@pytest.mark.parametrize("name", ["a/b", "-x", "a..b", "'ü'", "'a b'"])
def test_a_name_that_can_be_no_path_is_refused(name: str) -> None:
    text = f"sources:\n  {name}: {{scheme: github, secret: env:A, event: body.type}}\n"
    assert [one.code for one in check_webhooks(text).problems] == ["bad_name"]


@pytest.mark.parametrize("text", ["", "# nothing\n", "[]", "sources: []", "source: {}", "sources: {a: {}", "\x00"])
def test_a_file_that_is_none_is_told_and_never_raises(text: str) -> None:
    found = check_webhooks(text, "webhooks.yaml")
    assert found.document is None
    assert found.problems


def test_an_empty_file_is_told_what_to_write() -> None:
    (problem,) = check_webhooks("# nothing yet\n").problems
    assert (problem.code, problem.message) == ("empty_definition", "the file is empty")
    assert problem.hint.startswith("write sources: {shop: {scheme: standard-webhooks, ")


def test_a_folder_has_its_webhooks_and_their_mistakes(tmp_path: Path) -> None:
    (tmp_path / "order.yaml").write_text("workflow: order\nnodes: {a: {}}\n")
    assert load_folder(tmp_path).webhooks is None
    (tmp_path / "webhooks.yaml").write_text(GOOD)
    folder = load_folder(tmp_path)
    assert (folder.errors, folder.webhooks) == ((), check_webhooks(GOOD).document)
    (tmp_path / "webhooks.yaml").write_text(GOOD.replace("workflow: order", "workflow: odrer"))
    folder = load_folder(tmp_path)
    assert [(one.code, one.hint, one.line) for one in folder.errors] == [
        ("unknown_workflow", "did you mean `order`?", 11)
    ]
    assert folder.webhooks is None
    assert [graph.name for graph in folder.graphs] == ["order"]


def test_a_workflow_with_errors_does_not_make_its_webhook_one_more(tmp_path: Path) -> None:
    (tmp_path / "order.yaml").write_text("workflow: order\nnodes: {a: {rnu: x}}\n")
    (tmp_path / "webhooks.yaml").write_text(GOOD)
    assert [one.code for one in load_folder(tmp_path).errors] == ["unknown_key"]


def test_two_files_are_one_too_many(tmp_path: Path) -> None:
    for name in ("webhooks.yaml", "webhooks.yml"):
        (tmp_path / name).write_text(GOOD)
    (problem,) = load_webhooks(tmp_path).problems
    assert (problem.code, problem.hint) == ("duplicate_file", "keep one of them")


def test_a_file_that_is_not_utf8_is_told(tmp_path: Path) -> None:
    (tmp_path / "webhooks.yml").write_bytes(b"\xff")
    assert [one.code for one in load_webhooks(tmp_path).problems] == ["bad_encoding"]
