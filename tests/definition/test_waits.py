"""Every kind of wait: what it compiles to, what belongs to it, and what is wrong with it."""

from __future__ import annotations

import json

import pytest

from stepwell.definition.compiler import compile_definition, compile_document
from stepwell.definition.graph import Wait
from stepwell.errors import Problem
from stepwell.limits import DAY_MS, HOUR_MS, MINUTE_MS

HEAD = "workflow: w\ntimeline:\n  - name: a\n    wait: "  # the wait stands on line 4


def wait_of(wait: str) -> Wait:
    compiled = compile_definition(HEAD + wait)
    assert compiled.graph is not None, [str(problem) for problem in compiled.problems]
    made = compiled.graph.nodes["a"].wait
    assert made is not None
    return made


def error_of(wait: str) -> Problem:
    """The only one."""
    (problem,) = compile_definition(HEAD + wait).errors
    return problem


@pytest.mark.parametrize(
    ("wait", "event", "timeout_ms"),
    [
        ("{for: document}", "DOCUMENT_UPLOADED", 7 * DAY_MS),
        ("{for: signature, timeout: 30d}", "SIGNATURE_COMPLETED", 30 * DAY_MS),
        ("{for: test}", "TEST_COMPLETED", 7 * DAY_MS),
        ("{for: callback, timeout: 365d}", "CALLBACK_COMPLETED", 365 * DAY_MS),
        ("{for: callback}", "CALLBACK_COMPLETED", DAY_MS),
        ("{for: sleep, timeout: 365d}", None, 365 * DAY_MS),
        ("{for: event}", "EVENT_COMPLETED", DAY_MS),
        ("{all: [{for: response}, {for: document}, {for: approval}]}", None, 7 * DAY_MS),
        ("{all: [{for: response}, {for: event}]}", None, DAY_MS),
        ("{all: [{for: callback}], timeout: 365d}", None, 365 * DAY_MS),
    ],
)
def test_a_wait_has_the_event_and_the_default_of_its_row(wait: str, event: str | None, timeout_ms: int) -> None:
    made = wait_of(wait)
    assert (made.event, made.timeout_ms) == (event, timeout_ms)


@pytest.mark.parametrize("kind", ["document", "signature", "test"])
def test_what_comes_from_people_takes_the_keys_of_a_response(kind: str) -> None:
    made = wait_of(
        f"{{for: {kind}, key: '{{{{ input.id }}}}', match: 'event.ok', data: {{a: 1}}, timeout: '{{{{ input.t }}}}', "
        "on_timeout: retry, max_retries: 1, timeout_actions: [{run: remind}]}"
    )
    assert made.key is not None
    assert made.match is not None
    assert made.data is not None
    assert made.timeout is not None
    assert (made.timeout_ms, made.on_timeout, made.max_retries) == (None, "retry", 1)
    assert [action.run for action in made.timeout_actions] == ["remind"]


@pytest.mark.parametrize(
    ("documents", "asked"),
    [
        ("[cv, '{{ input.other }}']", ["cv", "id"]),
        ("'{{ input.all }}'", ["x", "y"]),
    ],
)
def test_the_documents_asked_for_are_one_expression(documents: str, asked: list[str]) -> None:
    made = wait_of(f"{{for: document, documents: {documents}}}").documents
    assert made is not None
    assert made.evaluate({"input": {"other": "id", "all": ["x", "y"]}}) == asked


def test_a_wait_for_documents_that_names_none_takes_any_one() -> None:
    assert wait_of("{for: document}").documents is None


@pytest.mark.parametrize("written", ["wait: {for: delay, timeout: 0s}", "sleep: 0"])
def test_a_delay_may_last_no_time(written: str) -> None:
    checked = compile_definition(f"workflow: w\nnodes:\n  a: {{{written}}}\n")
    assert [one.message for one in checked.problems if one.severity == "error"] == []


def test_a_deployed_definition_keeps_a_timeout_of_nothing() -> None:
    graph = compile_document({"workflow": "w", "timeout": 0, "nodes": {"a": {}}}, trusted=True)
    assert graph.timeout_ms == 0


