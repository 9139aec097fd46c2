"""Every kind of mistake: its code, its line, and a hint that helps."""

from __future__ import annotations

from textwrap import dedent

import pytest

from stepwell.definition.compiler import compile_definition
from stepwell.definition.formats.agent_models import PARAMETERS
from stepwell.errors import Problem
from stepwell.limits import DEFINITION_NODES

# (what is wrong, code, line, part of message or hint); line 1 is `workflow: w` unless the text says otherwise
HEAD = "workflow: w\n"
TIMELINE = "workflow: w\ntimeline:\n"
NODES = "workflow: w\nnodes:\n"

MISTAKES = [
    ("no mapping", "- a\n- b", "wrong_type", 1, "mapping"),
    ("unknown key", TIMELINE + "  - {name: a}\ntimout: 5m", "unknown_key", 4, "`timeout`"),
    ("unknown step key", TIMELINE + "  - name: a\n    ru: x", "unknown_key", 4, "`run`"),
    (
        "unknown rule key",
        TIMELINE + "  - name: a\n    branch:\n      - {wen: 'true', skip_to: end}",
        "unknown_key",
        5,
        "when",
    ),
    (
        "unknown key in an envelope",
        "kind: W\nspek: 1\nspec:\n  workflow: w\n  timeline: [{name: a}]",
        "unknown_key",
        2,
        "spec",
    ),
    (
        "unknown key under spec",
        "kind: W\nspec:\n  workflow: w\n  timeline: [{name: a}]\n  timout: 1",
        "unknown_key",
        5,
        "timeout",
    ),
    ("both spellings", HEAD + "input_schema: {}\ninputSchema: {}\ntimeline: [{name: a}]", "duplicate_key", 3, "one"),
    (
        "both words for retry",
        TIMELINE + "  - name: a\n    run: x\n    retry: {}\n    retry_policy: {}",
        "duplicate_key",
        6,
        "",
    ),
    ("a key without a value", TIMELINE + "  - name: a\n    run:", "empty_value", 4, "run"),
    ("no name", "timeline: [{name: a}]", "missing_key", 1, "workflow"),
    ("entry without a name", TIMELINE + "  - {name: a}\n  - {run: x}", "missing_key", 4, "name"),
    ("transition without a target", NODES + "  a:\n    transitions:\n      - {when: 'true'}", "missing_key", 5, "to"),
    ("wrong type", TIMELINE + "  - name: a\n    run: 5", "wrong_type", 4, "text"),
    ("an entry that is text", TIMELINE + "  - {name: a}\n  - b", "wrong_type", 4, "mapping"),
    ("a node that is text", NODES + "  a: b", "wrong_type", 3, "mapping"),
    ("a list that is none", HEAD + "timeline: {a: 1}", "wrong_type", 2, "list"),
    ("a number as a name", TIMELINE + "  - {name: 5}", "wrong_type", 3, "text"),
    (
        "a condition that is a number",
        TIMELINE + "  - name: a\n    branch: [{when: 5, skip_to: end}]",
        "wrong_type",
        4,
        "CEL",
    ),
    ("no format", HEAD + "timout: 3", "no_format", 1, "timeline"),
    ("data in the place of a definition", '{"order_id": "A-1"}', "no_format", 1, "data belongs in a sub-folder"),
    ("a list, such as answers for verify", "- approve: {by: ana}", "wrong_type", 1, "data belongs in a sub-folder"),
    ("format misspelled", HEAD + "timelin: []", "no_format", 1, "`timeline`"),
    ("two formats", TIMELINE + "  - {name: a}\nnodes: {b: {}}", "ambiguous_format", 2, "nodes"),
    ("no entries", HEAD + "timeline: []", "no_nodes", 2, "empty"),
    ("no nodes", HEAD + "nodes: {}", "no_nodes", 2, "empty"),
    ("duplicate names", TIMELINE + "  - {name: a}\n  - {name: a}", "duplicate_name", 4, "a"),
    ("a path as a name", TIMELINE + "  - {name: ../a}", "bad_name", 3, "letters"),
    (
        "a name that takes `an`",
        NODES + "  a: {wait: {for: event, name: a b}}",
        "bad_name",
        3,
        "the event name cannot be",
    ),
    ("a workflow that is a path", "workflow: a/b\ntimeline: [{name: a}]", "bad_name", 1, "letters"),
    ("a name too long", TIMELINE + f"  - {{name: {'a' * 129}}}", "bad_name", 3, "128"),
    ("a name of nothing", NODES + "  '': {}", "bad_name", 3, "letters"),
    ("the reserved name", TIMELINE + "  - {name: end}", "reserved_name", 3, "end"),
    ("unknown start", HEAD + "start: fetsh\nnodes: {fetch: {}}", "unknown_start", 2, "`fetch`"),
    ("a timeline that starts elsewhere", HEAD + "start: b\ntimeline: [{name: a}, {name: b}]", "bad_value", 2, "first"),
    (
        "unknown target",
        NODES + "  fetch:\n    transitions:\n      - {to: don}\n  done: {}",
        "unknown_target",
        5,
        "`done`",
    ),
    (
        "unknown skip",
        TIMELINE + "  - name: a\n    branch: [{skip_to: shp}]\n  - {name: ship}",
        "unknown_target",
        4,
        "`ship`",
    ),
    (
        "back to a later one",
        TIMELINE + "  - name: a\n    diverge: [{back_to: b}]\n  - {name: b}",
        "bad_target",
        4,
        "skip_to: b",
    ),
    (
        "skip to an earlier one",
        TIMELINE + "  - {name: a}\n  - name: b\n    branch: [{skip_to: a}]",
        "bad_target",
        5,
        "back_to: a",
    ),
    ("back to the end", TIMELINE + "  - name: a\n    diverge: [{back_to: end}]", "bad_target", 4, "skip_to: end"),
    ("a rule without a way", TIMELINE + "  - name: a\n    diverge: [{when: 'true'}]", "bad_rule", 4, "back_to"),
    (
        "a rule with two ways",
        TIMELINE + "  - name: a\n    diverge: [{fail: x, continue: true}]",
        "bad_rule",
        4,
        "split",
    ),
    ("continue: false", TIMELINE + "  - name: a\n    diverge: [{continue: false}]", "bad_value", 4, "true"),
    ("max: 0", TIMELINE + "  - name: a\n    diverge: [{back_to: a, max: 0}]", "bad_value", 4, "at least 1"),
    ("unreachable", NODES + "  a: {}\n  b: {}", "unreachable", 4, "b"),
    (
        "skipped for good",
        TIMELINE + "  - name: a\n    branch: [{skip_to: c}]\n  - {name: b}\n  - {name: c}",
        "unreachable",
        5,
        "b",
    ),
    (
        "a loop with no way out",
        NODES + "  a: {transitions: [{to: b}]}\n  b: {transitions: [{to: a}]}",
        "no_way_out",
        3,
        "leaves",
    ),
    ("an endless entry", TIMELINE + "  - name: a\n    branch: [{back_to: a}]", "no_way_out", 3, "never end"),
    ("bad duration", HEAD + "timeout: soon\ntimeline: [{name: a}]", "bad_duration", 2, "30s"),
    ("a run without time", HEAD + "timeout: 0s\ntimeline: [{name: a}]", "bad_value", 2, "longer than 0"),
    ("a step without time", TIMELINE + "  - name: a\n    run: x\n    timeout: 0s", "bad_value", 5, "longer than 0"),
    (
        "a child without time",
        TIMELINE + "  - name: a\n    run: workflow:b\n    timeout: PT0S",
        "bad_value",
        5,
        "longer than 0",
    ),
    ("negative duration", TIMELINE + "  - name: a\n    sleep: -5", "bad_duration", 4, "negative"),
    (
        "a template where none can be",
        TIMELINE + "  - name: a\n    run: x\n    compensate:\n      run: y\n      timeout: '{{ input.t }}'",
        "bad_value",
        7,
        "30s",
    ),
    (
        "unparsable expression",
        TIMELINE + "  - name: a\n    branch: [{when: '1 +', skip_to: end}]",
        "bad_expression",
        4,
        "CEL",
    ),
    (
        "unparsable template",
        TIMELINE + "  - name: a\n    run: x\n    input:\n      b: ['{{ 1 + }}']",
        "bad_expression",
        6,
        "CEL",
    ),
    (
        "unknown name",
        TIMELINE + "  - name: a\n    branch: [{when: reslt > 1, skip_to: end}]",
        "unknown_name",
        4,
        "`result`",
    ),
    (
        "unknown step",
        TIMELINE + "  - name: charge\n    run: x\n    input: '{{ steps.chrge.output }}'",
        "unknown_step",
        5,
        "`charge`",
    ),
    (
        "a step's output without `output`",
        TIMELINE + "  - {name: a, run: x}\n  - name: b\n    run: x\n    input: '{{ steps.a.y }}'",
        "unknown_name",
        6,
        "write steps.a.output.y",
    ),
    (
        "a step's output without `output`, in an address",
        TIMELINE + "  - {name: a-b, run: x}\n  - name: b\n    run: \"http:GET https://x.com/{{ steps['a-b'].y }}\"",
        "unknown_name",
        5,
        "write steps['a-b'].output.y",
    ),
    (
        "a fact that runs do not have",
        TIMELINE + "  - name: a\n    run: x\n    input: {team: '{{ run.tag.team }}'}",
        "unknown_name",
        5,
        "`tags`",
    ),
    (
        "an event in an input",
        TIMELINE + "  - name: a\n    run: x\n    input: '{{ event.id }}'",
        "no_event",
        5,
        "read state or result",
    ),
    (
        "an event in a key",
        TIMELINE + "  - name: a\n    wait: {for: event, key: '{{ event.id }}'}",
        "no_event",
        4,
        "`key`",
    ),
    (
        "an event to fork over",
        NODES + "  a: {wait: {for: event}, transitions: [{to: b, foreach: event.all}]}\n  b: {}",
        "no_event",
        3,
        "`foreach`",
    ),
    (
        "unknown backoff",
        TIMELINE + "  - name: a\n    run: x\n    retry: {backoff: expo}",
        "bad_value",
        5,
        "exponential",
    ),
    (
        "negative retries",
        TIMELINE + "  - name: a\n    run: x\n    retry: {maxRetries: -1}",
        "bad_value",
        5,
        "at least 0",
    ),
    (
        "cap below the delay",
        TIMELINE + "  - name: a\n    run: x\n    retry: {initial_delay: 9s, max_delay: 1s}",
        "bad_retry",
        5,
        "",
    ),
    ("run without a function", TIMELINE + "  - name: a\n    run: python:shop", "bad_run", 4, "module.function"),
    ("run of an unknown kind", TIMELINE + "  - name: a\n    run: perl:x", "bad_run", 4, "perl"),
    ("run of no name", TIMELINE + "  - name: a\n    run: 'a b'", "bad_run", 4, "@step"),
    ("run and wait", TIMELINE + "  - name: a\n    run: x\n    sleep: 5s", "conflict", 5, "run and sleep"),
    (
        "timeout beside wait",
        TIMELINE + "  - name: a\n    wait: {for: approval}\n    timeout: 5m",
        "misplaced_key",
        5,
        "inside",
    ),
    ("output of nothing", TIMELINE + "  - name: a\n    output: {x: 1}", "misplaced_key", 4, "run"),
    ("a wait for nothing", TIMELINE + "  - name: a\n    wait: {timeout: 5m}", "missing_key", 4, "for"),
    ("a delay without a time", TIMELINE + "  - name: a\n    wait: {for: delay}", "missing_key", 4, "timeout"),
    ("an empty any", TIMELINE + "  - name: a\n    wait: {any: []}", "missing_key", 4, "any"),
    (
        "a match on an approval",
        TIMELINE + "  - name: a\n    wait:\n      for: approval\n      match: 'true'",
        "misplaced_key",
        6,
        "event",
    ),
    (
        "an outcome on an arm",
        TIMELINE + "  - name: a\n    wait: {any: [{for: approval, on_timeout: fail}]}",
        "misplaced_key",
        4,
        "any",
    ),
    (
        "retries without retry",
        TIMELINE + "  - name: a\n    wait: {for: response, max_retries: 2}",
        "misplaced_key",
        4,
        "retry",
    ),
    (
        "approval over its maximum",
        TIMELINE + "  - name: a\n    wait: {for: approval, timeout: 31d}",
        "timeout_too_long",
        4,
        "30d",
    ),
    (
        "response over its maximum",
        TIMELINE + "  - name: a\n    wait: {for: response, timeout: 8d}",
        "timeout_too_long",
        4,
        "7d",
    ),
    ("sleep over its maximum", TIMELINE + "  - name: a\n    sleep: 366d", "timeout_too_long", 4, "365d"),
    ("broken schema", HEAD + "input_schema: {type: strng}\ntimeline: [{name: a}]", "bad_schema", 2, "broken"),
    (
        "a schema elsewhere",
        HEAD + "state_schema: {$ref: 'http://x/y'}\ntimeline: [{name: a}]",
        "bad_schema",
        2,
        "outside",
    ),
    ("a number for a name", NODES + "  1: {transitions: [{to: 2}]}\n  2: {}", "wrong_type", 3, 'in quotes: "2"'),
    ("not YAML", HEAD + "timeline: [", "bad_syntax", 2, "YAML"),
    (
        "too many nodes",
        NODES + "".join(f"  n{i}: {{}}\n" for i in range(DEFINITION_NODES + 1)),
        "too_many_nodes",
        2,
        "1000",
    ),
]


