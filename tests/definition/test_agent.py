"""The format `actions`, an agent: to a graph, and what is wrong with one."""

from __future__ import annotations

import pytest

from stepwell.definition.compiler import Compiled, compile_definition, compile_document
from stepwell.definition.expressions import compile_template
from stepwell.definition.formats.agent_models import AgentActionDef, ResponseParameters
from stepwell.definition.graph import END, Graph, Node
from stepwell.definition.models import WorkflowDef
from stepwell.limits import DAY_MS, HISTORY_WINDOW, HOUR_MS

HIRING = """
agent: hiring
actions:
  - {actionType: send_message, timeout: 30s, retryPolicy: {maxRetries: 1}, parameters: {message: "Hello {{ name }}"}}
  - actionType: wait_for_response
    parameters:
      threadId: "{{ thread }}"
      expectedFrom: postulant
      onTimeout: continue
      timeoutActions: [{actionType: send_message, timeout: 30s, parameters: {message: "Still there, {{ name }}?"}}]
  - {id: screen, actionType: trigger_agent, parameters: {agent: screening, waitForCompletion: true}}
  - {id: tell, actionType: trigger_agent, parameters: {agent: news, waitForCompletion: false, parameters: {a: 1}}}
  - {actionType: request_document, parameters: {documents: [cv, id]}, next_action_id: 7, next_when: "score > 3"}
  - {actionType: delay, parameters: {duration: 2h}}
  - {id: 12, actionType: "python:crm.score", timeout: 30s, next_action_id: end}
"""


def checked(actions: str) -> Compiled:
    """Of the items under `actions:`, on line 3 and on."""
    return compile_definition("agent: a\nactions:\n" + "".join(f"  - {line}\n" for line in actions.splitlines()))


def compiled(text: str = HIRING) -> Graph:
    made = compile_definition(text)
    assert made.graph is not None, [str(problem) for problem in made.problems]
    assert not made.problems, [str(problem) for problem in made.problems]
    return made.graph


def node(graph: Graph, name: str) -> Node:
    return graph.nodes[name]


def test_actions_follow_each_other_under_their_ids_else_their_number_and_type() -> None:
    graph = compiled()
    wait = node(graph, "2-wait_for_response").wait
    assert (graph.name, graph.format, wait and wait.window) == ("hiring", "actions", HISTORY_WINDOW)
    ways = {name: [rule.to for rule in one.rules] for name, one in graph.nodes.items()}
    assert ways == {
        "1-send_message": ["2-wait_for_response"],
        "2-wait_for_response": ["screen"],
        "screen": ["tell"],
        "tell": ["5-request_document"],
        "5-request_document": ["12", "6-delay"],
        "6-delay": ["12"],
        "12": [END],
    }


@pytest.mark.parametrize(
    "action",
    [
        "{actionType: warn, timeout: 5s, parameters: {who: '{{ name }}'}}",
        "{run: warn, timeout: 5s, input: {who: '{{ name }}'}}",
    ],
)
def test_a_timeout_action_is_written_as_an_action_or_as_in_the_other_formats(action: str) -> None:
    text = f"agent: a\nactions: [{{actionType: wait_for_response, parameters: {{key: k, timeoutActions: [{action}]}}}}]"
    wait = node(compiled(text), "1-wait_for_response").wait
    assert wait is not None
    (step,) = wait.timeout_actions
    assert step.input is not None
    assert (step.run, step.timeout_ms) == ("warn", 5_000)
    assert step.input.evaluate({"state": {"name": "ana"}, "input": {}}) == {"who": "ana"}


def test_a_response_is_waited_for_as_the_table_says_with_what_is_shown_meanwhile() -> None:
    wait = node(compiled(), "2-wait_for_response").wait
    assert wait is not None
    assert (wait.kind, wait.event, wait.timeout_ms, wait.on_timeout) == (
        "response",
        "MESSAGE_RECEIVED",
        DAY_MS,
        "continue",
    )
    assert [step.run for step in wait.timeout_actions] == ["send_message"]
    assert wait.data is not None
    shown = wait.data.evaluate({"state": {"thread": 123}, "input": {}})
    assert shown == {"threadId": 123, "expectedFrom": "postulant", "timeout": "1d"}


