"""Decide and commit: pure, the same twice, bounded by the run's own time, causal in its times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepwell.engine.actions import Drop, Outcome, Refuse, Rest, RunStep, Write
from stepwell.engine.attempts import commit
from stepwell.engine.decide import decide
from stepwell.engine.fold import apply
from stepwell.engine.inputs import PermitAnswered, Started
from stepwell.engine.limits.throttles import PERMITTED
from stepwell.engine.records import End, Kind, Record, Resumption, RetryAt, RunInfo, Status
from stepwell.engine.retry import Policy
from stepwell.engine.table import Phase
from stepwell.engine.token import Permit, Token
from stepwell.engine.writing import began_record, deadline_ms
from stepwell.errors import EngineFault
from tests.engine.kit import NOW_MS, Play, failure, play

STEP = "workflow: w\ntimeline: [{name: a, run: python:m.a}, {name: b, run: python:m.b}]"
LIMITED = "workflow: w\ntimeout: 1m\ntimeline: [{name: a, run: python:m.a}, {name: b, run: python:m.b}]"
POLICY = Policy(None, 300_000, False)


def test_deciding_twice_decides_the_same() -> None:
    run = play(STEP, {"x": 1})
    assert run.decide() == run.decide()
    assert run.token == Token()


def test_the_input_of_a_step_is_the_run_s_input_overlaid_with_the_scope() -> None:
    run = play(STEP, {"a": 1, "n": 2})
    run.ends({"made": True})
    assert run.asked().input == {"a": {"made": True}, "n": 2}


@pytest.mark.parametrize(("given", "seen"), [(None, {}), (5, {"input": 5}), ([1], {"input": [1]})])
def test_an_input_that_is_no_object_has_the_name_input(given: object, seen: object) -> None:
    assert play(STEP, given).asked().input == seen


def test_an_input_expression_that_fails_is_a_validation_error_of_its_step() -> None:
    run = play("workflow: w\ntimeline: [{name: a, run: python:m.a, input: {x: '{{ state.nope }}'}}]").settle()
    assert run.error is not None
    assert (run.error.category, run.error.step, run.last.kind) == ("validation", "a", Kind.STEP)


def test_an_output_that_cannot_be_mapped_is_a_validation_error_of_its_step() -> None:
    run = play("workflow: w\ntimeline: [{name: a, run: python:m.a, output: {x: '{{ result.nope }}'}}]")
    run.ends({})
    assert run.error is not None
    assert run.error.category == "validation"
    assert run.token.scope == {}


def test_a_state_that_violates_its_schema_is_a_validation_error_and_is_not_written() -> None:
    schema = "state_schema: {properties: {a: {type: integer}}}\n"
    run = play("workflow: w\n" + schema + "timeline: [{name: a, run: python:m.a}]")
    run.ends("text")
    assert run.error is not None
    assert (run.error.type, run.error.category, run.token.scope) == ("state_schema", "validation", {})


def test_the_key_names_run_token_and_visit_and_does_not_change_with_the_wake() -> None:
    run = play(STEP)
    assert run.asked().key == "r1:0:0"
    run.ends(1)
    assert run.asked().key == "r1:0:1"


def test_an_idle_run_rests_until_it_is_started() -> None:
    run = play(STEP, idle=True)
    assert run.decide() == Rest()
    run.append(Record(0, Kind.STARTED, "start:r1", NOW_MS))
    assert isinstance(run.decide(), RunStep)


def test_only_an_idle_run_is_started_and_only_once() -> None:
    started = Record(0, Kind.STARTED, "start:r1", NOW_MS)
    idle, other = play(STEP, idle=True), play(STEP)
    assert isinstance(decide(idle.moment, idle.token, Started("kim")), Write)
    for run, token in ((idle, apply(idle.token, started)), (other, other.token)):
        refused = decide(run.moment, token, Started("kim"))
        assert isinstance(refused, Refuse)
        assert refused.code == "not_idle"


def test_a_run_does_not_begin_before_its_time() -> None:
    run = play(STEP, start_at_ms=NOW_MS + 5_000)
    assert run.decide() == Rest(NOW_MS + 5_000)
    run.now_ms += 5_000
    assert isinstance(run.decide(), RunStep)


def test_the_run_s_own_time_counts_from_its_start_not_from_its_creation() -> None:
    graph = play(LIMITED).graph
    info = RunInfo("r1", "w", "v", None, NOW_MS)
    assert deadline_ms(graph, info, Token()) == NOW_MS + 60_000
    assert deadline_ms(graph, replace(info, start_at_ms=NOW_MS + 500), Token()) == NOW_MS + 60_500
    assert deadline_ms(graph, replace(info, idle=True), Token()) is None
    assert deadline_ms(graph, replace(info, idle=True), Token(started_ms=NOW_MS + 9)) == NOW_MS + 60_009
    assert deadline_ms(play(STEP).graph, info, Token()) is None


def test_an_idle_run_that_is_to_begin_later_is_not_out_of_time_before_it_begins() -> None:
    info = RunInfo("r1", "w", "v", None, NOW_MS, idle=True, start_at_ms=NOW_MS + 3_600_000)
    assert deadline_ms(play(LIMITED).graph, info, Token(started_ms=NOW_MS + 9)) == NOW_MS + 3_660_000


def test_past_its_own_time_a_run_ends_timed_out_before_another_step_runs() -> None:
    run = play(LIMITED)
    run.ends(1)
    run.now_ms += 60_000
    run.settle()
    assert run.error is not None
    assert (run.status, run.error.type, run.error.category) == (Status.TIMED_OUT, "workflow_timeout", "timeout")


def test_a_step_that_the_run_s_own_time_cut_short_ends_the_run_and_is_not_retried() -> None:
    retry = "retry: {on: [timeout]}, diverge: [{when: \"error.category == 'timeout'\", back_to: a}]"
    run = play(f"workflow: w\ntimeout: 1m\ntimeline: [{{name: a, run: python:m.a, {retry}}}]")
    action = run.asked()
    run.now_ms += 60_000
    outcome = Outcome(failure=failure("step_timeout", "timeout", step="a"))
    record = commit(run.moment, run.token, action, outcome, POLICY)
    assert isinstance(record.next, End)
    assert (record.kind, record.next.status) == (Kind.ENDED, Status.TIMED_OUT)


def test_a_step_s_own_time_out_within_the_run_s_time_is_a_failed_step() -> None:
    run = play(LIMITED)
    run.ends(failure=failure("step_timeout", "timeout"))
    assert run.status is Status.FAILED


def test_an_at_most_once_step_whose_worker_died_is_not_run_again() -> None:
    run = play("workflow: w\ntimeline: [{name: a, run: python:m.a, at_most_once: true}]")
    run.append(began_record(run.moment, run.token, run.asked(), 1_000))
    run.now_ms += 60_000
    run.settle()
    assert run.error is not None
    assert (run.error.type, run.error.category) == ("outcome_unknown", "worker_lost")


def test_an_at_most_once_step_is_not_called_lost_while_its_worker_may_be_alive() -> None:
    run = play("workflow: w\ntimeline: [{name: a, run: python:m.a, at_most_once: true}]")
    run.append(began_record(run.moment, run.token, run.asked(), 1_000))
    until_ms = run.rests_until()
    assert until_ms is not None
    assert until_ms >= run.now_ms + 1_000
    run.now_ms = until_ms
    assert run.settle().status is Status.FAILED


def test_a_rule_can_take_the_unknown_outcome_of_an_at_most_once_step() -> None:
    rule = "diverge: [{when: \"error.category == 'worker_lost'\", skip_to: b}]"
    run = play(f"workflow: w\ntimeline: [{{name: a, run: python:m.a, at_most_once: true, {rule}}}, "
               "{name: b, run: python:m.b}]")  # fmt: skip
    run.append(began_record(run.moment, run.token, run.asked(), 1_000))
    run.now_ms += 60_000
    assert run.settle().went_to() == "b"


def test_an_at_most_once_step_that_ended_is_as_any_other() -> None:
    run = play("workflow: w\ntimeline: [{name: a, run: python:m.a, at_most_once: true}]")
    action = run.asked()
    run.append(began_record(run.moment, run.token, action, 1_000))
    run.append(commit(run.moment, run.token, action, Outcome(5), Policy(None, 1_000, True)))
    assert (run.status, run.token.result) == (Status.COMPLETED, 5)


def test_times_never_run_behind_whatever_the_clock_of_the_machine_says() -> None:
    run = play(STEP)
    run.now_ms = NOW_MS - 9_000
    assert run.ends(1).at_ms == NOW_MS  # the run's creation
    waited = play("workflow: w\ntimeline: [{name: hold, wait: {for: approval}}]").settle()
    waited.now_ms = NOW_MS - 5_000
    assert waited.ended_by(Status.CANCELLED).at_ms == waited.log[0].at_ms


def test_an_ended_token_rests_for_good() -> None:
    run = play(STEP)
    run.ended_by(Status.CANCELLED)
    run.now_ms += 10**12
    assert run.decide() == Rest()


def test_a_retry_rests_until_it_is_due() -> None:
    run = play("workflow: w\ntimeline: [{name: a, run: python:m.a, retry: {max_retries: 1}}]")
    following = run.ends(failure=failure("E", "transient")).next
    assert isinstance(following, RetryAt)
    assert run.decide() == Rest(following.at_ms)


def test_a_log_that_the_graph_cannot_have_written_is_a_fault() -> None:
    other = play("workflow: w\ntimeline: [{name: x, run: python:m.x}]")
    run = play(STEP)
    run.ends(1)
    with pytest.raises(EngineFault, match="does not have"):
        decide(other.moment, run.token)


def test_a_routing_node_passes_the_result_on() -> None:
    text = """
