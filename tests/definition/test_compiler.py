"""Both formats to the graph: nodes, rules in their order, waits with their defaults, versions."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest

from stepwell.definition.compiler import compile_definition, compile_document
from stepwell.definition.graph import END, Graph, Node, Retry, Wait
from stepwell.errors import DefinitionError

SHOP = """
workflow: shop
description: sells
timeout: 30m
retention: 10d
input_schema: {type: object, required: [id]}
timeline:
  - {name: validate, run: python:shop.validate, timeout: 30s}
  - name: charge
    run: python:shop.charge
    timeout: 1m
    retry: {max_retries: 2, backoff: linear, initial_delay: 2s, max_delay: 1m, jitter: full, on: [transient]}
    diverge:
      - {when: "error.category == 'timeout'", back_to: charge, max: 3}
      - {when: "result == 'skip'", skip_to: ship}
      - {when: "error.type == 'CardDeclined'", fail: card_declined}
      - {when: "error.type == 'Minor'", continue: true}
    branch:
      - {when: "result.amount > 1000", skip_to: end}
  - {name: approve, wait: {for: approval, type: manager, data: {amount: "{{ result.amount }}"}}}
  - {name: nap, sleep: 60s}
  - {name: ship, run: send_parcel, timeout: 5s, input: {to: "{{ input.address }}"}, output: {parcel: "{{ result.id }}"}}
"""

REVIEW = """
apiVersion: stepwell/v1
kind: Workflow
metadata: {name: review}
spec:
  start: score
  nodes:
    reject:
    score:
      run: python:orders.score
      timeout: 30s
      maxVisits: 5
      transitions:
        - {to: done, priority: 9}
        - {to: reject, when: "result.score < 10", priority: 2}
        - {to: score, when: "error.type == 'Busy'", max: 3, priority: 1}
        - {to: end, when: "result.score > 90", priority: 2}
    done: {}
