"""What a translation from Step Functions left as it was: it is plain text here, so that it would do nothing."""

from __future__ import annotations

import pytest

from stepwell.definition.compiler import compile_definition
from stepwell.definition.formats.common import Context
from stepwell.definition.plain_texts import lint_texts
from stepwell.errors import Problem
from tests.effort import loops

STEP = "workflow: w\ntimeline:\n  - {{name: a, run: x, timeout: 1s, {0}}}\n"
WAIT = "workflow: w\nnodes:\n  a: {{wait: {{for: event, name: paid, {0}}}}}\n"


def warnings(text: str) -> list[Problem]:
    compiled = compile_definition(text)
    assert compiled.graph is not None, [str(problem) for problem in compiled.problems]
    return list(compiled.problems)


@pytest.mark.parametrize(
    ("text", "quoted", "said"),
    [
        (STEP.format('input: {"id.$": "$.order.id"}'), "$.order.id", "write id: {{ input.order.id }}"),
        (STEP.format('input: {"all.$": "$"}'), "$", "write all: {{ input }}"),
        (STEP.format('input: {"id.$": "$$.Execution.Id"}'), "$$.Execution.Id", "write id: {{ … }}"),
        (STEP.format('input: {"id.$": "States.UUID()"}'), "States.UUID()", "write id: {{ … }}"),
        (STEP.format('input: {a: [{"b.$": "$.c[0]"}]}'), "$.c[0]", "write b: {{ … }}"),
        (STEP.format('input: "$.order"'), "$.order", "write {{ input.order }}"),
        (STEP.format('lock: "$.id"'), "$.id", "write {{ input.id }}"),
        (WAIT.format('key: "$.id"'), "$.id", "write {{ input.id }}"),
        (WAIT.format('key: "{% $states.input.id %}"'), "{% $states.input.id %}", "write {{ … }}"),
        (STEP.format('output: {id: "{% $states.result.id %}"}'), "{% $states.result.id %}", "write {{ … }}"),
    ],
)
def test_a_path_and_an_expression_of_step_functions_are_named_as_plain_text(text: str, quoted: str, said: str) -> None:
    (found,) = warnings(text)
    assert (found.code, found.severity, found.line) == ("not_a_template", "warning", 3)
    assert found.message == f"`{quoted}` is plain text, because it is no template"
    assert found.hint.startswith(said)


@pytest.mark.parametrize(
    ("text", "quoted", "said"),
    [
        (WAIT.format("key: input.order_id"), "input.order_id", "write {{ input.order_id }}"),
        (WAIT.format("key: '{ input.order_id }'"), "{ input.order_id }", "write {{ input.order_id }}"),
        (STEP.format("lock: input.customer"), "input.customer", "write {{ input.customer }}"),
        (STEP.format("input: {id: input.order.id}"), "input.order.id", "write {{ input.order.id }}"),
        (STEP.format("input: {all: [{id: 'state.lines[0]'}]}"), "state.lines[0]", "write {{ state.lines[0] }}"),
        (STEP.format("output: {paid: result.amount}"), "result.amount", "write {{ result.amount }}"),
    ],
)
def test_an_expression_without_its_braces_is_named_as_plain_text(text: str, quoted: str, said: str) -> None:
    (found,) = warnings(text)
    assert (found.code, found.line, found.message) == (
        "not_a_template",
        3,
        f"`{quoted}` is plain text, because it is no template",
    )
    assert found.hint == said


@pytest.mark.parametrize(
    "written",
    [
        'input: {path: "$.order.id"}',  # the function's own argument
        'input: {key: "$.id", price: "$5"}',
        'input: "$"',
        """input: {page: "{% if x %}a{% endif %}", include: '{% include "a" %}'}""",  # templates of a web page
        'input: {"id.$": "A-1"}',
        "input: {file: input.csv, name: state.json, at: run.py, text: input, of: input.order is here}",
        "input: {on: [States.ALL], when: error.type == 'States.ALL'}",
        "retry: {on: [timeout, http_503, CardDeclined, stateside.Error]}",
    ],
)
def test_what_may_be_meant_as_it_stands_is_left_alone(written: str) -> None:
    assert warnings(STEP.format(written)) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("States.ALL", "transient, step, timeout, external and worker_lost"),
        ("States.TaskFailed", "transient, step, external and worker_lost"),
        ("States.Timeout", "timeout"),
        ("States.HeartbeatTimeout", "timeout"),
        ("Sandbox.Timedout", "timeout"),
        ("Lambda.TooManyRequestsException", "transient"),
        ("States.Permissions", "transient, step, timeout, external and worker_lost"),
    ],
)
@pytest.mark.parametrize(
    "written",
    [
        "retry: {{on: [timeout, {0}]}}",
        "on_failure: compensate, compensate: {{run: y, timeout: 1s, retry: {{on: [{0}]}}}}",
        """diverge: [{{when: "error.type == '{0}'", continue: true}}]""",
    ],
)
def test_an_error_name_of_step_functions_is_no_error_here(name: str, said: str, written: str) -> None:
    (found,) = warnings(STEP.format(written.format(name)))
    assert (found.code, found.severity, found.line) == ("foreign_error_name", "warning", 3)
    assert found.message == f"`{name}` is an error name of Step Functions, which no error has here"
    assert said in found.hint


@pytest.mark.parametrize(
    "text", ["{%" + "$" * 400_000, "$" + ".a" * 200_000 + " ", "States.A" * 60_000, "${input" * 60_000]
)
def test_a_hostile_text_is_looked_through_in_a_time_that_grows_with_its_length(text: str) -> None:
    def lint() -> None:
        lint_texts(Context(), {"key": text, "when": text, "on": [text], "input": {"a.$": text}})

    assert loops(lint) < 15  # 2 to 5; a time that grows with the square is hundreds


def test_a_placeholder_in_a_condition_is_named_too() -> None:
    found = warnings(STEP.format("""diverge: [{when: "error.message == '${input.id}'", continue: true}]"""))
    assert [problem.code for problem in found] == ["not_a_template"]
