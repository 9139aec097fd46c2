"""The literal forms in which workflows were first designed: each runs, or is refused with a hint that mends it.

A form is a code block of a document in `seeds/`, as its design wrote it, and goes by the heading above it. A test reads
it and says in its name what becomes of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import Any, cast

import pytest

from stepwell.api.runs.views import RunView
from stepwell.api.runs.vocabulary import in_words_of
from stepwell.definition.compiler import compile_definition
from stepwell.errors import InvalidInput
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Run, Stepwell

SEEDS = Path(__file__).parent / "seeds"


@cache
def forms() -> dict[str, str]:
    """The code blocks of all documents, by document and heading: `dags: Retry Policy`; a second one has a 2 behind."""
    found: dict[str, str] = {}
    for document in sorted(SEEDS.iterdir()):
        for section in document.read_text(encoding="utf-8").split("\n## ")[1:]:
            blocks = re.findall(r"^```\w+\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
            for number, block in enumerate(blocks, 1):
                name = f"{document.stem}: {section.partition(chr(10))[0]}"
                found[f"{name} {number}" if number > 1 else name] = block
    return found


def form(name: str) -> str:
    """The form as it stands."""
    return forms()[name]


def plain(name: str) -> Any:
    """The value of a form in JSON, whose comments and dots are for people."""
    text = re.sub(r"//.*", "", form(name)).replace("...", "")
    return json.loads(re.sub(r",\s*}", "}", text))


def within(head: str, text: str) -> str:
    """The form as the value that `head` ends with."""
    return head + indent(text, " " * 10)


def refused(text: str, file: str = "seed.yaml") -> list[str]:
    """The hints of what is wrong with it."""
    made = compile_definition(text, file)
    assert made.graph is None
    return [problem.hint for problem in made.errors]


def warned(text: str) -> list[tuple[str, str]]:
    """The warnings of a definition that is right: codes and places."""
    made = compile_definition(text, "seed.yaml")
    assert made.graph is not None, [str(problem) for problem in made.problems]
    return [(problem.code, problem.path) for problem in made.problems if problem.severity == "warning"]


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Stepwell]:
    made = Stepwell(tmp_path)
    yield made
    made.close()


Starts = Callable[..., Run]


@pytest.fixture
def starts(kit: Stepwell) -> Starts:
    """Starts a run of a definition; the steps that it names are mocks."""

    def start(text: str, *mocked: str, given: Any = None) -> Run:
        graph = kit.define(text)
        for name in mocked:
            kit.mock(name, returns={})
        return kit.start(graph.name, given)

    return start


def test_every_form_is_read_by_a_test() -> None:
    """A form that nobody runs proves nothing."""
    text = Path(__file__).read_text(encoding="utf-8")
    assert len(forms()) > 20
    assert [name for name in forms() if f'"{name}"' not in text] == []


# -- agents


WAITING = "agent: seed\nactions:\n  - actionType: wait_for_response\n    parameters:\n"


def test_wait_for_response_runs_on_after_24_hours(kit: Stepwell, starts: Starts) -> None:
    run = starts(within("agent: seed\nactions:\n  -\n", form("agents: Wait for Response")))
    assert run.waiting_for == "response"
    kit.advance("24h")
    assert run.status == "completed"


def test_timeout_actions_send_their_message_before_the_agent_goes_on(kit: Stepwell) -> None:
    kit.define(within(WAITING, json.dumps(plain("agents: Acciones al Timeout"))))
    sent = kit.mock("send_message", returns={})
    run = kit.start("seed")
    kit.advance("24h")
    assert run.status == "completed"
    assert sent.calls == [{"message": "No recibimos tu respuesta. Te contactaremos pronto."}]


def test_a_comment_in_json_is_refused_with_the_sign_that_begins_one() -> None:
    assert refused(within(WAITING, form("agents: Acciones al Timeout"))) == [
        "begin a comment with #, not with //; JSON has no comments"
    ]


def test_a_numeric_thread_is_waited_for_and_shown_as_the_number(kit: Stepwell, starts: Starts) -> None:
    parameters = plain("agents: Estructura de WAITING")["waitingData"]
    action = {"actionType": "wait_for_response", "parameters": parameters}
    run = starts(json.dumps({"agent": "seed", "actions": [action]}))
    assert run.view["waiting_data"] == parameters
    kit.event("MESSAGE_RECEIVED", {"from": "postulant", "text": "hello"}, key="123")
    assert run.status == "completed"


# -- DAGs


def test_a_retry_policy_of_the_workflow_is_that_of_each_step_without_one(kit: Stepwell) -> None:
    kit.define("workflow: seed\ntimeline: [{name: a, run: a}]\n" + form("dags: Retry Policy"))
    kit.define("workflow: own\ntimeline: [{name: a, run: a, retry: {maxRetries: 0}}]\n" + form("dags: Retry Policy"))
    kit.mock("a", raises=ConnectionError)
    run, other = kit.start("seed"), kit.start("own")
    kit.advance("1s")
    assert run.steps["a"].attempts == 2
    kit.advance("1h")
    assert (run.steps["a"].attempts, other.steps["a"].attempts) == (4, 1)


def test_a_step_with_a_timeout_and_nothing_to_run_is_asked_what_it_runs() -> None:
    assert refused(form("dags: Timeout Handling")) == ["add run: python:module.function, or remove `timeout`"]


def test_steps_that_depend_on_one_run_beside_each_other(starts: Starts) -> None:
    run = starts("workflow: seed\n" + form("dags: Parallel Execution"))
    assert run.status == "completed"
    assert set(run.steps) == {"step-a", "step-b", "step-c", "step-d"}


def test_a_bare_spec_is_unwrapped_and_its_steps_are_asked_what_they_run() -> None:
    """Its file names the workflow."""
    assert (
        refused(form("dags: Compensation Example")) == ["add run: python:module.function, or remove `on_failure`"] * 4
    )


def test_compensations_by_agents_are_told_what_to_do_and_run_backwards(kit: Stepwell) -> None:
    """The form with something to run in each step."""
    text = form("dags: Compensation Example")
    for name in ("create-account", "provision-workspace", "setup-analytics", "send-welcome"):
        text = text.replace(f"- name: {name} ", f"- name: {name}\n      run: {name} ")
    text = text.replace("spec:\n", "spec:\n  workflow: seed\n  failurePolicy: compensate\n")
    text = text.replace("\n  compensation:", "    - {name: last, run: last, dependsOn: [send-welcome],"
                        " onFailure: compensate}\n  compensation:")  # fmt: skip
    kit.define(text)
    done = {name: kit.mock(name, returns={"made": name}) for name in ("create-account", "send-welcome")}
    for name in ("provision-workspace", "setup-analytics"):
        kit.mock(name, returns={})
    undone = {name: kit.mock(name, returns={}) for name in ("data-pipeline", "product-analyst", "growth-optimizer")}
    kit.mock("last", raises=ValueError("it broke"))
    run = kit.start("seed", {"user": "ana"})
    assert run.status == "compensated"
    assert len(done["create-account"].calls) == 1
    asked = {name: [call["action"] for call in mock.calls] for name, mock in undone.items()}
    assert asked == {
        "data-pipeline": ["Remove analytics configuration"],
        "product-analyst": ["Delete workspace and release resources"],
        "growth-optimizer": ["Deactivate account (soft delete)"],
    }
    assert undone["growth-optimizer"].calls[0]["output"] == {"made": "create-account"}


def test_a_step_of_an_agent_gets_what_it_is_to_do_with_its_input(kit: Stepwell) -> None:
    kit.define('workflow: seed\nsteps: [{name: a, agent: analyst, action: "Score {{ input.name }}"}]')
    mock = kit.mock("analyst", returns={})
    assert kit.start("seed", {"name": "ana"}).status == "completed"
    assert mock.calls == [{"name": "ana", "action": "Score ana"}]


GATE = """
workflow: seed
steps:
  - {name: gate, wait: {for: approval, timeout: 1h}, onFailure: %s}
  - {name: after, run: after, dependsOn: [gate]}
  - {name: made, run: made, compensate: {run: undo}}
