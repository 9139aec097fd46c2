"""Where a token goes: diverge, then retry, then branch, then the next; transitions by priority; errors as data."""

from __future__ import annotations

import pytest

from stepwell.engine.records import End, Goto, Pause, RetryAt, Status
from tests.engine.kit import Play, failure, play

CHARGE = """
workflow: shop
timeline:
  - {{name: first, run: python:shop.first}}
  - {{name: charge, run: python:shop.charge, {more}}}
  - {{name: ship, run: python:shop.ship}}
  - {{name: last, run: python:shop.last}}
"""


def charging(more: str) -> Play:
    """A run that stands before the step `charge`."""
    shop = play(CHARGE.format(more=more))
    shop.ends({"ok": True})
    return shop


def alone(more: str) -> Play:
    return play(f"workflow: shop\ntimeline: [{{name: only, run: python:shop.only, {more}}}]")


def test_without_rules_a_timeline_goes_to_its_next_entry_and_then_ends() -> None:
    shop = charging("timeout: 1m")
    assert shop.went_to() == "charge"
    shop.ends(1)
    shop.ends(2)
    assert shop.ends(3).next == End(Status.COMPLETED)
    assert (shop.token.result, shop.status) == (3, Status.COMPLETED)


def test_diverge_is_looked_at_before_the_retry() -> None:
    shop = charging("retry: {on: [step]}, diverge: [{when: \"error.type == 'Declined'\", skip_to: last}]")
    assert shop.ends(failure=failure("Declined")).next == Goto("last")
    assert shop.last.rules == ("charge.diverge[0]",)


def test_diverge_is_looked_at_after_every_attempt_not_only_the_last() -> None:
    shop = charging('retry: {max_retries: 5, on: [step]}, diverge: [{when: "error.attempts == 2", skip_to: last}]')
    assert isinstance(shop.ends(failure=failure()).next, RetryAt)
    shop.now_ms += 60_000
    assert shop.ends(failure=failure()).next == Goto("last")


def test_diverge_is_looked_at_on_results_before_branch() -> None:
    shop = charging('diverge: [{when: "result == \'skip\'", skip_to: last}], branch: [{when: "true", skip_to: end}]')
    assert shop.ends("skip").next == Goto("last")


def test_branch_is_looked_at_where_diverge_says_nothing() -> None:
    shop = charging('diverge: [{when: "result == \'skip\'", skip_to: ship}], branch: [{when: "true", skip_to: last}]')
    assert shop.ends("go").next == Goto("last")


def test_a_retry_comes_when_no_diverge_rule_takes_the_error() -> None:
    shop = charging("retry: {on: [step]}, diverge: [{when: \"error.type == 'Declined'\", skip_to: last}]")
    assert isinstance(shop.ends(failure=failure("Other")).next, RetryAt)


def test_an_error_that_no_diverge_rule_takes_fails_the_run_whatever_branch_says() -> None:
    shop = charging('branch: [{when: "error.type == \'Broken\'", skip_to: last}, {when: "true", skip_to: last}]')
    shop.ends(failure=failure())
    assert shop.status is Status.FAILED
    assert shop.error is not None
    assert (shop.error.type, shop.error.step) == ("Broken", "charge")


def test_back_to_visits_a_step_again_with_a_fresh_count_of_attempts() -> None:
    shop = charging("diverge: [{when: \"error.type == 'Broken'\", back_to: first, max: 1}]")
    shop.ends(failure=failure())
    assert shop.went_to() == "first"
    assert shop.asked().attempt == 1


def test_max_bounds_how_often_a_rule_is_taken_in_a_run_and_then_the_next_rule_is_looked_at() -> None:
    rules = '{when: "error.type == \'Broken\'", back_to: charge, max: 2}, {when: "error.attempts > 0", skip_to: last}'
    shop = charging(f"diverge: [{rules}]")
    assert [shop.ends(failure=failure()).next for _ in range(3)] == [Goto("charge"), Goto("charge"), Goto("last")]


