"""Settings of events: what they compile to, and what contradicts itself."""

from __future__ import annotations

import json

import pytest

from stepwell.definition.compiler import compile_definition, compile_document
from stepwell.definition.graph import EventSettings
from stepwell.limits import DAY_MS

TEXT = "workflow: w\nevents:\n  {}\ntimeline: [{{name: a}}]\n"  # the settings stand on line 3


def settings_of(written: str) -> EventSettings:
    compiled = compile_definition(TEXT.format(f"paid: {written}"))
    assert compiled.graph is not None, [str(problem) for problem in compiled.problems]
    assert compiled.problems == ()
    return compiled.graph.events["paid"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{}", EventSettings()),
        ("{consume_on_read: false}", EventSettings(consume_on_read=False)),
        ("{delivery: broadcast}", EventSettings(consume_on_read=False, delivery="broadcast")),
        ("{delivery: first}", EventSettings(delivery="first")),
        ("{delivery: targeted, consumeOnRead: false}", EventSettings(consume_on_read=False, delivery="targeted")),
        ("{expireAfter: 0, max_pending: 1}", EventSettings(expire_after_ms=0, max_pending=1)),
        ("{expire_after: 365d, maxPending: 10000}", EventSettings(expire_after_ms=365 * DAY_MS)),
    ],
)
def test_what_is_not_said_of_an_event_has_its_default(written: str, expected: EventSettings) -> None:
    assert settings_of(written) == expected


def test_a_stored_document_has_its_settings() -> None:
    graph = compile_definition(TEXT.format("paid: {maxPending: 3}")).graph
    assert graph is not None
    stored = json.loads(json.dumps(graph.document))
    assert compile_document(stored, trusted=True).events == {"paid": EventSettings(max_pending=3)}
    assert compile_document({"workflow": "w", "timeline": [{"name": "a"}]}).events == {}


@pytest.mark.parametrize(
    ("written", "code", "said"),
    [
        ("paid: {delivery: broadcast, consume_on_read: true}", "conflict", "every waiter"),
        ("paid: {delivery: first, consume_on_read: false}", "conflict", "the oldest waiter alone"),
        ("paid: {delivery: frist}", "bad_value", "`first`"),
        ("paid: {expire_after: 366d}", "bad_value", "at most 365d"),
        ("paid: {expire_after: '{{ input.t }}'}", "bad_duration", "30s"),
        ("paid: {max_pending: 0}", "bad_value", "at least 1"),
        ("paid: {max_pending: 10001}", "bad_value", "at most 10000"),
        ("paid: {consume: true}", "unknown_key", "consume_on_read"),
        ("paid: 5", "wrong_type", "a mapping"),
        ("a b: {}", "bad_name", "letters"),
        ("SCHEDULE_REACHED: {}", "reserved_event", "AGENT_COMPLETED"),
        ("stepwell.alarm: {}", "reserved_event", "stepwell."),
        ("CALLBACK_COMPLETED: {}", "reserved_event", "its own URL"),
    ],
)
def test_a_mistake_in_the_settings_has_its_code_its_line_and_a_hint(written: str, code: str, said: str) -> None:
    (problem,) = compile_definition(TEXT.format(written)).errors
    assert (problem.code, problem.line) == (code, 3)
    assert said in f"{problem.message} {problem.hint}"