def test_another_agent_is_a_child_run_or_one_that_nobody_waits_for() -> None:
    graph = compiled()
    call, step = node(graph, "screen").call, node(graph, "tell").step
    assert call is not None
    assert step is not None
    assert (call.kind, call.single, call.timeout_ms, call.failed_child) == ("agent", True, HOUR_MS, "return")
    assert (step.run, step.input and step.input.text) == ("workflow:news", '{"a": 1}')
    assert [one.workflow for one in compile_definition(HIRING).called] == ["screening", "news"]


FIRST = """
agent: a
actions:
  - id: heard
    actionType: wait_for_any
    parameters:
      any:
        - {actionType: wait_for_response, parameters: {threadId: "{{ thread }}", expectedFrom: ana, timeout: 3h}}
        - {actionType: wait_for_event, parameters: {name: paid, key: "{{ thread }}", match: "event.amount > 1"}}
        - {actionType: request_document, parameters: {documents: [cv, id]}}
        - {actionType: delay, parameters: {duration: 2h}}
      onTimeout: continue
      timeoutActions: [{actionType: send_message, timeout: 30s}]
"""
FIRST_OF_A_GRAPH = """
workflow: g
state_schema: {type: object, properties: {thread: {type: string}}}
nodes:
  heard:
    wait:
      any:
        - {for: response, key: "{{ state.thread }}", timeout: 3h}
        - {for: event, name: paid, key: "{{ state.thread }}", match: "event.amount > 1"}
        - {for: document, documents: [cv, id]}
        - {for: delay, timeout: 2h}
      on_timeout: continue
"""


def test_the_first_of_several_is_the_wait_that_graphs_have() -> None:
    ours, theirs = (node(compiled(text), "heard").wait for text in (FIRST, FIRST_OF_A_GRAPH))
    assert ours is not None
    assert theirs is not None
    facts = [
        [(one.kind, one.event, one.timeout_ms, one.on_timeout, one.match and one.match.text) for one in wait.arms]
        for wait in (ours, theirs)
    ]
    assert facts[0] == facts[1]
    assert (ours.kind, ours.timeout_ms, ours.on_timeout) == (theirs.kind, theirs.timeout_ms, "continue")
    heard = ours.arms[0]
    assert (heard.window, heard.sender and heard.sender.text) == (HISTORY_WINDOW, "ana")
    assert [step.run for step in ours.timeout_actions] == ["send_message"]
    shown = [one.data and one.data.evaluate({"state": {"thread": 7}, "input": {}}) for one in ours.arms]
    assert shown == [
        {"threadId": 7, "expectedFrom": "ana", "timeout": "3h"},
        {"threadId": 7},
        {"documents": ["cv", "id"]},
        {"timeout": "2h"},
    ]


def test_both_spellings_and_the_envelope_mean_the_same() -> None:
    snake = """
apiVersion: stepwell/v1
kind: Workflow
metadata: {name: hiring}
spec:
  actions: [{action_type: wait_for_response, parameters: {thread_id: t, on_timeout: retry, max_retries: 1}}]
"""
    parameters = "{key: t, onTimeout: retry, maxRetries: 1}"
    camel = f"agent: hiring\nactions: [{{actionType: wait_for_response, parameters: {parameters}}}]"
    assert compiled(snake).version == compiled(camel).version


@pytest.mark.parametrize("head", ["workflow: w\nagent: hiring", "agent: hiring\nworkflow: w"])
def test_the_name_is_the_workflows_where_the_agent_has_one_too(head: str) -> None:
    compiled = compile_definition(head + "\nactions: [{actionType: assign_test}]")
    assert compiled.graph is not None
    assert (compiled.graph.name, compiled.errors) == ("w", ())


def test_what_was_compiled_compiles_again_from_its_document() -> None:
    graph = compiled()
    again = compile_document(graph.document, trusted=True)
    assert (again.version, list(again.nodes)) == (graph.version, list(graph.nodes))