workflow: g
nodes:
  a: {run: python:m.a, transitions: [{to: b}]}
  b: {transitions: [{to: c, when: "result == 5"}, {to: d}]}
  c: {}
  d: {}
"""
    run = play(text)
    run.ends(5)
    run.settle()
    assert (run.token.node, run.status, run.token.result) == ("c", Status.COMPLETED, 5)
    assert set(run.token.steps) == {"a"}


def test_a_step_with_a_sleep_in_the_middle_of_the_flow_records_one_move_per_wait() -> None:
    run = play(
        "workflow: w\ntimeline: [{name: a, run: python:m.a}, {name: nap, sleep: 5s}, {name: b, run: python:m.b}]"
    )
    run.ends(1)
    run.times_out()
    run.ends(2)
    assert [record.kind for record in run.log] == [Kind.STEP, Kind.WAITING, Kind.RESUMED, Kind.MOVED, Kind.STEP]


def test_an_attempt_costs_one_record_whose_size_does_not_grow_with_the_state() -> None:
    from stepwell.engine.stored.codec import encode_record  # noqa: PLC0415  only here

    entries = ", ".join(f"{{name: s{n:03d}, run: python:m.s}}" for n in range(200))
    run = play(f"workflow: w\ntimeline: [{entries}]")
    sizes = [len(encode_record(run.ends({"value": "x" * 50}))) for _ in range(199)]
    assert max(sizes) - min(sizes) < 20
    assert len(run.log) == 199


def test_write_is_what_needs_no_user_code() -> None:
    run = play("workflow: w\ntimeline: [{name: hold, wait: {for: approval}}]")
    action = run.decide()
    assert isinstance(action, Write)
    assert action.record.kind is Kind.WAITING
    assert apply(Token(), action.record).parked is not None


def test_the_failure_that_ends_a_run_says_which_step_and_how_many_attempts() -> None:
    run: Play = play("workflow: w\ntimeline: [{name: a, run: python:m.a, retry: {max_retries: 1}}]")
    run.ends(failure=failure("E", "transient"))
    run.now_ms += 60_000
    run.ends(failure=failure("E", "transient"))
    assert run.error is not None
    assert (run.error.step, run.error.attempts) == ("a", 2)


@pytest.mark.parametrize("slot", [0, 7])
def test_a_permit_that_comes_too_late_is_given_back_but_not_one_that_the_token_has(slot: int) -> None:
    """Else a copy of a message would give back the permit under which a step runs."""
    run = play(STEP).settle()
    has = Permit("mail", "", 0, state=PERMITTED)
    given = PermitAnswered(replace(has, slot=slot), Resumption(PERMITTED))
    token = replace(run.token, permit=has)
    assert decide(run.moment, token, given) == Drop(lets_go=None if slot == 0 else given.permit)
    assert decide(run.moment, replace(run.token, phase=Phase.WAITING_FOR_EVENT), given) == Drop(lets_go=given.permit)