def test_an_all_has_the_outcome_and_its_arms_have_no_times() -> None:
    made = wait_of(
        "{all: [{for: event, name: paid, key: k}, {for: event, name: paid}, {for: approval, on_reject: route}], "
        "timeout: 2h, onTimeout: continue}"
    )
    assert (made.kind, made.timeout_ms, made.on_timeout) == ("all", 2 * HOUR_MS, "continue")
    assert [(arm.kind, arm.event, arm.timeout_ms) for arm in made.arms] == [
        ("event", "paid", None),
        ("event", "paid", None),
        ("approval", None, None),
    ]
    assert made.arms[2].on_reject == "route"


def test_an_approval_says_who_may_answer_and_who_may_later() -> None:
    written = "approvers: {need: 2, of: [ana, leo, '{{ input.boss }}']}, escalate: {after: 4h, to: '{{ input.them }}'}"
    made = wait_of(f"{{for: approval, {written}}}").approvers
    assert made is not None
    assert (made.need, made.escalate_after_ms) == (2, 4 * HOUR_MS)
    assert made.of is not None
    assert made.of.evaluate({"input": {"boss": "kim"}}) == ["ana", "leo", "kim"]
    assert made.escalate_to is not None
    assert made.escalate_to.evaluate({"input": {"them": ["eva"]}}) == ["eva"]


def test_without_approvers_anybody_may_answer() -> None:
    assert wait_of("{for: approval}").approvers is None
    two = wait_of("{for: approval, approvers: {need: 2}}").approvers
    assert two is not None
    assert (two.need, two.of, two.escalate_to) == (2, None, None)


def test_a_callback_has_a_heartbeat_in_an_arm_too() -> None:
    assert wait_of("{for: callback, heartbeat: 5m}").heartbeat_ms == 5 * MINUTE_MS
    made = wait_of("{any: [{for: callback, heartbeat: 26h}, {for: delay, timeout: 2d}]}")
    assert made.arms[0].heartbeat_ms == 26 * HOUR_MS


def test_both_spellings_and_a_stored_document_compile_to_the_same_wait() -> None:
    text = HEAD + "{all: [{for: approval, approvers: {of: [a]}}, {for: document, documents: [cv]}], maxRetries: 1, "
    camel = compile_definition(text + "onTimeout: retry}").graph
    snake = compile_definition(text.replace("maxRetries", "max_retries") + "on_timeout: retry}").graph
    assert camel is not None
    assert snake is not None
    assert camel.version == snake.version
    again = compile_document(json.loads(json.dumps(camel.document)), trusted=True)
    wait = again.nodes["a"].wait
    assert wait is not None
    assert [arm.kind for arm in wait.arms] == ["approval", "document"]
    assert wait.arms[0].approvers is not None