def test_an_agent_can_be_built_in_python() -> None:
    answer = AgentActionDef(action_type="wait_for_response", parameters=ResponseParameters(timeout="2h"))  # type: ignore[arg-type]  # made a dict
    graph = compile_document(WorkflowDef(agent="a", actions=[answer]).model_dump(exclude_unset=True))
    wait = node(graph, "1-wait_for_response").wait
    assert wait is not None
    assert wait.timeout_ms == 2 * HOUR_MS


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("Hello {{ name }}!", "Hello Ana!"),
        ("{{ score }}", 5),
        ("{{ type }}", "T"),  # a word of CEL is a name like any other
        ("{{ nobody }}", None),
        ("[{{ nobody.at.all }}]", "[]"),
        ("{{ state.nobody.at.all }}", None),
        ("{{ n.map(one, one + score) }}", [6, 7]),
        ("{{ nobody == null && size(n) == 2 }}", True),
        ("{{ 'name' + name }}", "nameAna"),
        ("{{ run.id }}", "r"),
    ],
)
def test_a_bare_name_is_a_variable_of_the_state_or_of_the_input(template: str, value: object) -> None:
    names = {"state": {"score": 5, "type": "T", "n": [1, 2]}, "input": {"name": "Ana", "score": 1}, "run": {"id": "r"}}
    assert compile_template(template, variables=True).evaluate(names) == value


FIRST_OF = "{actionType: wait_for_any, parameters: {any: [ONE]}}"
MISTAKES = [
    ("{actionType: wait_for_response, parameters: {timout: 1h}}", "unknown_key", "did you mean `timeout`?"),
    ("{actionType: wait_for_response, parameters: {documents: [cv]}}", "unknown_key", "documents"),
    ("{actionType: wait_for_response, parameters: {timeout: 8d}}", "timeout_too_long", "at most 7d"),
    ("{actionType: wait_for_response, parameters: {onTimeout: maybe}}", "bad_value", "fail, continue, retry"),
    ("{actionType: wait_for_response, parameters: {maxRetries: 2}}", "misplaced_key", "on_timeout: retry"),
    ("{actionType: wait_for_response, parameters: [1]}", "wrong_type", "a mapping"),
    ("{actionType: wait_for_response, parameters: {key: '{{ a + }}'}}", "bad_expression", "not a CEL expression"),
    ("{actionType: wait_for_response, timeout: 1h}", "misplaced_key", "put it into `parameters`"),
    ("{actionType: wait_for_respons, timeout: 1h}", "unknown_action_type", "did you mean `wait_for_response`?"),
    ("{actionType: trigger_agent}", "missing_key", "name the agent"),
    ("{actionType: trigger_agent, parameters: {agent: 5}}", "wrong_type", "must be text"),
    ("{actionType: trigger_agent, parameters: {agent: b, timeout: 25h}}", "timeout_too_long", "at most 1d"),
    (
        "{actionType: trigger_agent, parameters: {agent: b, waitForCompletion: false, timeout: 1h}}",
        "misplaced_key",
        "without a wait",
    ),
    ("{actionType: delay}", "missing_key", "give the time"),
    ("{actionType: delay, parameters: {duration: soon}}", "bad_duration", "not a duration"),
    ("{actionType: 'workflow:b'}", "bad_action_type", "write trigger_agent"),
    ("{actionType: 'http:GET https://x.example'}", "bad_action_type", "write a function"),
    ("{actionType: x, timeout: 1s, nextActionId: nowhere}", "unknown_target", "1-x"),
    ("{actionType: x, timeout: 1s, nextActionId: 9}", "unknown_target", "1-x"),
    ("{actionType: x, timeout: 1s, nextWhen: 'a > 1'}", "misplaced_key", "next_action_id"),
    ("{actionType: x, timeout: 1s, nextActionId: 1}", "no_way_out", "can never end"),
    ("{id: [1], actionType: x, timeout: 1s}", "wrong_type", "an id"),
    ("{id: a b, actionType: x, timeout: 1s}", "bad_name", "letters"),
    ("{parameters: {}}", "missing_key", "action_type"),
    (
        "{actionType: assign_test, parameters: {timeoutActions: [{actionType: delay, parameters: {duration: 1h}}]}}",
        "misplaced_action",
        "as an action of the agent",
    ),
    (
        "{actionType: assign_test, parameters: {timeoutActions: [{actionType: x, id: a}]}}",
        "misplaced_key",
        "timeout action",
    ),
    (
        "{actionType: assign_test, parameters: {timeoutActions: [{actionType: x, run: y}]}}",
        "duplicate_key",
        "one spelling",
    ),
    ("{actionType: assign_test, parameters: {timeoutActions: [{input: {}}]}}", "missing_key", "action_type"),
    ("{actionType: wait_for_any}", "missing_key", "`any` is empty"),
    ("{actionType: wait_for_any, parameters: {any: []}}", "missing_key", "`any` is empty"),
    ("{actionType: wait_for_any, parameters: {any: {}}}", "wrong_type", "a list"),
    ("{actionType: wait_for_any, parameters: {any: [5]}}", "wrong_type", "a mapping"),
    ("{actionType: wait_for_any, parameters: {any: [{parameters: {}}]}}", "missing_key", "action_type"),
    (FIRST_OF.replace("ONE", "{actionType: send_message}"), "misplaced_action", "wait_for_event"),
    (FIRST_OF.replace("ONE", "{actionType: wait_for_any}"), "misplaced_action", "wait_for_event"),
    (FIRST_OF.replace("ONE", "{actionType: trigger_agent}"), "misplaced_action", "AGENT_COMPLETED"),
    (FIRST_OF.replace("ONE", "{actionType: delay}"), "missing_key", "give the time"),
    (FIRST_OF.replace("ONE", "{id: a, actionType: assign_test}"), "misplaced_key", "on the `wait_for_any`"),
    (FIRST_OF.replace("ONE", "{actionType: assign_test, timeout: 1h}"), "misplaced_key", "into `parameters`"),
    (FIRST_OF.replace("ONE", "{actionType: assign_test, parameters: {onTimeout: fail}}"), "misplaced_key", "beside"),
    (FIRST_OF.replace("ONE", "{actionType: assign_test, parameters: {nane: a}}"), "unknown_key", "nane"),
    (FIRST_OF.replace("ONE", "{actionType: assign_test, parameters: {timeout: 31d}}"), "timeout_too_long", "30d"),
    (FIRST_OF.replace("ONE", "{actionType: wait_for_response}"), "response_without_thread", "threadId"),
]


