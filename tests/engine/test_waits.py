"""Waits: what parks a token, what ends it, and what comes of that: each kind, `any`, time-outs, directives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepwell.engine.actions import RunStep, Write
from stepwell.engine.decide import decide, first_due
from stepwell.engine.inputs import EventOffered
from stepwell.engine.names import iso
from stepwell.engine.records import Arm, End, Goto, Kind, Parked, Pause, Resumption, RetryAt, Status, Topic
from stepwell.engine.stored.codec import parked_json, parked_of
from stepwell.engine.token import Token
from stepwell.engine.waits.approval import approvers
from stepwell.engine.waits.outcome import failure_of
from stepwell.limits import DAY_MS, HOUR_MS, SEEN_EVENTS
from tests.engine.kit import NOW_MS, Play, failure, play

FLOW = """
workflow: flow
timeline:
  - {{name: hold, {wait}}}
  - {{name: after, run: python:m.after}}
"""


def waiting(wait: str, given: object = None) -> Play:
    return play(FLOW.format(wait=f"wait: {{{wait}}}"), given).settle()


def offered(run: Play, event_id: str, at_ms: int) -> EventOffered:
    topic = parked(run).arms[0].topics[-1]
    return EventOffered(run.token.waiting_slot, 0, topic, event_id, {}, at_ms, is_consumed=True)


def parked(run: Play) -> Parked:
    assert run.token.parked is not None, run.token.end
    return run.token.parked


@pytest.mark.parametrize(
    ("wait", "phase", "until_ms"),
    [
        ("for: approval", "waiting_for_approval", 24 * HOUR_MS),
        ("for: response", "waiting_for_event", 24 * HOUR_MS),
        ("for: event, name: paid", "waiting_for_event", 24 * HOUR_MS),
        ("for: delay, timeout: 2h", "sleeping", 2 * HOUR_MS),
        ("for: event, name: paid, timeout: 30d", "waiting_for_event", 30 * DAY_MS),
    ],
)
def test_each_wait_has_its_phase_and_its_default_timeout(wait: str, phase: str, until_ms: int) -> None:
    run = waiting(wait)
    assert run.token.phase == phase
    assert parked(run).until_ms == NOW_MS + until_ms


def test_an_event_s_wait_listens_for_its_key_and_for_its_run_alone() -> None:
    run = waiting("for: event, name: paid, key: '{{ input.order }}'", {"order": 42})
    assert parked(run).arms[0].topics == (Topic("paid", "=42"), Topic("paid", "@r1"))


def test_a_response_waits_for_message_received() -> None:
    assert parked(waiting("for: response, key: t1")).arms[0].topics[0] == Topic("MESSAGE_RECEIVED", "=t1")


@pytest.mark.parametrize(("at_ms", "is_taken"), [(NOW_MS - 1, False), (NOW_MS, True), (NOW_MS + 1, True)])
def test_a_response_is_no_older_than_what_it_answers(at_ms: int, is_taken: bool) -> None:
    run = play("workflow: w\ntimeline: [{name: ask, run: python:m.ask}, {name: hold, wait: {for: response}}]")
    ask = run.graph.nodes["ask"]
    assert ask.step is not None
    says_something = replace(ask, step=replace(ask.step, window=20))
    run.graph = replace(run.graph, nodes={**run.graph.nodes, "ask": says_something})
    run.ends({})
    run.settle()
    given = offered(run, "m1", at_ms)
    assert isinstance(decide(run.moment, run.token, given), Write) is is_taken


@pytest.mark.parametrize("of", [["ana", ""], ["ana", 5], [], "ana", [["ana"]]])
def test_approvers_are_a_list_of_names(of: object) -> None:
    run = waiting("for: approval, approvers: {of: '{{ input.of }}'}", {"of": of})
    assert run.error is not None
    assert (run.error.category, run.error.step) == ("validation", "hold")


@pytest.mark.parametrize(("of", "need"), [([], 1), (["ana"], 2), (["ana", "ana"], 2)])
def test_a_template_names_as_many_approvers_as_must_agree(of: list[str], need: int) -> None:
    """Else anybody could approve where it names nobody, and the wait could not end where it names too few."""
    run = waiting(f"for: approval, approvers: {{need: {need}, of: '{{{{ input.of }}}}'}}", {"of": of})
    assert run.error is not None
    assert (run.error.category, run.error.step) == ("validation", "hold")
    assert f"named {len(set(of))}, and {need} must agree" in run.error.message


def test_a_delegate_answers_in_the_place_of_one_and_those_who_are_asked_later_besides() -> None:
    arm = Arm("approval", parts=("ana", "leo"), need=2)
    delegated = Resumption("delegated", by="ana", payload={"to": "bea"})
    assert approvers(arm, [delegated]) == ("bea", "leo")
    assert approvers(arm, [delegated, Resumption("escalated", payload={"to": ["leo", "cfo"]})]) == ("bea", "leo", "cfo")
    again = Resumption("delegated", by="bea", payload={"to": "kim"})
    assert approvers(arm, [delegated, again]) == ("kim", "leo")


def test_of_the_events_that_stay_for_others_those_older_than_all_it_remembers_are_past() -> None:
    """Else a loop would take the oldest of many again and again."""
    run = waiting("for: event, name: news")
    seen = tuple(f"{NOW_MS + one:015d}:e{one}" for one in range(1, SEEN_EVENTS + 1))
    run.token = replace(run.token, seen={str(Topic("news", "@r1")): seen})

    def takes(event_id: str, at_ms: int) -> bool:
        given = replace(offered(run, event_id, at_ms), is_consumed=False)
        return isinstance(decide(run.moment, run.token, given), Write)

    assert not takes("old", NOW_MS)
    assert not takes("e1", NOW_MS + 1)
    assert takes("new", NOW_MS + SEEN_EVENTS + 1)
    run.token = replace(run.token, seen={str(Topic("news", "@r1")): seen[1:]})
    assert takes("old", NOW_MS)  # nothing has been forgotten yet


@pytest.mark.parametrize("key", [None, True, 1.5, "", ["a"], "x" * 513, "a\0", "a\nb"])
def test_a_key_that_no_event_can_have_is_a_validation_error(key: object) -> None:
    run = waiting("for: event, name: paid, key: '{{ input.key }}'", {"key": key})
    assert run.error is not None
    assert (run.status, run.error.category, run.error.step) == (Status.FAILED, "validation", "hold")


def test_an_event_s_payload_is_the_result_under_the_node_s_name() -> None:
    run = waiting("for: event, name: paid").came("event", {"amount": 5}, name="paid").settle()
    assert run.went_to() == "after"
    assert (run.token.result, run.token.scope) == ({"amount": 5}, {"hold": {"amount": 5}})


def test_an_approval_sets_approval_with_decision_data_and_by() -> None:
    run = waiting("for: approval").came("approved", {"data": {"limit": 3}}, by="ana").settle()
    assert run.token.scope["approval"] == {"decision": "approved", "by": "ana", "data": {"limit": 3}}


def test_a_response_sets_last_response() -> None:
    run = waiting("for: response").came("event", {"text": "yes"}, name="MESSAGE_RECEIVED").settle()
    assert run.token.scope["lastResponse"] == {"text": "yes"}


def test_a_delay_sets_no_names_and_completes() -> None:
    run = waiting("for: delay, timeout: 2h").times_out().settle()
    assert run.went_to() == "after"
    assert run.token.scope == {}
    assert run.token.steps["hold"].status == "completed"


def test_the_output_of_a_wait_maps_its_result() -> None:
    text = FLOW.format(wait="wait: {for: event, name: paid}, output: {sum: '{{ result.amount }}'}")
    run = play(text).came("event", {"amount": 5}).settle()
    assert run.token.scope == {"sum": 5}


def test_a_sleep_is_no_step_so_the_last_step_s_result_stands() -> None:
    run = play(
        "workflow: w\ntimeline: [{name: a, run: python:m.a}, {name: nap, sleep: 5s}, {name: b, run: python:m.b}]"
    )
    run.ends({"n": 1})
    run.times_out().settle()
    assert run.token.result == {"n": 1}


@pytest.mark.parametrize(("n", "to"), [(1, "low"), (2, "high")])
def test_the_rules_after_a_sleep_read_the_last_step_s_result(n: int, to: str) -> None:
    nap = "{for: delay, timeout: 5s}, transitions: [{when: 'result.n > 1', to: high}, {to: low}]"
    run = play(f"""