"""


@pytest.mark.parametrize("how", ["reject", "wait"])
@pytest.mark.parametrize(
    ("on_failure", "statuses"), [("abort", {"failed", "timed_out"}), ("compensate", {"compensated"})]
)
def test_on_failure_of_a_gate_says_what_a_no_or_a_timeout_does(
    kit: Stepwell, starts: Starts, how: str, on_failure: str, statuses: set[str]
) -> None:
    undo = kit.mock("undo", returns={})
    run = starts(GATE % on_failure, "made", "after")
    if how == "reject":
        run.reject("no")
    else:
        kit.advance("1h")
    assert run.status in statuses
    assert len(undo.calls) == (1 if on_failure == "compensate" else 0)


def test_on_failure_skip_passes_a_gate_that_nobody_opened(kit: Stepwell, starts: Starts) -> None:
    run = starts(GATE % "skip", "made", "after")
    kit.advance("1h")
    assert (run.status, run.steps["gate"].status, run.steps["after"].status) == ("completed", "skipped", "skipped")


# -- graphs


FORK = """
workflow: seed
nodes:
  split: {FAN_OUT, transitions: [{to_node_id: left}, {to_node_id: right}, {to_node_id: other}]}
  left: {run: "workflow:sub", INPUT: {a: "{{ input.a }}"}, OUTPUT: {b: "{{ result }}"},
         INHERITED, ON_FAILURE, transitions: [{to_node_id: join}]}
  right: {transitions: [{to_node_id: join}]}
  other: {transitions: [{to_node_id: join}]}
  join: {fan_in: {policy: {m_of_n: 3}, on_early_complete: cancel, merge: MERGE}}