NAMES_101 = ", ".join(f"n{at}" for at in range(101))
ARMS_101 = ", ".join("{for: event}" for _ in range(101))
MISTAKES = [
    ("a name of a document wait", "{for: document, name: x}", "misplaced_key", "a wait for event;"),
    ("documents of a response", "{for: response, documents: [cv]}", "misplaced_key", "document"),
    ("documents that are text", "{for: document, documents: cv}", "wrong_type", "documents: [cv]"),
    ("documents that are numbers", "{for: document, documents: [1]}", "wrong_type", "a list of names"),
    ("no documents", "{for: document, documents: []}", "missing_key", "at least one"),
    ("a document twice", "{for: document, documents: [cv, id, cv]}", "duplicate_value", "`cv` twice"),
    ("a document without a name", "{for: document, documents: [' ']}", "bad_name", "empty"),
    ("many documents", f"{{for: document, documents: [{NAMES_101}]}}", "bad_value", "at most 100"),
    ("a broken template", "{for: document, documents: ['{{ 1 + }}']}", "bad_expression", "CEL"),
    ("documents over their maximum", "{for: document, timeout: 31d}", "timeout_too_long", "30d"),
    ("a wait without time", "{for: event, timeout: 0s}", "bad_value", "longer than 0"),
    ("an all without time", "{all: [{for: event}, {for: response}], timeout: 0}", "bad_value", "longer than 0"),
    ("a callback over its maximum", "{for: callback, timeout: 366d}", "timeout_too_long", "365d"),
    ("an all over its maximum", "{all: [{for: event}, {for: response}], timeout: 31d}", "timeout_too_long", "30d"),
    ("a key of a callback", "{for: callback, key: x}", "misplaced_key", "response"),
    ("a match of a callback", "{for: callback, match: 'true'}", "misplaced_key", "response"),
    ("for and all", "{for: event, all: []}", "conflict", "`any` and `all`"),
    ("any and all", "{any: [], all: []}", "conflict", "any and all"),
    ("an empty all", "{all: []}", "missing_key", "each of them"),
    ("an all in an any", "{any: [{all: [{for: event}]}, {for: event}]}", "misplaced_key", "two nodes"),
    ("an any in an all", "{all: [{any: [{for: event}]}, {for: event}]}", "misplaced_key", "two nodes"),
    ("an all in an all", "{all: [{all: [{for: event}]}, {for: event}]}", "misplaced_key", "outer list"),
    ("a sleep over its maximum", "{for: sleep, timeout: 366d}", "timeout_too_long", "365d"),
    ("a sleep without its time", "{for: sleep}", "missing_key", "timeout: 2h"),
    ("a sleep in an all", "{all: [{for: sleep, timeout: 2h}, {for: event}]}", "misplaced_key", "after it"),
    ("a delay in an all", "{all: [{for: delay, timeout: 2h}, {for: event}]}", "misplaced_key", "sleep"),
    ("a timeout of an arm", "{all: [{for: event, timeout: 2h}]}", "misplaced_key", "beside `all`"),
    ("an outcome of an arm", "{all: [{for: event, on_timeout: continue}]}", "misplaced_key", "beside `all`"),
    ("many arms", f"{{all: [{ARMS_101}]}}", "too_many_waits", "at most 100"),
    ("many arms of an any", f"{{any: [{ARMS_101}]}}", "too_many_waits", "at most 100"),
    ("approvers of an event", "{for: event, approvers: {of: [ana]}}", "misplaced_key", "approval"),
    ("nobody needed", "{for: approval, approvers: {need: 0}}", "bad_value", "at least 1"),
    ("more needed than named", "{for: approval, approvers: {need: 3, of: [ana, leo]}}", "bad_value", "at most 2"),
    ("an approver twice", "{for: approval, approvers: {of: [ana, ana]}}", "duplicate_value", "`ana` twice"),
    ("an approver that is text", "{for: approval, approvers: {of: ana}}", "wrong_type", "of: [ana]"),
    ("an unknown key", "{for: approval, approvers: {off: [ana]}}", "unknown_key", "`of`"),
    ("escalation from nobody", "{for: approval, escalate: {after: 4h, to: [x]}}", "misplaced_key", "of: [ana, leo]"),
    ("escalation to nobody", "{for: approval, approvers: {of: [a]}, escalate: {after: 4h}}", "missing_key", "`to`"),
    (
        "escalation when it is over",
        "{for: approval, approvers: {of: [a]}, escalate: {after: 24h, to: [x]}}",
        "bad_value",
        "ends after 1d",
    ),
    (
        "escalation of an arm when the whole is over",
        "{any: [{for: approval, approvers: {of: [a]}, escalate: {after: 3h, to: [x]}}, {for: delay, timeout: 2h}]}",
        "bad_value",
        "ends after 2h",
    ),
    ("a heartbeat of an event", "{for: event, heartbeat: 5m}", "misplaced_key", "callback"),
    ("a heartbeat too late", "{for: callback, timeout: 1h, heartbeat: 1h}", "bad_value", "ends after 1h"),
    ("two callbacks", "{all: [{for: callback}, {for: event}, {for: callback}]}", "duplicate_value", "a branch"),
    ("no heartbeat", "{for: callback, heartbeat: 0}", "bad_value", "longer than 0"),
    ("a heartbeat that is a template", "{for: callback, heartbeat: '{{ input.h }}'}", "bad_duration", "30s"),
    ("an agent", "{for: agent}", "unsupported", "run: workflow:name"),
    ("children", "{for: children}", "unsupported", "children: [{workflow: fraud}]"),
    ("a list of children", "{children: [x]}", "unsupported", "children: [{workflow: fraud}]"),
]


@pytest.mark.parametrize(("wait", "code", "said"), [one[1:] for one in MISTAKES], ids=[one[0] for one in MISTAKES])
def test_a_mistake_in_a_wait_is_the_only_problem_and_has_a_hint(wait: str, code: str, said: str) -> None:
    problem = error_of(wait)
    assert (problem.code, problem.line) == (code, 4)
    assert said in f"{problem.message} {problem.hint}"


def test_a_mistake_in_an_arm_has_the_place_of_its_key() -> None:
    text = HEAD + "\n      all:\n        - {for: event}\n        - for: callback\n          heartbeat: 2d\n"
    (problem,) = compile_definition(text).errors
    assert (problem.line, problem.column) == (8, 11)