def test_when_max_is_used_up_the_retry_has_its_turn() -> None:
    shop = charging('retry: {on: [step]}, diverge: [{when: "error.attempts > 0", back_to: charge, max: 1}]')
    assert shop.ends(failure=failure()).next == Goto("charge")
    assert isinstance(shop.ends(failure=failure()).next, RetryAt)


def test_a_rule_of_branch_counts_against_its_own_max() -> None:
    shop = charging('branch: [{when: "result == 1", back_to: charge, max: 1}]')
    assert shop.ends(1).next == Goto("charge")
    assert shop.ends(1).next == Goto("ship")


def test_fail_ends_the_run_with_the_rules_name_and_the_errors_words() -> None:
    shop = charging("diverge: [{when: \"error.type == 'Broken'\", fail: card_declined}]")
    shop.ends(failure=failure(message="no money"))
    assert shop.error is not None
    assert (shop.status, shop.error.type, shop.error.message) == (Status.FAILED, "card_declined", "no money")


def test_fail_on_a_result_ends_the_run_too() -> None:
    shop = charging('branch: [{when: "result == 0", fail: nothing_to_ship}]')
    shop.ends(0)
    assert shop.error is not None
    assert (shop.error.type, shop.error.step) == ("nothing_to_ship", "charge")


def test_continue_deals_with_the_error_and_goes_on() -> None:
    shop = charging("retry: {on: [step]}, diverge: [{when: \"error.type == 'Minor'\", continue: true}]")
    assert shop.ends(failure=failure("Minor")).next == Goto("ship")
    assert shop.last.rules == ("charge.diverge[0]", "charge.next")
    assert shop.token.steps["charge"].status == "failed"


def test_after_continue_branch_is_still_looked_at() -> None:
    shop = charging(
        'diverge: [{when: "error.type == \'Minor\'", continue: true}], branch: [{when: "true", skip_to: last}]'
    )
    assert shop.ends(failure=failure("Minor")).next == Goto("last")


def test_a_branch_that_says_continue_goes_to_the_next_step_and_does_not_end_the_run() -> None:
    shop = charging('branch: [{when: "result == 1", continue: true}, {when: "true", skip_to: end}]')
    assert shop.ends(1).next == Goto("ship")
    assert shop.last.rules == ("charge.branch[0]", "charge.next")
    other = charging('branch: [{when: "result == 1", continue: true}, {when: "true", skip_to: end}]')
    assert other.ends(2).next == End(Status.COMPLETED)


def test_a_branch_that_says_continue_before_one_without_a_condition_can_be_compiled() -> None:
    charging('branch: [{when: "result == 1", continue: true}, {skip_to: end}]')


def test_skip_to_end_ends_the_run_with_the_steps_result() -> None:
    shop = charging('branch: [{when: "result.done", skip_to: end}]')
    assert shop.ends({"done": True}).next == End(Status.COMPLETED)
    assert shop.token.result == {"done": True}


def test_the_last_step_passes_through_diverge_and_branch_too() -> None:
    assert alone("branch: [{when: 'result == 1', back_to: only}]").ends(1).next == Goto("only")
    assert alone("diverge: [{when: 'error.attempts == 1', back_to: only}]").ends(failure=failure()).next == Goto("only")
    failed = alone("diverge: [{when: 'result == 1', fail: no}]")
    failed.ends(1)
    assert failed.status is Status.FAILED


def test_a_condition_on_an_error_does_not_match_a_result_and_the_other_way_round() -> None:
    rules = "diverge: [{when: \"error.type == 'X'\", skip_to: last}], branch: [{when: 'result.n > 1', skip_to: last}]"
    assert charging(rules).ends({"n": 1}).next == Goto("ship")
    failed = charging(rules)
    failed.ends(failure=failure())
    assert failed.status is Status.FAILED


def test_a_bad_expression_found_at_run_time_is_a_validation_error_of_its_node() -> None:
    shop = charging("branch: [{when: 'result.missing > 1', skip_to: last}]")
    shop.ends({"n": 1})
    assert shop.error is not None
    assert (shop.error.category, shop.error.step) == ("validation", "charge")