@pytest.mark.parametrize(
    ("text", "code", "line", "said"), [one[1:] for one in MISTAKES], ids=[one[0] for one in MISTAKES]
)
def test_a_mistake_has_its_code_its_line_and_a_hint(text: str, code: str, line: int, said: str) -> None:
    compiled = compile_definition(text)
    assert compiled.graph is None
    found = [problem for problem in compiled.errors if problem.code == code]
    assert found, [str(problem) for problem in compiled.problems]
    assert line in [problem.line for problem in found], [str(problem) for problem in found]
    assert any(said in problem.message + problem.hint for problem in found), [str(problem) for problem in found]
    assert not any("pydantic" in str(problem) for problem in compiled.problems)


@pytest.mark.parametrize(
    "read",
    [
        "steps.a.output.y",
        "steps.a.error.type",
        "steps['a'].attempts",
        "has(steps.a.y)",
        "steps[input.step].output",
        "steps.map(name, steps[name].status)",
        "input.steps.a.y",
        "[input].map(steps, steps.a.y)",
        "run.tags.team",
        "run['started_at']",
        "input.run.tag",
        "run[input.fact]",
    ],
)
def test_what_steps_and_runs_have_or_what_cannot_be_told_may_be_read(read: str) -> None:
    text = "  - {name: a, run: x, timeout: 5s}\n  - {name: b, run: x, timeout: 5s, input: {x: '{{ READ }}'}}"
    read = read.replace("'", "''")
    assert compile_definition(TIMELINE + text.replace("READ", read)).problems == ()


