"""A key of another workflow tool is refused with what is written here in its place."""

from __future__ import annotations

import re

import pytest
from pydantic import BaseModel

from stepwell.definition import model_parts, models
from stepwell.definition.borrowed_keys import HINTS
from stepwell.definition.compiler import compile_definition

_STEP = "workflow: w\n%s:\n  - {name: a, run: python:m.f}\n  - {name: b, run: python:m.f, %s}"
_NODE = "workflow: w\nnodes:\n  a: {run: python:m.f, %s}"


def hints(text: str) -> list[str]:
    problems = compile_definition(text).problems
    return [problem.hint for problem in problems if problem.code in ("unknown_key", "wrong_type")]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (_STEP % ("timeline", "uses: m.f"), "write run: python:module.function"),
        (_STEP % ("timeline", "with: {a: 1}"), "write input: {name: value}"),
        (_STEP % ("timeline", "retries: 3"), "write retry: {max_retries: 3}"),
        (
            _STEP % ("timeline", "maxAttempts: 3"),
            "write retry: {max_retries: 2}, which is 3 attempts: the first is no retry",
        ),
        (_STEP % ("timeline", "delay: 5m"), "write sleep: 5m"),
        (_STEP % ("timeline", "for: approval"), "indent it below `wait:`, as in wait: {for: approval}"),
        (_STEP % ("steps", "approvers: {of: [ana]}"), "indent it below `wait:`, as in wait: {for: approval}"),
        (_NODE % "escalate: {after: 4h, to: [boss]}", "indent it below `wait:`, as in wait: {for: approval}"),
        (_STEP % ("timeline", "needs: a"), "remove it: the steps run in order; `steps:` has depends_on"),
        (_STEP % ("steps", "needs: a"), "write depends_on: [STEP]"),
        (_STEP % ("steps", "if: 'true'"), "only `nodes:` has it: transitions: [{to: NODE, when: CONDITION}]"),
        (
            _STEP % ("steps", "wait_until: noon"),
            'write sleep: "{{ input.due }}", which gives a time such as 2030-01-31T12:00:00Z',
        ),
        (
            _NODE % "wait: {for: delay, timeout: 1h, until: noon}",
            'write timeout: "{{ input.due }}", which gives a time such as 2030-01-31T12:00:00Z',
        ),
        (_NODE % "name: a", "remove it: a node's key is its name"),
        (_NODE % "on_error: b", "write transitions: [{to: NODE, when: \"error.type == 'NAME'\"}], or on_failure: skip"),
        (_NODE % "approval: {}", "write wait: {for: approval}"),
        (_NODE % "retry: {attempts: 1}", "write max_retries: 0, which is 1 attempt: the first is no retry"),
        (_NODE % "retry: {max_attempts: x}", "write max_retries: 2, which is 3 attempts: the first is no retry"),
        (_NODE % "retry: {retries: 3}", "write max_retries: 3"),
        (
            _NODE % "wait: {for: approval, approvers: [ana, leo]}",
            "write approvers: {of: [ana, leo]}, and with need: 2 how many of them",
        ),
        (_NODE % "fan_in: {tolerate: 10%}", "write tolerate: {percent: 10}, or {count: 3}"),
        (_NODE % "retry: 3", "write retry: {max_retries: 3}"),
        (_NODE % "wait: {for: approval, escalate: 4h}", "write escalate: {after: 4h, to: [boss]}"),
        (
            _NODE % "wait: {for: approval, reminder: 4h}",
            "write escalate: {after: 4h, to: [boss]}, who is asked too; or let each timeout send one: "
            "on_timeout: retry, max_retries: 2, timeout_actions: [{run: python:module.function}]",
        ),
        (
            _NODE % "throttle: [bank, mail]",
            "a step keeps to one limit; for a second one, split the step, or limit the runs with `concurrency`",
        ),
        (
            "workflow: w\ntimezone: Europe/Madrid\nnodes: {a: {}}",
            'write it beside its schedule: triggers: [{schedule: "0 9 * * *", timezone: Europe/Madrid}]',
        ),
        (_NODE % "wait: 5m", "write wait: {for: approval}, or {for: event, name: NAME}; a pause is sleep: 5m"),
        (_NODE % "transitions: [{to: a, target: a}]", "write to: NODE"),
        ("name: w\nnodes: {a: {}}", "write workflow: NAME"),
        ("workflow: w\non: {push: x}\nnodes: {a: {}}", 'write triggers: [{event: NAME}], or [{schedule: "0 9 * * *"}]'),
        ("workflow: w\nconcurrency: 5\nnodes: {a: {}}", "write concurrency: {limit: 10}"),
        (
            "workflow: w\nnodes: [{name: a}]",
            "write each node under its name: nodes: {NAME: {run: …}}; `timeline:` has a list of steps",
        ),
        (
            "workflow: w\ntimeline: [{ask: {wait: {for: approval}}}]",
            "write its name beside what it does: - {name: ask, wait: …}",
        ),
    ],
)
def test_what_another_tool_calls_it_is_refused_with_what_to_write(text: str, hint: str) -> None:
    assert hint in hints(text)


def test_each_hint_is_for_a_key_that_its_place_does_not_have() -> None:
    for name, words in HINTS.items():
        assert not _keys(name) & words.keys(), name


def test_each_hint_names_a_key_that_its_place_has() -> None:
    for name, words in HINTS.items():
        for hint in words.values():
            named = re.match(r"write (?:`)?(\w+):", hint)
            assert named is None or named[1] in _keys(name) or "in place of" in hint or name == "FanInDef", (name, hint)


def _keys(name: str) -> set[str]:
    model = getattr(models, name, None) or getattr(model_parts, name)
    assert issubclass(model, BaseModel)
    return {model_parts.written(field) for field in model.model_fields}