"""


def forked(fan_out: str = "graphs: Fan-out", merge: str = "append") -> str:
    """A fork in the keys of the document."""
    found = FORK.replace("FAN_OUT", form(fan_out).strip()).replace("MERGE", merge)
    inherited, on_failure = form("graphs: Sub-workflows").strip(), form("graphs: Sub-workflows 2").strip()
    given, brought = form("graphs: Sub-workflows 4").strip(), form("graphs: Sub-workflows 5").strip()
    found = found.replace("INPUT", given).replace("OUTPUT", brought)
    return found.replace("INHERITED", inherited).replace("ON_FAILURE", on_failure)


@pytest.mark.parametrize("number", range(4))
def test_each_merge_strategy_merges_what_the_branches_wrote(kit: Stepwell, starts: Starts, number: int) -> None:
    kit.define("workflow: sub\ninternal: true\nnodes: {a: {run: double}}")
    kit.mock("double", returns=2)
    strategies = form("graphs: Merge Strategies").replace("- ", "").split()
    merged = {
        "append": [{"b": 2}, {}, {}], "merge_object": {"b": 2},
        "keyed_by_branch": {"0": {"b": 2}, "1": {}, "2": {}}, "last_wins": {},
    }  # fmt: skip
    assert sorted(strategies) == sorted(merged)
    run = starts(forked(merge=strategies[number]), given={"a": 1})
    assert (run.status, run.state["join"]) == ("completed", merged[strategies[number]])


def test_first_match_takes_one_way(starts: Starts) -> None:
    text = (
        'workflow: seed\nnodes:\n  a: {%s, transitions: [{to: b, when: "true"}, {to: c}]}\n  b: {run: b}\n  c: {run: c}'
    )
    run = starts(text % form("graphs: Fan-out 2").strip(), "b", "c")
    assert (run.status, "b" in run.steps, "c" in run.steps) == ("completed", True, False)


def test_a_transition_takes_its_priority_and_stands_at_its_own_node(starts: Starts) -> None:
    whole = form("graphs: Transition Evaluation").split("\n")
    text = "workflow: seed\nnodes:\n  start: {run: start, transitions: [{%s}]}\n  done: {run: done}"
    hint = "remove it: a transition stands at the node that it leads from"
    assert refused(text % ", ".join(whole[:3])) == [hint]
    assert starts(text % ", ".join(whole[1:3]), "start", "done").status == "completed"


def test_a_graph_takes_the_names_to_node_id_input_mapping_and_output_mapping(kit: Stepwell, starts: Starts) -> None:
    kit.define("workflow: sub\ninternal: true\nnodes: {a: {run: double}}")
    double = kit.mock("double", returns=2)
    run = starts(forked(), given={"a": 1})
    assert run.status == "completed"
    assert double.calls == [{"a": 1}]
    assert run.state["join"][0] == {"b": 2}


@pytest.mark.parametrize("rest", ["cancel", "abandon"])
def test_what_did_not_arrive_in_time_is_cancelled_or_abandoned(starts: Starts, rest: str) -> None:
    key = form("graphs: Fan-in Synchronization 4").strip()
    text = (
        "workflow: seed\nnodes:\n  a: {transitions: [{to: b, %s: 'input.names'}]}\n"
        "  b: {run: b, transitions: [{to: c}]}\n"
        "  c: {fan_in: {policy: {m_of_n: 1}, %s: %s}}"
    )
    run = starts(text % (form("graphs: Transition Evaluation 2").strip(), key, rest), "b", given={"names": ["x", "y"]})
    assert (run.status, len(run.state["c"])) == ("completed", 1)


def test_a_transition_matches_on_the_last_error(kit: Stepwell, starts: Starts) -> None:
    text = (
        'workflow: seed\nnodes:\n  a: {run: work, transitions: [{to: b, when: "has(%s)"}, {to: c}]}\n  b: {}\n  c: {}'
    )
    kit.define(text % form("graphs: Error Handling 3").strip())
    kit.mock("work", raises=ValueError("no luck"))
    run = kit.start("seed")
    assert (run.status, run.state["_last_error"]["type"]) == ("completed", "ValueError")


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("graphs: Sub-workflows 3", "sub", "write run: workflow:name"),
        ("graphs: Error Handling", "{}", "write its retry_policy and its timeout at the node itself"),
        ("graphs: Error Handling 2", "3000", "write its retry_policy and its timeout at the node itself"),
    ],
)
def test_a_name_of_another_engine_is_refused_with_ours(name: str, value: str, hint: str) -> None:
    """`execution.timeout_ms` is the key `timeout_ms` of `execution`."""
    outer, _, inner = form(name).strip().partition(".")
    written = f"{outer}: {{{inner}: {value}}}" if inner else f"{outer}: {value}"
    assert refused(f"workflow: seed\nnodes:\n  a: {{run: work, {written}}}") == [hint]


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("timeout_ms: 3000", "write timeout: 5s, with its unit"),
        ("transitions: [{to: a, condition: 'state.x'}]", "write when: the condition"),
        ("step: python:shop.ship", "write run: python:module.function"),
        ("next: a", "write transitions: [{to: NODE}]"),
        ("merge: append", "write it in fan_in, beside its policy"),
        ("on_early_complete: abandon", "write it in fan_in, beside its policy"),
        ("transitions: [{to: a, from_node_id: a}]", "remove it: a transition stands at the node that it leads from"),
    ],
)
def test_a_key_at_the_wrong_place_is_refused_with_what_to_write(written: str, hint: str) -> None:
    assert refused(f"workflow: seed\nnodes:\n  a: {{run: work, {written}}}") == [hint]


@pytest.mark.parametrize("name", ["graphs: Fan-in Synchronization", "graphs: Fan-in Synchronization 2"])
def test_a_fan_in_without_a_policy_is_refused_with_where_it_stands(name: str) -> None:
    text = f"workflow: seed\nnodes:\n  a: {{run: work, {form(name).strip()}}}"
    assert refused(text) == ["write fan_in: {policy: all}, or any, or {m_of_n: 2}"]


def test_m_of_n_without_a_policy_is_refused_with_where_it_stands() -> None:
    text = "workflow: seed\nnodes:\n  a:\n    run: work\n    " + form("graphs: Fan-in Synchronization 3")
    assert refused(text.replace("N }", "2 }")) == ["write fan_in: {policy: {m_of_n: 2}}"]


def test_a_wait_takes_a_number_as_its_key(kit: Stepwell, starts: Starts) -> None:
    run = starts("workflow: seed\ntimeline: [{name: paid, wait: {for: event, name: paid, key: 7}}]")
    kit.event("paid", {}, key="7")
    assert run.status == "completed"


# -- limits and guidelines


def test_a_step_timeout_beyond_a_year_is_an_error() -> None:
    assert refused("workflow: seed\ntimeline: [{name: a, run: work, timeout: 400d}]") == ["at most 365d"]


def test_what_cannot_be_undone_wants_an_approval_before_it() -> None:
    gate = "{name: gate, wait: {for: approval}}"
    final = "{name: gone, run: 'python:crm.delete_account', timeout: 1m%s}"
    code = [("final_without_approval", "/timeline/0")]
    assert warned(f"workflow: seed\ntimeline: [{final % ''}]") == code
    assert warned(f"workflow: seed\ntimeline: [{gate}, {final % ''}]") == []
    assert (
        warned("workflow: seed\nfailure_policy: compensate\ntimeline: [%s]" % (final % ", compensate: {run: back}"))
        == []
    )
    steps = f"workflow: seed\nsteps: [{gate}, {{name: gone, run: deleteAccount, timeout: 1m%s}}]"
    assert warned(steps % ", depends_on: [gate]") == []
    assert warned(steps % "") == [("final_without_approval", "/steps/1")]


def test_a_step_that_only_reads_wants_no_compensation() -> None:
    step = "{name: a, run: %s, timeout: 1m, compensate: {run: undo}}"
    text = f"workflow: seed\nfailure_policy: compensate\ntimeline: [{step}]"
    assert warned(text % "fetch_orders") == [("compensation_of_a_read", "/timeline/0")]
    assert warned(text % "'http:GET https://x.test/'") == [("compensation_of_a_read", "/timeline/0")]
    assert warned(text % "make_orders") == []
    assert warned(text % "load_orders") == []  # into a warehouse


# -- how a run is shown


def shown(kit: Stepwell, run: Run, words: str = "agent") -> dict[str, Any]:
    """The run as `?as=` shows it."""
    view = run.view
    at = run_now(kit.service.standing(run.id))
    return in_words_of(words, cast(RunView, view), at)


TALK = """
agent: seed
actions:
  - {id: 1, actionType: send_message, parameters: {message: Hola}}
  - {id: 2, actionType: wait_for_response, parameters: {threadId: 123, expectedFrom: postulant, timeout: 24h}}
  - {id: 3, actionType: send_email, parameters: {to: ana}}