ENTRY = TIMELINE + "  - name: a\n    "
UNSUPPORTED = [
    ("workflow:", ENTRY + "run: x\n    compensate: {run: workflow:fraud}", 5),
    ("workflow:", ENTRY + "wait: {for: response, timeout_actions: [{run: workflow:fraud}]}", 4),
    ("inherit_artifacts: true", ENTRY + "run: workflow:fraud\n    inheritArtifacts: true", 5),
    *[(f"for: {kind}", ENTRY + f"wait: {{for: {kind}}}", 4) for kind in ("agent", "children")],
    ("timeout action", ENTRY + "wait: {for: response, timeout_actions: [{run: x, compensate: {run: y}}]}", 4),
]


@pytest.mark.parametrize(("feature", "text", "line"), UNSUPPORTED, ids=[one[0] for one in UNSUPPORTED])
def test_what_this_version_does_not_support_is_named_and_nothing_else_is_wrong(
    feature: str, text: str, line: int
) -> None:
    (problem,) = compile_definition(text).errors
    assert (problem.code, problem.line) == ("unsupported", line)
    assert feature in problem.message


def test_one_check_reports_every_mistake_in_the_order_of_lines() -> None:
    text = """\
        workflow: w
        timout: 5m
        timeline:
          - {name: a, run: 5}
          - {name: b, run: "python:x", retry: {backoff: expo}}
          - {name: b, sleep: soon}
          - {name: c, branch: [{when: "reslt > 1", skip_to: nowhere}]}
        """
    problems = compile_definition(dedent(text), "w.yaml").problems
    assert [(problem.line, problem.code) for problem in problems] == [
        (2, "unknown_key"),
        (4, "wrong_type"),
        (5, "bad_run"),
        (5, "bad_value"),
        (6, "duplicate_name"),
        (6, "bad_duration"),
        (7, "unknown_name"),
        (7, "unknown_target"),
    ]
    assert {problem.file for problem in problems} == {"w.yaml"}
    assert str(problems[0]).startswith("w.yaml:2:1: error unknown_key: ")


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        (TIMELINE + "  - {name: a, run: x}", "step_without_timeout", 3),
        (TIMELINE + "".join(f"  - {{name: s{i}, run: x, timeout: 1s}}\n" for i in range(11)), "many_steps", 1),
        (NODES + "  a: {transitions: [{to: b, when: 'true'}]}\n  b: {}", "no_default_transition", 3),
        (TIMELINE + "  - {name: a, run: x, timeout: 1s, input: {id: '${input.id}'}}", "not_a_template", 3),
        (TIMELINE + "  - {name: a, run: x, timeout: 1s, input: ['a ${{ steps.a.output }}']}", "not_a_template", 3),
        (TIMELINE + "  - name: a\n    branch:\n      - {skip_to: end}\n      - {fail: x}", "rule_never_taken", 6),
    ],
)
def test_lint_warns_and_never_stops(text: str, code: str, line: int) -> None:
    compiled = compile_definition(text)
    assert compiled.graph is not None
    assert [(problem.code, problem.line, problem.severity) for problem in compiled.problems] == [
        (code, line, "warning")
    ]