workflow: w
nodes:
  a: {{run: python:m.a, transitions: [{{to: nap}}]}}
  nap: {{wait: {nap}}}
  high: {{run: python:m.high}}
  low: {{run: python:m.low}}
""")
    run.ends({"n": n})
    run.times_out().settle()
    assert (run.went_to(), run.token.result) == (to, {"n": n})


@pytest.mark.parametrize(
    ("wait", "code"),
    [("for: approval", "approval_timeout"), ("for: response", "response_timeout"),
     ("for: event, name: paid", "event_timeout")],
)  # fmt: skip
def test_a_time_out_ends_the_run_timed_out(wait: str, code: str) -> None:
    run = waiting(wait).times_out().settle()
    assert run.error is not None
    assert (run.status, run.error.type, run.error.category) == (Status.TIMED_OUT, code, "timeout")


def test_a_rule_can_take_a_time_out() -> None:
    text = FLOW.format(
        wait="wait: {for: approval}, diverge: [{when: \"error.type == 'approval_timeout'\", skip_to: end}]"
    )
    run = play(text)
    run.settle().times_out().settle()
    assert run.last.next == End(Status.COMPLETED)


def test_on_timeout_continue_goes_to_the_next_node_without_a_result() -> None:
    run = waiting("for: approval, on_timeout: continue").times_out().settle()
    assert run.went_to() == "after"
    assert (run.token.error, run.token.result) == (None, None)


def test_on_timeout_retry_waits_again_three_times_and_then_times_out() -> None:
    run = waiting("for: approval, on_timeout: retry")
    for again in (1, 2, 3):
        before = run.now_ms
        run.times_out().settle()
        assert (run.token.waited, parked(run).until_ms) == (again, before + 48 * HOUR_MS)
    run.times_out().settle()
    assert run.error is not None
    assert (run.status, run.error.attempts) == (Status.TIMED_OUT, 4)


ACTIONS = "timeout_actions: [{run: python:m.remind, input: {n: '{{ error.attempts }}'}}, {run: python:m.tell}]"


def test_the_actions_of_a_time_out_run_in_order_before_its_outcome() -> None:
    run = waiting(f"for: approval, on_timeout: continue, {ACTIONS}").times_out()
    ran = []
    for _ in range(2):
        ran.append(run.asked().step.run)
        run.ends("done")
    run.settle()
    assert ran == ["python:m.remind", "python:m.tell"]
    assert (run.went_to(), run.token.scope) == ("after", {})


def test_an_action_that_fails_is_kept_for_people_and_the_next_one_follows() -> None:
    run = waiting(f"for: approval, on_timeout: continue, {ACTIONS}").times_out()
    run.ends(failure=failure())
    assert (run.last.kind, run.last.error and run.last.error.type) == (Kind.ACTED, "Broken")
    assert run.asked().step.run == "python:m.tell"


def test_an_action_is_retried_by_its_own_policy() -> None:
    actions = "timeout_actions: [{run: python:m.remind, retry: {max_retries: 1, on: [step]}}]"
    run = waiting(f"for: approval, on_timeout: continue, {actions}").times_out()
    assert isinstance(run.ends(failure=failure()).next, RetryAt)
    run.now_ms += 1_000
    assert run.asked().attempt == 2
    run.ends(failure=failure())
    assert run.settle().went_to() == "after"


def test_an_action_whose_input_cannot_be_evaluated_has_failed_and_the_next_one_follows() -> None:
    actions = "timeout_actions: [{run: python:m.remind, input: {n: '{{ state.nope }}'}}, {run: python:m.tell}]"
    run = waiting(f"for: approval, on_timeout: continue, {actions}").times_out()
    assert run.asked().step.run == "python:m.tell"
    assert run.last.error is not None
    assert run.last.error.category == "validation"


def test_each_action_of_each_time_out_is_a_call_of_its_own_and_each_try_of_it_the_same() -> None:
    actions = "timeout_actions: [{run: python:m.remind, retry: {max_retries: 1, on: [step]}}, {run: python:m.remind}]"
    run = waiting(f"for: approval, on_timeout: retry, {actions}").times_out()
    keys = [run.asked().key]
    run.ends(failure=failure())
    run.now_ms += 1_000
    keys.append(run.asked().key)
    run.ends(1)
    keys.append(run.asked().key)
    run.ends(1)
    run.settle().times_out()
    keys.append(run.asked().key)
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_a_directive_of_an_action_is_a_failure_that_people_can_see() -> None:
    run = waiting(f"for: approval, on_timeout: continue, {ACTIONS}").times_out()
    run.ends(pause=Pause("sleep", timeout_ms=1))
    assert run.last.error is not None
    assert run.last.error.type == "misplaced_directive"


def test_an_at_most_once_action_whose_worker_died_is_not_run_again() -> None:
    from stepwell.engine.writing import began_record  # noqa: PLC0415  what a worker writes before such a step

    actions = "timeout_actions: [{run: python:m.remind, at_most_once: true}, {run: python:m.tell}]"
    run = waiting(f"for: approval, on_timeout: continue, {actions}").times_out()
    action = run.asked()
    run.append(began_record(run.moment, run.token, action, 1_000))
    run.now_ms += 60_000
    assert run.asked().step.run == "python:m.tell"
    assert (run.last.kind, run.last.error and run.last.error.category) == (Kind.ACTED, "worker_lost")


def test_a_rejection_fails_the_run_with_its_reason() -> None:
    run = waiting("for: approval").came("rejected", {"data": None, "reason": "too dear"}, by="ana").settle()
    assert run.error is not None
    assert (run.status, run.error.type) == (Status.FAILED, "rejected")
    assert "too dear" in run.error.message
    assert run.error.data["decision"] == "rejected"


def test_on_reject_route_makes_the_decision_the_result_and_lets_the_rules_decide() -> None:
    text = FLOW.format(
        wait="wait: {for: approval, on_reject: route}, "
        "branch: [{when: \"result.decision == 'rejected'\", skip_to: end}]"
    )
    run = play(text)
    run.came("rejected", {"data": None, "reason": "no"}, by="ana").settle()
    assert (run.status, run.token.error) == (Status.COMPLETED, None)
    assert run.token.scope["approval"]["reason"] == "no"


ANY = "any: [{for: event, name: paid}, {for: approval, on_reject: route}, {for: delay, timeout: 2h}]"


def test_the_first_of_any_wins_and_the_result_says_which() -> None:
    run = waiting(ANY).came("event", {"n": 1}, arm=0, name="paid").settle()
    assert run.token.result == {"index": 0, "for": "event", "name": "paid", "result": {"n": 1}}
    late = waiting(ANY).times_out().settle()
    assert late.token.result == {"index": 2, "for": "delay", "name": "delay", "result": None}


def test_an_approval_among_any_can_be_given_and_sets_its_name() -> None:
    run = waiting(ANY).came("approved", {"data": 1}, arm=1, by="ana").settle()
    assert run.token.result["for"] == "approval"
    assert run.token.scope["approval"]["by"] == "ana"


def test_an_approval_among_any_is_routed_if_it_says_so() -> None:
    run = waiting(ANY).came("rejected", {"data": None, "reason": "no"}, arm=1, by="ana").settle()
    assert run.went_to() == "after"
    assert run.token.result["result"]["decision"] == "rejected"


def test_an_any_without_times_waits_a_day_and_then_times_out() -> None:
    run = waiting("any: [{for: event, name: a}, {for: event, name: b}]")
    assert parked(run).until_ms == NOW_MS + 24 * HOUR_MS
    assert run.times_out().settle().status is Status.TIMED_OUT


def test_the_earlier_of_two_deadlines_counts() -> None:
    run = waiting("any: [{for: event, name: a}, {for: delay, timeout: 2h}], timeout: 1h, on_timeout: continue")
    assert (parked(run).until_ms, parked(run).timer_arm) == (NOW_MS + HOUR_MS, None)


def test_a_timeout_over_the_maximum_that_a_template_gives_is_a_validation_error() -> None:
    run = waiting("for: response, timeout: '{{ input.t }}'", {"t": "8d"})
    assert run.error is not None
    assert run.error.category == "validation"


@pytest.mark.parametrize(("wait", "hours"), [("for: delay", 48), ("for: sleep", 48), ("for: event, name: a", 48)])
def test_a_time_that_a_template_gives_is_when_the_wait_ends(wait: str, hours: int) -> None:
    until = {"t": iso(NOW_MS + hours * HOUR_MS)}
    assert parked(waiting(f"{wait}, timeout: '{{{{ input.t }}}}'", until)).until_ms == NOW_MS + hours * HOUR_MS


def test_a_wait_until_a_time_that_has_passed_ends_at_once() -> None:
    run = waiting("for: sleep, timeout: '{{ timestamp(input.t) }}'", {"t": iso(NOW_MS - HOUR_MS)})
    assert parked(run).until_ms == NOW_MS


def test_a_time_after_the_maximum_of_its_wait_is_a_validation_error() -> None:
    run = waiting("for: response, timeout: '{{ input.t }}'", {"t": iso(NOW_MS + 8 * 24 * HOUR_MS)})
    assert run.error is not None
    assert run.error.category == "validation"


@pytest.mark.parametrize("text", ["2030-01-31", "2030-01-31T12:00:00"])
def test_a_date_without_its_time_or_zone_says_how_to_write_one(text: str) -> None:
    run = waiting("for: sleep, timeout: '{{ input.t }}'", {"t": text})
    assert run.error is not None
    assert "is a date, not a duration" in run.error.message
    assert "2030-01-31T12:00:00Z" in run.error.message


def test_waiting_data_is_filled_in_when_the_wait_begins() -> None:
    assert parked(waiting("for: approval, type: boss, data: {n: '{{ input.n }}'}", {"n": 3})).data == {
        "n": 3,
        "type": "boss",
    }


STEP = "workflow: w\ntimeline: [{name: a, run: python:m.a}, {name: b, run: python:m.b}]"


def asked(pause: Pause) -> Play:
    run = play(STEP)
    run.ends(pause=pause)
    return run.settle()


def test_a_sleep_that_a_step_asked_for_gives_what_it_carried() -> None:
    run = asked(Pause("sleep", timeout_ms=5_000, result={"n": 1})).times_out().settle()
    assert (run.went_to(), run.token.result, run.token.scope) == ("b", {"n": 1}, {"a": {"n": 1}})


@pytest.mark.parametrize(
    ("carried", "payload", "joined"),
    [
        ({"a": 1, "b": 1}, {"b": 2}, {"a": 1, "b": 2}),
        (None, {"b": 2}, {"b": 2}),
        (5, {"b": 2}, {"result": 5, "b": 2}),
        ({"a": 1}, "text", {"a": 1, "event": "text"}),
    ],
)
def test_an_event_is_joined_with_what_the_directive_carried(carried: object, payload: object, joined: object) -> None:
    run = asked(Pause("event", "paid", "7", result=carried, timeout_ms=1_000))
    assert parked(run).arms[0].topics[0] == Topic("paid", "=7")
    assert run.came("event", payload).settle().token.result == joined


def test_an_approval_is_joined_under_approval() -> None:
    run = asked(Pause("approval", result={"n": 1})).came("approved", {"data": 2}, by="ana").settle()
    assert run.token.result == {"n": 1, "approval": {"decision": "approved", "by": "ana", "data": 2}}


def test_then_again_runs_the_step_again_and_shows_it_what_it_carried_joined_with_what_came() -> None:
    run = asked(Pause("event", "paid", result={"n": 1}, timeout_ms=1_000, then="again"))
    action = run.came("event", {"ok": True}, name="paid").decide()
    assert isinstance(action, RunStep)
    assert (action.node, action.attempt) == ("a", 1)
    assert action.resumed == {"n": 1, "ok": True}
    assert run.ends(9).next == Goto("b")
    assert run.token.result == 9


def test_a_step_knows_that_it_has_waited_where_the_wait_brought_nothing() -> None:
    action = asked(Pause("sleep", timeout_ms=1_000, then="again")).times_out().decide()
    assert isinstance(action, RunStep)
    assert action.resumed["kind"] == "timer"


def test_the_time_out_of_what_a_step_asked_for_ends_the_run_unless_a_rule_takes_it() -> None:
    for then in ("next", "again"):
        run = asked(Pause("event", "paid", timeout_ms=1_000, then=then)).times_out().settle()
        assert (run.status, run.error and run.error.type) == (Status.TIMED_OUT, "event_timeout")


def test_a_wait_that_cannot_be_registered_fails_its_node_where_a_rule_can_take_it() -> None:
    text = FLOW.format(
        wait="wait: {for: event, name: paid, key: '{{ state.nope }}'}, "
        "diverge: [{when: \"error.category == 'validation'\", skip_to: after}]"
    )
    assert play(text).settle().went_to() == "after"


def test_a_wait_of_an_earlier_release_goes_by_its_own_kind_and_one_heartbeat_for_all() -> None:
    """Its record tells neither whose time limit it has nor which of its callbacks needs heartbeats."""
    arms = (Arm("callback", name="callback"), Arm("callback", name="callback_2"), Arm("approval", name="approval"))
    parked = Parked("approval", arms, until_ms=9_000, heartbeat_ms=1_000)
    assert parked_of(parked_json(parked)) == parked
    beats = (Resumption("heartbeat", 1, payload={"at_ms": 500}),)
    token = Token(parked=parked, received=beats)
    assert first_due(token) == (1_500, Resumption("timeout", 0, "heartbeat"))
    failure = failure_of(parked, Resumption("timeout"), "first", 0)
    assert failure is not None
    assert (failure.type, failure.message) == ("approval_timeout", "first waited for approval until its time was up")