def test_a_condition_that_is_no_truth_value_is_a_validation_error() -> None:
    shop = charging("branch: [{when: 'result.n', skip_to: last}]")
    shop.ends({"n": 1})
    assert shop.error is not None
    assert shop.error.category == "validation"
    assert "charge.branch[0]" in shop.error.message


def test_a_rule_sees_what_its_own_step_has_just_written() -> None:
    shop = charging("output: {total: '{{ result.n }}'}, branch: [{when: 'state.total == 7', skip_to: last}]")
    assert shop.ends({"n": 7}).next == Goto("last")


def test_a_rule_sees_the_error_as_state_last_error_too() -> None:
    shop = charging("diverge: [{when: \"state._last_error.type == 'Broken'\", skip_to: last}]")
    assert shop.ends(failure=failure()).next == Goto("last")


def test_a_rule_sees_its_own_step_among_the_steps() -> None:
    shop = charging(
        "branch: [{when: \"steps.charge.output == 7 && steps.charge.status == 'completed'\", skip_to: last}]"
    )
    assert shop.ends(7).next == Goto("last")


def test_a_rule_sees_that_its_own_step_has_failed() -> None:
    shop = charging("diverge: [{when: \"steps.charge.error.type == 'Broken'\", skip_to: last}]")
    assert shop.ends(failure=failure()).next == Goto("last")


def test_a_rule_sees_that_its_own_sleep_is_over() -> None:
    rules = "branch: [{when: \"steps.nap.status == 'completed' && steps.nap.output == null\", skip_to: last}]"
    shop = play(
        CHARGE.format(more="").replace("run: python:shop.charge, ", f"sleep: 1s, {rules}").replace("charge", "nap")
    )
    shop.ends(1)
    shop.times_out().settle()
    assert shop.went_to() == "last"


def test_a_rule_sees_that_its_own_step_was_skipped() -> None:
    shop = charging("on_failure: skip, branch: [{when: \"steps.charge.status == 'skipped'\", skip_to: last}]")
    assert shop.ends(failure=failure()).next == Goto("last")


def test_on_failure_skip_passes_the_failure_over_after_the_retries() -> None:
    shop = charging("on_failure: skip, retry: {max_retries: 1, on: [step]}")
    assert isinstance(shop.ends(failure=failure()).next, RetryAt)
    shop.now_ms += 60_000
    assert shop.ends(failure=failure()).next == Goto("ship")
    assert shop.last.skipped
    assert shop.token.steps["charge"].status == "skipped"
    assert "charge" not in shop.token.scope


def test_the_result_of_a_run_whose_last_step_was_skipped_is_that_of_the_step_before() -> None:
    schema = "output_schema: {type: integer}\n"
    text = (
        "workflow: w\n"
        + schema
        + ("timeline: [{name: a, run: python:m.a}, {name: b, run: python:m.b, on_failure: skip}]")
    )
    skipped = play(text)
    skipped.ends(5)
    skipped.ends(failure=failure())
    assert (skipped.status, skipped.token.result) == (Status.COMPLETED, 5)


def test_a_result_that_violates_the_output_schema_fails_the_run_with_a_validation_error() -> None:
    bad = play("workflow: w\noutput_schema: {type: integer}\ntimeline: [{name: a, run: python:m.a}]")
    bad.ends("five")
    assert bad.error is not None
    assert (bad.status, bad.error.category, bad.error.type) == (Status.FAILED, "validation", "output_schema")


def test_a_loop_is_bounded_by_max_visits() -> None:
    shop = charging("max_visits: 3, branch: [{when: 'true', back_to: charge}]")
    assert [shop.ends(0).next for _ in range(2)] == [Goto("charge"), Goto("charge")]
    shop.ends(0)
    assert shop.error is not None
    assert (shop.status, shop.error.type) == (Status.FAILED, "loop_limit")


@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_first_node_is_visited_no_more_often_than_it_may_be(most: int) -> None:
    only = alone(f"max_visits: {most}, branch: [{{when: 'true', back_to: only}}]")
    visits = 0
    while not only.token.ended:
        only.ends(0)
        visits += 1
    assert (visits, only.error and only.error.type) == (most, "loop_limit")