@pytest.mark.parametrize(
    ("on", "near"),
    [("transeint", "transient"), ("timeuot", "timeout"), ("worker-lost", "worker_lost"), ("timeouts", "timeout"),
     ("step", ""), ("step_timeout", ""), ("http_500", ""), ("External", ""), ("out_of_stock", "")],
)  # fmt: skip
def test_a_misspelt_category_of_errors_is_told(on: str, near: str) -> None:
    text = TIMELINE + f"  - name: a\n    run: x\n    timeout: 5s\n    retry: {{on: [timeout, {on}]}}"
    found = [(one.code, one.line, one.severity, one.hint) for one in compile_definition(text).problems]
    assert found == ([("unknown_category", 6, "warning", f"did you mean `{near}`?")] if near else [])


@pytest.mark.parametrize("everything", ["all", "ALL", "any", "'*'"])
def test_a_word_for_all_errors_is_told_because_no_error_has_that_type(everything: str) -> None:
    text = TIMELINE + f"  - name: a\n    run: x\n    timeout: 5s\n    retry: {{on: [{everything}]}}"
    (found,) = compile_definition(text).problems
    assert (found.code, found.severity) == ("unknown_category", "warning")
    assert found.hint == "name those that you mean, such as on: [transient, step, timeout, external, worker_lost]"