@pytest.mark.parametrize(("action", "code", "said"), MISTAKES, ids=[f"{code}: {one}" for one, code, _ in MISTAKES])
def test_a_mistake_is_told_once_at_its_line(action: str, code: str, said: str) -> None:
    (problem,) = checked(action).problems
    assert (problem.code, problem.line) == (code, 3)
    assert said in problem.message + problem.hint


def test_two_actions_of_one_id_and_one_that_nothing_leads_to_are_mistakes() -> None:
    twice = checked("{id: a, actionType: x, timeout: 1s}\n{id: a, actionType: y, timeout: 1s}")
    assert [(one.code, one.line) for one in twice.problems] == [("duplicate_name", 4)]
    passed = checked("{id: a, actionType: x, timeout: 1s, nextActionId: end}\n{id: b, actionType: y, timeout: 1s}")
    assert [(one.code, one.line) for one in passed.errors] == [("unreachable", 4)]


def test_a_conversation_is_of_agents_alone_and_bounded() -> None:
    other = compile_definition("workflow: w\nhistory_window: 5\ntimeline: [{name: a}]")
    assert [one.code for one in other.errors] == ["misplaced_key"]
    wide = compile_definition("agent: a\nhistoryWindow: 1000\nactions: [{actionType: assign_test}]")
    assert [one.code for one in wide.errors] == ["bad_value"]


def test_an_agents_lock_is_named_by_its_variables() -> None:
    graph = compile_definition("agent: a\nlock: '{{ thread }}'\nactions: [{actionType: assign_test}]").graph
    assert graph is not None
    assert graph.lock is not None
    assert graph.lock.evaluate({"input": {"thread": 7}, "state": {}}) == 7


def test_bare_names_mean_nothing_to_the_other_formats() -> None:
    other = compile_definition("workflow: w\ntimeline: [{name: a, run: x, timeout: 1s, input: {a: '{{ name }}'}}]")
    assert [one.code for one in other.errors] == ["unknown_name"]