"""


def compiled(text: str, file: str = "") -> Graph:
    made = compile_definition(dedent(text), file)
    assert made.graph is not None, [str(problem) for problem in made.problems]
    return made.graph


def wait_of(wait: str, key: str = "wait") -> Wait:
    graph = compiled(f"workflow: w\ntimeline:\n  - {{name: a, {key}: {wait}}}")
    made = graph.nodes["a"].wait
    assert made is not None
    return made


def test_a_timeline_becomes_nodes_in_order_each_leading_to_the_next() -> None:
    graph = compiled(SHOP)
    assert (graph.name, graph.format, graph.start, graph.description) == ("shop", "timeline", "validate", "sells")
    assert (graph.timeout_ms, graph.retention_ms, graph.start_mode) == (1_800_000, 864_000_000, "auto")
    assert list(graph.nodes) == ["validate", "charge", "approve", "nap", "ship"]
    assert [node.rules[-1].to for node in graph.nodes.values()] == ["charge", "approve", "nap", "ship", END]
    assert {node.rules[-1].stage for node in graph.nodes.values()} == {"next"}
    assert graph.input_schema is not None
    assert graph.input_schema.problems({}) == (("", "lacks id"),)


def test_diverge_rules_come_before_branch_rules_before_next() -> None:
    rules = compiled(SHOP).nodes["charge"].rules
    assert [(rule.id, rule.stage, rule.to, rule.fail, rule.max_uses) for rule in rules] == [
        ("charge.diverge[0]", "diverge", "charge", None, 3),
        ("charge.diverge[1]", "diverge", "ship", None, None),
        ("charge.diverge[2]", "diverge", None, "card_declined", None),
        ("charge.diverge[3]", "diverge", None, None, None),
        ("charge.branch[0]", "branch", END, None, None),
        ("charge.next", "next", "approve", None, None),
    ]
    assert [rule.when.reads_error for rule in rules if rule.when] == [True, False, True, True, False]


def test_a_step_carries_what_is_written_and_none_where_the_definition_is_silent() -> None:
    nodes = compiled(SHOP).nodes
    charge, ship = nodes["charge"].step, nodes["ship"].step
    assert charge is not None
    assert ship is not None
    assert charge.retry == Retry(2, "linear", 2_000, 60_000, "full", frozenset({"transient"}))
    assert (charge.input, charge.at_most_once, charge.pool, charge.on_failure) == (None, None, None, "abort")
    assert (ship.run, ship.timeout_ms, ship.retry) == ("send_parcel", 5_000, None)
    assert ship.input is not None
    assert ship.input.evaluate({"input": {"address": "x"}}) == {"to": "x"}


def test_transitions_are_tried_by_priority_and_ties_as_written() -> None:
    graph = compiled(REVIEW)
    assert (graph.name, graph.format, graph.start) == ("review", "nodes", "score")
    score = graph.nodes["score"]
    assert [(rule.id, rule.to) for rule in score.rules] == [
        ("score.transitions[2]", "score"),
        ("score.transitions[1]", "reject"),
        ("score.transitions[3]", END),
        ("score.transitions[0]", "done"),
    ]
    assert score.max_visits == 5
    assert graph.nodes["done"] == Node("done")
    assert graph.nodes["reject"].rules == ()


def test_transitions_without_priorities_are_tried_as_written() -> None:
    graph = compiled("workflow: w\nnodes:\n  a: {transitions: [{to: b, when: 'false'}, {to: c}]}\n  b: {}\n  c: {}")
    assert [rule.to for rule in graph.nodes["a"].rules] == ["b", "c"]
    assert graph.start == "a"


@pytest.mark.parametrize(
    ("wait", "timeout_ms"),
    [
        ("{for: approval}", 86_400_000),
        ("{for: response, timeout: 7d}", 604_800_000),
        ("{for: event, name: paid}", 86_400_000),
        ("{for: delay, timeout: 2h}", 7_200_000),
        ("{any: [{for: event, name: a}, {for: event, name: b}]}", 86_400_000),
        ("{any: [{for: event, name: a}, {for: delay, timeout: 2h}]}", None),
        ("{any: [{for: event, name: a}], timeout: 1h}", 3_600_000),
    ],
)
def test_a_wait_has_the_default_of_its_kind(wait: str, timeout_ms: int | None) -> None:
    assert wait_of(wait).timeout_ms == timeout_ms


def test_the_arms_of_an_any_carry_only_their_own_timeouts() -> None:
    wait = wait_of(
        "{any: [{for: event, name: paid, key: '{{ input.id }}'}, {for: response}, {for: delay, timeout: 2h}]}"
    )
    assert wait.kind == "any"
    assert [(arm.kind, arm.event, arm.timeout_ms) for arm in wait.arms] == [
        ("event", "paid", None),
        ("response", "MESSAGE_RECEIVED", None),
        ("delay", None, 7_200_000),
    ]
    assert wait.arms[0].key is not None
    assert wait.arms[0].key.evaluate({"input": {"id": 7}}) == 7


def test_the_type_of_an_approval_is_part_of_its_data() -> None:
    wait = compiled(SHOP).nodes["approve"].wait
    assert wait is not None
    assert wait.data is not None
    assert wait.data.evaluate({"result": {"amount": 3}}) == {"amount": 3, "type": "manager"}


def test_a_sleep_may_be_a_template() -> None:
    wait = wait_of("'{{ input.seconds }}'", "sleep")
    assert (wait.kind, wait.timeout_ms) == ("sleep", None)
    assert wait.timeout is not None
    assert wait.timeout.evaluate({"input": {"seconds": 5}}) == 5
    assert wait_of("1d", "sleep").timeout_ms == 86_400_000


def test_timeout_actions_are_steps() -> None:
    wait = wait_of(
        "{for: response, on_timeout: retry, max_retries: 2, timeout_actions: [{run: remind, input: {a: 1}}]}"
    )
    assert [action.run for action in wait.timeout_actions] == ["remind"]
    assert (wait.on_timeout, wait.max_retries) == ("retry", 2)


def test_a_long_first_delay_is_not_cut_by_the_default_cap() -> None:
    text = "workflow: w\ntimeline: [{name: a, run: x, retry: {initial_delay: 5m, backoff: constant}}]"
    step = compiled(text).nodes["a"].step
    assert step is not None
    assert step.retry is not None
    assert step.retry.max_delay_ms == 300_000


def test_both_spellings_of_keys_compile_to_one_version() -> None:
    snake = compiled(
        "workflow: w\ninput_schema: {type: object}\ntimeline: [{name: a, run: x, retry: {max_retries: 1}}]"
    )
    camel = compiled(
        "workflow: w\ninputSchema: {type: object}\ntimeline: [{name: a, run: x, retryPolicy: {maxRetries: 1}}]"
    )
    assert snake.version == camel.version
    assert snake.document == camel.document


def test_keys_of_the_users_own_data_are_left_as_they_are() -> None:
    graph = compiled("workflow: w\ntimeline: [{name: a, run: x, input: {maxRetries: 1, onTimeout: {dependsOn: 2}}}]")
    assert graph.document["timeline"][0]["input"] == {"maxRetries": 1, "onTimeout": {"dependsOn": 2}}


def test_json_compiles_like_yaml() -> None:
    graph = compiled(SHOP)
    assert compiled(json.dumps(graph.document)).version == graph.version


@pytest.mark.parametrize("text", [SHOP, REVIEW])
def test_a_stored_document_compiles_to_the_same_graph(text: str) -> None:
    graph = compiled(text)
    stored = json.loads(json.dumps(graph.document))
    for again in (compile_document(stored, trusted=True), compile_document(stored)):
        assert (again.version, again.name, again.start) == (graph.version, graph.name, graph.start)
        assert [node.rules[-1:] == () for node in again.nodes.values()] == [
            not node.rules for node in graph.nodes.values()
        ]


def test_a_document_with_mistakes_raises_them_all() -> None:
    with pytest.raises(DefinitionError) as caught:
        compile_document({"workflow": "w", "timeline": [{"name": "a", "run": 5}, {"nam": "b"}]})
    assert {problem.code for problem in caught.value.problems} == {"wrong_type", "missing_key", "unknown_key"}


def test_the_version_changes_with_meaning_and_not_with_the_order_of_keys() -> None:
    first = compiled("workflow: w\nnodes: {a: {transitions: [{to: b, when: 'true'}]}, b: {transitions: [{to: end}]}}")
    same = compiled("nodes: {a: {transitions: [{when: 'true', to: b}]}, b: {transitions: [{to: end}]}}\nworkflow: w")
    other = compiled("workflow: w\nnodes: {a: {transitions: [{to: b, when: 'false'}]}, b: {transitions: [{to: end}]}}")
    assert first.version == same.version != other.version
    assert first.version.startswith("sha256:")


def test_the_order_of_nodes_counts_for_the_first_is_the_start() -> None:
    body = {"a": "{transitions: [{to: b}]}", "b": "{transitions: [{to: a}, {to: end, when: 'true', priority: 0}]}"}
    one = compiled(f"workflow: w\nnodes: {{a: {body['a']}, b: {body['b']}}}")
    two = compiled(f"workflow: w\nnodes: {{b: {body['b']}, a: {body['a']}}}")
    assert (one.start, two.start) == ("a", "b")
    assert one.version != two.version


@pytest.mark.parametrize(
    ("text", "file", "name"),
    [
        ("workflow: shop\ntimeline: [{name: a}]", "x.yaml", "shop"),
        ("timeline: [{name: a}]", "flows/order-review.yaml", "order-review"),
        ("kind: W\nmetadata: {name: m}\nspec: {timeline: [{name: a}]}", "x.yaml", "m"),
        ("kind: W\nmetadata: {name: m}\nspec: {workflow: w, timeline: [{name: a}]}", "x.yaml", "w"),
    ],
)
def test_the_name_is_written_or_taken_from_the_envelope_or_the_file(text: str, file: str, name: str) -> None:
    graph = compiled(text, file)
    assert graph.name == graph.document["workflow"] == name


@pytest.mark.parametrize(
    ("start", "mode", "first"), [("manual", "manual", "a"), ("auto", "auto", "a"), ("b", "auto", "b")]
)
def test_start_is_a_mode_or_a_node(start: str, mode: str, first: str) -> None:
    nodes = "{a: {transitions: [{to: b}]}, b: {transitions: [{to: a, when: 'true'}, {to: end}]}}"
    text = f"workflow: w\nstart: {start}\nnodes: {nodes}"
    graph = compiled(text)
    assert (graph.start_mode, graph.start) == (mode, first)


@pytest.mark.parametrize("written", ["end: {}", "end:", "end: {description: all is done}"])
def test_a_graph_may_write_down_its_end_as_a_node(written: str) -> None:
    text = f"workflow: w\nnodes:\n  {written}\n  a: {{run: x, timeout: 1s, transitions: [{{to: end}}]}}\nstart: a\n"
    compiled = compile_definition(text)
    assert compiled.graph is not None, [str(problem) for problem in compiled.problems]
    assert not compiled.problems
    assert [*compiled.graph.nodes] == ["a"]
    assert compiled.graph.nodes["a"].rules[0].to == END
    again = compile_document(json.loads(json.dumps(compiled.graph.document)), trusted=True)
    assert [*again.nodes] == ["a"]


@pytest.mark.parametrize(
    "nodes",
    [
        "{end: {}}",
        "{end: {run: x, timeout: 1s}, a: {transitions: [{to: end}]}}",
        "{a: {transitions: [{to: end}]}, end: {sleep: 1s}}",
        "{a: {transitions: [{to: end}]}, end: {transitions: [{to: a}]}}",
        "{a: {fan_out: all, transitions: [{to: end}]}, end: {fan_in: {policy: all}}}",
    ],
)
def test_a_node_that_does_something_has_another_name_than_the_end(nodes: str) -> None:
    codes = {problem.code for problem in compile_definition(f"workflow: w\nnodes: {nodes}\nstart: auto").errors}
    assert "reserved_name" in codes


def test_a_loop_of_nodes_without_a_bound_is_fine() -> None:
    """max_visits bounds it."""
    compiled("workflow: w\nnodes: {a: {transitions: [{to: a, when: 'true'}, {to: end}]}}")