"""


def test_a_waiting_agent_has_the_fields_of_the_form(kit: Stepwell, starts: Starts) -> None:
    form_of = plain("agents: Estructura de WAITING")
    run = shown(kit, starts(TALK, "send_message"))
    assert (run["waitingFor"], run["waitingData"]) == (form_of["waitingFor"], form_of["waitingData"])
    assert run["waitingUntil"] == "2030-01-02T09:00:00.000Z"
    kept = set(plain("agents: LangGraph Checkpointing")["checkpoint"]) - {
        "currentStep",
        "shouldWait",
    }  # of its storage alone
    assert kept <= set(run)


IN_BOTH_SPELLINGS = {
    "completed_at", "error_message", "failed_action_id", "result_type", "result_summary", "cancelled_by",
    "cancel_reason",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "status"),
    [("agents: COMPLETED", "COMPLETED"), ("agents: FAILED", "FAILED"), ("agents: TIMEOUT", "TIMEOUT"),
     ("agents: CANCELLED", "CANCELLED")],
)  # fmt: skip
def test_an_agent_that_ended_has_the_fields_of_the_form(kit: Stepwell, starts: Starts, name: str, status: str) -> None:
    kit.mock("send_email", raises=ValueError("recipient not found") if status == "FAILED" else None, returns={})
    run = starts(TALK, "send_message")
    if status == "TIMEOUT":
        kit.advance("24h")
    elif status == "CANCELLED":
        run.cancel("Usuario solicito cancelacion", by="user")
    else:
        kit.event("MESSAGE_RECEIVED", {"from": "postulant"}, key="123")
    form_of, found = plain(name), shown(kit, run)
    assert {key for key in form_of if found[key] is None} == set()
    assert (found["status"], found["resultType"]) == (status, form_of["resultType"])
    assert {key for key in found if "_" in key} == IN_BOTH_SPELLINGS
    assert [name for name in (*found["cost"], *found["cost"]["estimated"]) if "_" in name] == []


def test_an_agent_keeps_the_keys_of_its_users(kit: Stepwell, starts: Starts) -> None:
    kit.mock("look_up", returns={"first_name": "Ana"})
    found = shown(kit, starts("agent: seed\nactions: [{id: look_up, actionType: look_up}]", given={"thread_id": 1}))
    assert (found["variables"]["first_name"], found["input"]) == ("Ana", {"thread_id": 1})
    step = found["steps"]["look_up"]
    assert (step["output"], "startedAt" in step) == ({"first_name": "Ana"}, True)


def test_an_agent_that_waited_for_another_has_the_variables_of_the_form(kit: Stepwell, starts: Starts) -> None:
    kit.define("agent: child\nactions: [{actionType: wait_for_response, parameters: {threadId: 123}}]")
    run = starts("agent: seed\nactions: [{actionType: trigger_agent, parameters: {agent: child}}]")
    assert run.waiting_for == "agent"
    form_of = plain("agents: Wait for Agent (Parent-Child)")
    kit.event("MESSAGE_RECEIVED", form_of["lastResponse"], key="123")
    found = shown(kit, run)["variables"]
    del form_of["triggeredExecutionId"]
    assert {key: found[key] for key in form_of} == form_of
    assert found["triggeredExecutionId"] == run.view["children"][0]["run_id"]


def test_a_timeline_counts_the_subworkflows_that_it_waits_for(kit: Stepwell, starts: Starts) -> None:
    kit.define("workflow: quick\ntimeline: [{name: a}]")
    kit.define("workflow: slow\ntimeline: [{name: a, sleep: 1h}]")
    children = "[{workflow: quick}, {workflow: slow}]"
    run = starts(f"workflow: seed\ntimeline: [{{name: fan, timeout: 3h, children: {children}}}]")
    found = shown(kit, run, "timeline")
    assert found["status"] == "waiting_for_subworkflows"
    assert (found["pending_count"], found["completed_count"], found["failed_at_step"]) == (1, 1, None)
    kit.advance("1h")
    found = shown(kit, run, "timeline")
    assert (found["status"], found["pending_count"], found["completed_count"]) == ("completed", None, None)


def test_a_timeline_says_at_which_step_it_failed(kit: Stepwell, starts: Starts) -> None:
    kit.mock("work", raises=ValueError("no"))
    found = shown(kit, starts("workflow: seed\ntimeline: [{name: a}, {name: b, run: work}]"), "timeline")
    assert (found["status"], found["failed_at_step"]) == ("failed", "b")


# -- what waits take


ASKED = """
agent: seed
actions:
  - {actionType: send_message, parameters: {message: "¿Sigues interesado?"}}
  - {actionType: wait_for_response, parameters: {threadId: "{{ threadId }}"}}