def test_a_loop_is_bounded_at_a_thousand_visits_where_nothing_is_said() -> None:
    only = alone("branch: [{when: 'true', back_to: only}]")
    while not only.token.ended:
        only.ends(0)
    assert only.token.visits["only"] == 1_000


GRAPH = """
workflow: graph
nodes:
  a:
    run: python:m.a
    on_failure: {on_failure}
    transitions:
      - {{to: high, when: "result.n > 100", priority: 2}}
      - {{to: top, when: "result.n > 1000", priority: 1}}
      - {{to: fixer, when: "error.type == 'Fixable'", priority: 9}}
      {default}
  high: {{}}
  top: {{}}
  fixer: {{}}
  rest: {{}}
"""


def graph(default: str = "- {to: rest, priority: 10}", on_failure: str = "abort") -> Play:
    if not default:
        text = GRAPH.format(default=default, on_failure=on_failure).replace("  rest: {}\n", "")
        return play(text)
    return play(GRAPH.format(default=default, on_failure=on_failure))


@pytest.mark.parametrize(("n", "target"), [(5_000, "top"), (500, "high"), (5, "rest")])
def test_transitions_are_tried_by_priority_and_the_first_that_matches_is_taken(n: int, target: str) -> None:
    assert graph().ends({"n": n}).next == Goto(target)


def test_where_no_transition_matches_the_run_fails_with_no_matching_transition() -> None:
    one = graph(default="")
    one.ends({"n": 1})
    assert one.error is not None
    assert (one.status, one.error.type, one.error.step) == (Status.FAILED, "no_matching_transition", "a")


def test_a_transition_that_names_the_error_takes_it() -> None:
    one = graph()
    assert one.ends(failure=failure("Fixable")).next == Goto("fixer")
    assert one.token.error is not None


def test_a_failed_step_none_of_whose_transitions_names_the_error_fails_although_a_default_is_there() -> None:
    one = graph()
    one.ends(failure=failure("Fatal"))
    assert one.error is not None
    assert (one.status, one.error.type) == (Status.FAILED, "Fatal")


def test_with_on_failure_skip_the_default_transition_is_taken() -> None:
    assert graph(on_failure="skip").ends(failure=failure("Fatal")).next == Goto("rest")


def test_a_node_without_transitions_ends_the_run() -> None:
    one = graph()
    one.ends({"n": 5})
    one.settle()
    assert (one.status, one.token.result) == (Status.COMPLETED, {"n": 5})


def test_a_later_success_takes_the_last_error_away() -> None:
    shop = charging("diverge: [{when: \"error.type == 'Minor'\", continue: true}]")
    shop.ends(failure=failure("Minor"))
    assert shop.token.error is not None
    shop.ends(1)
    assert shop.token.error is None


def test_governance_blocks_the_step_and_an_approval_runs_it_again() -> None:
    shop = charging("retry: {on: [governance, step]}")
    first_key = shop.asked().key
    assert isinstance(shop.ends(failure=failure("Blocked", "governance")).next, Pause)
    shop.settle()
    assert shop.token.parked is not None
    assert shop.token.parked.kind == "approval"
    shop.came("approved", {"data": None}, by="ana")
    action = shop.asked()
    assert (action.node, action.attempt) == ("charge", 1)
    assert action.resumed == {"approval": {"decision": "approved", "by": "ana", "data": None}}
    assert action.key != first_key


def test_governance_that_nobody_approves_of_ends_like_any_approval() -> None:
    late = charging("timeout: 1m")
    late.ends(failure=failure("Blocked", "governance"))
    late.times_out().settle()
    assert (late.status, late.error and late.error.type) == (Status.TIMED_OUT, "approval_timeout")
    refused = charging("timeout: 1m")
    refused.ends(failure=failure("Blocked", "governance"))
    refused.came("rejected", {"reason": "no"}, by="ana").settle()
    assert (refused.status, refused.error and refused.error.type) == (Status.FAILED, "rejected")


def test_a_diverge_rule_is_looked_at_before_governance_blocks() -> None:
    shop = charging("diverge: [{when: \"error.category == 'governance'\", skip_to: last}]")
    assert shop.ends(failure=failure("Blocked", "governance")).next == Goto("last")