@pytest.mark.parametrize("never", ["validation", "governance"])
def test_a_category_that_no_policy_retries_is_told(never: str) -> None:
    text = TIMELINE + f"  - name: a\n    run: x\n    timeout: 5s\n    retry: {{on: [timeout, {never}]}}"
    compiled = compile_definition(text)
    assert compiled.graph is not None
    assert [(one.code, one.line, one.severity) for one in compiled.problems] == [("never_retried", 6, "warning")]


@pytest.mark.parametrize(("kept", "warns"), [("0s", True), ("30m", True), ("0", True), ("1h", False), ("30d", False)])
def test_a_retention_below_an_hour_is_said_to_be_an_hour(kept: str, warns: bool) -> None:
    compiled = compile_definition(f"{HEAD}retention: {kept}\ntimeline: [{{name: a, run: python:m.a, timeout: 1m}}]\n")
    assert compiled.graph is not None
    told = [(problem.code, problem.line, problem.severity) for problem in compiled.problems]
    assert told == ([("short_retention", 2, "warning")] if warns else [])


VALUES = ["5", "[]", "{}", "null", "'{{'", "[[]]", "{a: {}}", "true", "'x'"]
KEYS = [
    "workflow", "description", "input_schema", "timeout", "retention", "priority", "start", "timeline", "nodes",
    "steps", "metadata", "spec", "compensation", "compensate_on", "internal", "events", "concurrency", "rate_limit",
    "singleton",
]  # fmt: skip
PLACE_KEYS = [
    "run", "wait", "sleep", "diverge", "branch", "transitions", "fan_out", "fan_in", "retry", "max_visits", "timeout",
    "input", "output", "pool", "children", "compensate", "detached",
]  # fmt: skip
WAIT_KEYS = [
    "for", "any", "name", "key", "match", "data", "timeout", "timeout_actions", "on_timeout", "type", "max_retries",
    "all", "documents", "approvers", "escalate", "heartbeat",
]  # fmt: skip
APPROVAL_KEYS = [("approvers", "need"), ("approvers", "of"), ("escalate", "after"), ("escalate", "to")]
EVENT_KEYS = ["consume_on_read", "delivery", "expire_after", "max_pending"]
RULE_KEYS = ["when", "priority", "max", "foreach", "as", "max_concurrency"]
DAG_KEYS = ["run", "agent", "action", "depends_on", "retry_policy", "on_failure", "max_visits"]
FAN_IN_KEYS = ["policy", "merge", "target", "tolerate", "on_branch_failure", "on_early_complete"]
UNDO_KEYS = ["step", "run", "agent", "retry_policy", "at_most_once", "pool", "timeout"]
CHILD_KEYS = ["workflow", "name", "input"]
ACTION_KEYS = ["action_type", "id", "parameters", "next_action_id", "next_when", "on_failure", "compensate", "timeout"]
WAIT = f"{TIMELINE}  - {{name: a, wait: %s}}"