"""


def test_a_message_that_is_older_than_its_question_is_no_answer(kit: Stepwell, starts: Starts) -> None:
    kit.event("MESSAGE_RECEIVED", {"text": "old"}, key="123")
    kit.advance("1s")
    run = starts(ASKED, "send_message", given={"threadId": 123})
    assert run.status == "waiting"
    kit.event("MESSAGE_RECEIVED", {"text": "new"}, key="123")
    assert (run.status, run.state["lastResponse"]) == ("completed", "new")


def test_a_message_of_another_thread_is_no_answer(kit: Stepwell, starts: Starts) -> None:
    run = starts(ASKED, "send_message", given={"threadId": 123})
    kit.event("MESSAGE_RECEIVED", {"text": "hello"}, key="124")
    kit.event("MESSAGE_RECEIVED", {"text": "hello"})
    assert run.status == "waiting"


def test_an_answer_without_a_thread_is_warned_of() -> None:
    asked = "agent: seed\nactions: [{actionType: wait_for_response, parameters: {%s}}]"
    assert warned(asked % "timeout: 1h") == [("response_without_thread", "/actions/0")]
    assert warned(asked % "threadId: 1") == []


DOCUMENTS = "agent: seed\nactions: [{actionType: request_document, parameters: {documents: [cv, id]}}]"


def test_a_wait_for_documents_shows_what_came_and_what_is_missing(starts: Starts) -> None:
    run = starts(DOCUMENTS)
    assert (run.view["waiting_data"]["received"], run.view["waiting_data"]["missing"]) == ([], ["cv", "id"])
    run.event("DOCUMENT_UPLOADED", {"document": "id", "url": "s3://id"})
    assert (run.view["waiting_data"]["received"], run.view["waiting_data"]["missing"]) == (["id"], ["cv"])


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (None, "names no document"),
        ({"url": "s3://cv"}, "names no document"),
        ({"document": "photo"}, "send cv, id"),
        ({"document": "cv", "url": 7}, "`url` of 'cv' is not text"),
    ],
)
def test_a_wait_for_documents_refuses_what_is_none_of_them(starts: Starts, payload: Any, told: str) -> None:
    run = starts(DOCUMENTS)
    assert run.waiting_for == "document"
    with pytest.raises(InvalidInput, match=told):
        run.event("DOCUMENT_UPLOADED", payload)
    run.event("SOMETHING_ELSE", payload)
    assert run.waiting_for == "document"


PAPERS = "{for: document, documents: [cv, id]}"
PHOTO = "{for: document, documents: [photo]}"


@pytest.mark.parametrize(
    "definition",
    [
        f"steps: [{{name: a, wait: {PAPERS}}}, {{name: b, wait: {PHOTO}}}, {{name: ask, wait: {{for: approval}}}}]",
        "nodes: {a: {fan_out: all, transitions: [{to: b}, {to: c}]}, "
        f"b: {{wait: {PAPERS}}}, c: {{wait: {PHOTO}}}}}",
        f"timeline: [{{name: a, wait: {{any: [{PAPERS}, {PHOTO}]}}}}]",
    ],
    ids=["dag", "fork", "any"],
)
def test_of_several_waits_for_documents_each_takes_its_own(starts: Starts, definition: str) -> None:
    """An event is refused if none takes it, whatever the run shows to wait for."""
    run = starts(f"workflow: seed\n{definition}")
    assert run.status == "waiting"
    with pytest.raises(InvalidInput, match="is not asked for: send cv, id; 'passport' is not asked for: send photo"):
        run.event("DOCUMENT_UPLOADED", {"document": "passport"})
    run.event("DOCUMENT_UPLOADED", {"document": "photo", "url": "s3://photo"})
    assert "s3://photo" in json.dumps([entry for entry in run.history if entry["type"] == "event.received"])


def test_a_document_for_a_branch_of_an_inner_fork_is_not_refused_by_the_branches_beside_it(starts: Starts) -> None:
    run = starts(
        "workflow: seed\nnodes: {a: {fan_out: all, transitions: [{to: b}, {to: c}]}, "
        f"b: {{wait: {PAPERS}}}, c: {{fan_out: all, transitions: [{{to: d}}, {{to: e}}]}}, "
        f"d: {{wait: {PHOTO}}}, e: {{wait: {{for: approval}}}}}}"
    )
    assert run.status == "waiting"
    run.event("DOCUMENT_UPLOADED", {"document": "photo", "url": "s3://photo"})
    assert "s3://photo" in json.dumps([entry for entry in run.history if entry["type"] == "event.received"])


# -- events that Stepwell sends


ENDED = """
workflow: seed
timeline: [{name: ended, wait: {for: event, name: AGENT_COMPLETED, key: "{{ input.run }}"}}]
"""


@pytest.mark.parametrize(("error", "status"), [(None, "completed"), (ValueError("no"), "failed")])
def test_the_end_of_an_agent_sends_agent_completed(
    kit: Stepwell, starts: Starts, error: BaseException | None, status: str
) -> None:
    kit.mock("rate", raises=error)
    agent = starts("agent: rater\nactions: [{actionType: rate}]")
    assert agent.status == status
    run = starts(ENDED, given={"run": agent.id})
    told = {"run_id": agent.id, "workflow": "rater", "status": status, "success": status == "completed"}
    assert (run.status, run.result) == ("completed", told)


def test_an_agent_that_is_cancelled_sends_agent_completed_too(kit: Stepwell, starts: Starts) -> None:
    agent = starts("agent: sleeper\nactions: [{actionType: delay, parameters: {duration: 1h}}]")
    run = starts(ENDED, given={"run": agent.id})
    assert run.status == "waiting"
    agent.cancel()
    assert (run.status, run.result["status"]) == ("completed", "cancelled")


def test_the_time_of_a_schedule_sends_schedule_reached(kit: Stepwell, starts: Starts) -> None:
    nightly = kit.define("workflow: nightly\ntriggers: [{schedule: cron(0 3 * * ? *)}]\ntimeline: [{name: a}]")
    name = nightly.schedules[0].name
    wait = f"{{for: event, name: SCHEDULE_REACHED, key: '{name}'}}"
    run = starts(f"workflow: seed\ntimeline: [{{name: reached, wait: {wait}}}]")
    kit.advance("17h")
    assert run.status == "waiting"
    kit.advance("1h")
    told = {"schedule": name, "workflow": "nightly", "scheduled_at": "2030-01-02T03:00:00.000Z"}
    assert (run.status, run.result) == ("completed", told)


# -- times


@pytest.mark.parametrize(
    ("limit", "status", "error"), [("1h", "timed_out", "workflow_timeout"), ("1m", "failed", "step_timeout")]
)
def test_a_workflow_timeout_overrides_that_of_its_step(
    kit: Stepwell, starts: Starts, limit: str, status: str, error: str
) -> None:
    """As on the server: the run's own time is up while the step still runs."""
    kit.mock("work", times_out=True)
    run = starts(f"workflow: seed\ntimeout: 30m\ntimeline: [{{name: a, run: work, timeout: {limit}}}]")
    assert run.status == status
    assert run.error is not None
    assert run.error["type"] == error