# What a key of each place is put into, with one value after the other.
HOSTILE: dict[str, list[str]] = {
    "the document": [form % key for key in KEYS for form in (f"{HEAD}kind: x\n%s: VALUE", "%s: VALUE")],
    "an entry": [f"{TIMELINE}  - {{name: a, {key}: VALUE}}" for key in PLACE_KEYS],
    "a node": [f"{NODES}  a: {{{key}: VALUE}}" for key in ("name", *PLACE_KEYS)],
    "a wait": [form % f"{{{key}: VALUE}}" for key in WAIT_KEYS for form in (WAIT, WAIT % "{any: [%s]}")],
    "an approval": [WAIT % f"{{for: approval, {part}: {{{key}: VALUE}}}}" for part, key in APPROVAL_KEYS],
    "an event": [f"{TIMELINE}  - {{name: a}}\nevents: {{to: {{{key}: VALUE}}}}" for key in EVENT_KEYS],
    "a rule": [f"{NODES}  a: {{transitions: [{{to: b, {key}: VALUE}}]}}" for key in RULE_KEYS],
    "a step of a DAG": [f"{HEAD}steps: [{{name: a, {key}: VALUE}}]" for key in DAG_KEYS],
    "a join": [f"{NODES}  a: {{fan_in: {{{key}: VALUE}}}}" for key in FAN_IN_KEYS],
    "a compensation": [
        *(f"{HEAD}steps: [{{name: a, run: x}}]\ncompensation: [{{{key}: VALUE}}]" for key in UNDO_KEYS),
        *(f"{NODES}  a: {{run: x, compensate: {{{key}: VALUE}}}}" for key in UNDO_KEYS),
    ],
    "a child": [
        *(f"{NODES}  a: {{children: [{{workflow: f, {key}: VALUE}}]}}" for key in CHILD_KEYS[1:]),
        *(f"{NODES}  a: {{children: [{{{key}: VALUE}}, {{workflow: f}}]}}" for key in CHILD_KEYS),
    ],
    "an action": [
        *(f"{HEAD}actions: [{{actionType: x, {key}: VALUE}}]" for key in ACTION_KEYS[1:]),
        *(f"{HEAD}actions: [{{{key}: VALUE}}]" for key in ACTION_KEYS),
    ],
    "the parameters of an action": [
        f"{HEAD}actions: [{{actionType: {kind}, parameters: {{{key}: VALUE}}}}]"
        for kind, model in PARAMETERS.items()
        for key in model.model_fields
    ],
}


@pytest.mark.parametrize("place", HOSTILE)
def test_hostile_documents_are_problems_and_not_crashes(place: str) -> None:
    for form in HOSTILE[place]:
        for value in VALUES:
            problems = compile_definition(form.replace("VALUE", value)).problems
            assert all(isinstance(problem, Problem) for problem in problems)
