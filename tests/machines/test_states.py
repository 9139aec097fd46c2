"""State machines do what Step Functions does with them: data, choices, waits, errors, branches and items."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from stepwell.testing.kit import Run
from tests.machines.conftest import Begin, Machine, advance, machine, task

ORDER = {"id": "o1", "total": 200, "lines": [{"sku": "a"}, {"sku": "b"}]}
OF_ANSWERS: Machine = {"QueryLanguage": "JSONata"}


@pytest.mark.parametrize(
    ("fields", "result"),
    [
        ({}, {"order": "o1"}),
        ({"ResultPath": "$.receipt"}, {**ORDER, "receipt": {"order": "o1"}}),
        ({"ResultPath": None}, ORDER),
        ({"ResultSelector": {"it.$": "$.order"}}, {"it": "o1"}),
        ({"ResultSelector": {"it.$": "$.order"}, "ResultPath": "$.total"}, {**ORDER, "total": {"it": "o1"}}),
        ({"OutputPath": "$.order"}, "o1"),
        ({"OutputPath": None}, {}),
    ],
)
def test_a_task_makes_its_output_of_its_input_and_its_result(begin: Begin, fields: Machine, result: Any) -> None:
    run = begin(machine(A=task("echo", Parameters={"order.$": "$.id"}, **fields)), ORDER)
    assert (run.status, run.result) == ("completed", result)


def test_a_task_without_parameters_gets_what_its_input_path_leaves(begin: Begin) -> None:
    run = begin(machine(A=task("echo", InputPath="$.lines[1]")), ORDER)
    assert run.result == {"sku": "b"}


def test_each_state_gets_the_output_of_the_one_before(begin: Begin) -> None:
    states = machine(
        A={"Type": "Pass", "Result": {"number": 1}, "ResultPath": "$", "Next": "B"},
        B=task("plus", ResultPath="$.number", Next="C"),
        C=task("plus", ResultPath="$.number", Next="D"),
        D={"Type": "Succeed", "InputPath": "$.number"},
    )
    assert begin(states).result == 3


def test_a_pass_state_may_give_null(begin: Begin) -> None:
    states = machine(A={"Type": "Pass", "Result": None, "Next": "B"}, B={"Type": "Pass", "End": True})
    run = begin(states, {"was": 1})
    assert (run.status, run.result) == ("completed", None)


def test_variables_are_seen_by_all_states_after_and_inside(begin: Begin) -> None:
    inner = machine(C={"Type": "Pass", "Parameters": {"who.$": "$who", "item.$": "$"}, "End": True})
    states = machine(
        A={"Type": "Pass", "Assign": {"who.$": "$.id"}, "Next": "B"},
        B={"Type": "Map", "ItemsPath": "$.lines", "ItemProcessor": inner, "Next": "D"},
        D={"Type": "Pass", "Parameters": {"of.$": "$who", "all.$": "$"}, "End": True},
    )
    run = begin(states, ORDER)
    items = [{"who": "o1", "item": {"sku": "a"}}, {"who": "o1", "item": {"sku": "b"}}]
    assert run.result == {"of": "o1", "all": items}


def test_the_context_object_tells_of_the_run_the_state_and_the_item(begin: Begin) -> None:
    inner = machine(C={"Type": "Pass", "Parameters": {"at.$": "$$.Map.Item.Index", "in.$": "$$.State.Name"},
                       "End": True})  # fmt: skip
    states = machine(
        B={"Type": "Map", "ItemsPath": "$.lines", "ItemProcessor": inner, "ResultPath": "$.all", "Next": "D"},
        D={"Type": "Pass", "End": True,
           "Parameters": {"id.$": "$$.Execution.Id", "given.$": "$$.Execution.Input.id", "all.$": "$.all"}},
    )  # fmt: skip
    run = begin(states, ORDER)
    assert run.result == {"id": run.id, "given": "o1", "all": [{"at": 0, "in": "C"}, {"at": 1, "in": "C"}]}


def test_the_context_object_has_the_name_of_the_execution(begin: Begin) -> None:
    states = machine(A={"Type": "Pass", "Parameters": {"name.$": "$$.Execution.Name"}, "End": True})
    run = begin(states, ORDER)
    assert run.result == {"name": run.id}
    named = run._kit.start("m", ORDER, tags={"execution": "order-o1"})
    assert named.result == {"name": "order-o1"}


COUNTED: Machine = {"Parameters": {"name": "Busy", "count.$": "$$.State.RetryCount"}, "ResultPath": "$.x"}


@pytest.mark.parametrize("resource", ["fail", "arn:aws:states:::states:startExecution.sync:2"])
def test_the_context_object_counts_the_retries_since_the_state_was_entered(begin: Begin, resource: str) -> None:
    tried = [{"ErrorEquals": ["States.TaskFailed"], "IntervalSeconds": 1, "BackoffRate": 1, "MaxAttempts": 1}]
    fields: Machine = {**COUNTED, "Retry": tried, "Catch": [{**ANY, "ResultPath": "$.e", "Next": "B"}]}
    if resource != "fail":
        arn = "arn:aws:states:us-east-1:123456789012:stateMachine:child"
        fields["Parameters"] = {"StateMachineArn": arn, "Input": COUNTED["Parameters"]}
    states = machine(
        A=task(resource, **fields, Next="B"),
        B={"Type": "Choice", "Choices": [{"Variable": "$.seen", "IsPresent": True, "Next": "C"}], "Default": "S"},
        S={"Type": "Pass", "Parameters": {"seen": True}, "Next": "A"},
        C={"Type": "Succeed"},
    )
    run = begin(states, {}, child=machine(D=task("fail")))
    mock = run._kit.mock("A" if resource == "fail" else "D", raises=ValueError("no"))
    advance(advance(run, "1s"), "1s")
    assert run.status == "completed"
    assert [one["count"] for one in mock.calls] == [0, 1, 0, 1]


# -- choices and waits


@pytest.mark.parametrize(("total", "result"), [(50, "small"), (150, "big"), (5000, "huge")])
def test_the_first_rule_that_holds_is_taken_else_the_default(begin: Begin, total: int, result: str) -> None:
    states = machine(
        A={"Type": "Choice", "Default": "Small", "Choices": [
            {"And": [{"Variable": "$.total", "NumericGreaterThan": 1000}], "Next": "Huge"},
            {"Variable": "$.total", "NumericGreaterThan": 100, "Next": "Big"}]},
        Small={"Type": "Pass", "Result": "small", "End": True},
        Big={"Type": "Pass", "Result": "big", "End": True},
        Huge={"Type": "Pass", "Result": "huge", "End": True},
    )  # fmt: skip
    assert begin(states, {"total": total}).result == result


def test_a_choice_without_a_rule_that_holds_fails_the_run(begin: Begin) -> None:
    states = machine(
        A={"Type": "Choice", "Choices": [{"Variable": "$.x", "BooleanEquals": True, "Next": "B"}]},
        B={"Type": "Succeed"},
    )
    run = begin(states, {"x": False})
    assert run.status == "failed"
    assert run.error is not None
    assert run.error["type"] == "no_matching_transition"


def test_a_loop_by_a_choice_ends_when_its_rule_no_longer_holds(begin: Begin) -> None:
    states = machine(
        A=task("plus", ResultPath="$.number", Next="B"),
        B={"Type": "Choice", "Choices": [{"Variable": "$.number", "NumericLessThan": 5, "Next": "A"}], "Default": "C"},
        C={"Type": "Succeed"},
    )
    run = begin(states, {"number": 0})
    assert run.result == {"number": 5}


@pytest.mark.parametrize(
    ("fields", "given"),
    [
        ({"Seconds": 3600}, {}),
        ({"SecondsPath": "$.wait.s"}, {"wait": {"s": 3600}}),
        ({"Timestamp": "AT"}, {}),
        ({"TimestampPath": "$.at"}, {"at": "AT"}),
        ({"Seconds": "{% $states.input.hours * 3600 %}", "QueryLanguage": "JSONata"}, {"hours": 1}),
    ],
)
def test_a_wait_lasts_as_long_as_it_says_and_passes_its_input_on(begin: Begin, fields: Machine, given: Any) -> None:
    now = begin(machine(A={"Type": "Succeed"}))._kit.now
    in_an_hour = (now + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    fields, given = (
        {key: in_an_hour if value == "AT" else value for key, value in one.items()} for one in (fields, given)
    )
    run = begin(machine(A={"Type": "Wait", **fields, "Next": "B"}, B={"Type": "Pass", "End": True}), given)
    assert (run.status, run.waiting_for) == ("waiting", "sleep")
    advance(run, "3599s")
    assert run.status == "waiting"
    advance(run, "1s")
    assert (run.status, run.result) == ("completed", given)


def test_a_wait_until_a_time_that_has_passed_is_over_at_once(begin: Begin) -> None:
    run = begin(machine(A={"Type": "Wait", "Timestamp": "2001-01-01T00:00:00Z", "End": True}), {"x": 1})
    assert (run.status, run.result) == ("completed", {"x": 1})


# -- errors


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        ({"Type": "Fail", "Error": "Rejected", "Cause": "too dear"}, "Rejected", "too dear"),
        ({"Type": "Fail", "ErrorPath": "$.e", "CausePath": "States.Format('as {}', $.e)"}, "Odd", "as Odd"),
    ],
)
def test_a_fail_state_fails_the_run_with_its_error_and_cause(
    begin: Begin, state: Machine, error: str, message: str
) -> None:
    run = begin(machine(A=state), {"e": "Odd"})
    assert run.status == "failed"
    assert run.error is not None
    assert (run.error["type"], run.error["message"]) == (error, message)


def test_a_catcher_gets_the_input_of_the_state_with_the_error_and_leads_on(begin: Begin) -> None:
    caught = [{"ErrorEquals": ["Other"], "Next": "B"},
              {"ErrorEquals": ["CardDeclined"], "ResultPath": "$.error", "Next": "C"}]  # fmt: skip
    states = machine(
        A=task("fail", Parameters={}, Catch=caught), B={"Type": "Pass", "End": True}, C={"Type": "Succeed"}
    )
    run = begin(states, {"id": 7})
    assert (run.result["id"], run.result["error"]["Error"]) == (7, "CardDeclined")


def test_an_error_that_no_catcher_takes_fails_the_run(begin: Begin) -> None:
    states = machine(A=task("fail", Catch=[{"ErrorEquals": ["Busy"], "Next": "B"}]), B={"Type": "Succeed"})
    run = begin(states, {})
    assert run.status == "failed"


def test_each_retrier_counts_its_own_retries(begin: Begin) -> None:
    again = {"ErrorEquals": ["States.TaskFailed"], "IntervalSeconds": 10, "BackoffRate": 3, "MaxAttempts": 2}
    tried = [{"ErrorEquals": ["CardDeclined"], "MaxAttempts": 0}, again]
    run = begin(machine(A=task("fail", Parameters={"name": "Busy"}, Retry=tried)), {})
    for seconds, tries in ((0, 1), (10, 2), (30, 3), (3600, 3)):
        advance(run, f"{seconds}s")
        assert run.steps["A"].attempts == tries
    assert run.status == "failed"


def test_the_tries_of_one_state_have_one_idempotency_key(begin: Begin) -> None:
    run = begin(machine(A=task("key", Retry=[{"ErrorEquals": ["Busy"], "MaxAttempts": 5}])), {})
    advance(run, "1m")
    assert run.status == "completed"
    assert len(set(run.result)) == 1


def test_a_branch_that_fails_ends_the_others_and_its_error_is_caught_outside(begin: Begin) -> None:
    branches = [machine(B=task("fail")), machine(C={"Type": "Wait", "Seconds": 9, "End": True})]
    caught = [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.e", "Next": "D"}]
    states = machine(A={"Type": "Parallel", "Branches": branches, "Catch": caught, "End": True}, D={"Type": "Succeed"})
    run = begin(states, {"x": 1})
    assert run.status == "completed"
    assert run.result["x"] == 1
    assert run.result["e"]["Error"] == "CardDeclined"


def test_parallel_branches_are_retried_together_as_often_as_the_retrier_says(begin: Begin) -> None:
    branches = [machine(B=task("fail", Parameters={"times": 2, "name": "Busy"})), machine(C={"Type": "Succeed"})]
    tried = [{"ErrorEquals": ["Busy"], "IntervalSeconds": 5, "MaxAttempts": 2}]
    states = machine(A={"Type": "Parallel", "Branches": branches, "Retry": tried, "ResultPath": "$.b", "End": True})
    run = begin(states, {"x": 1})
    assert run.status == "waiting"
    assert run.view["current_steps"] == ["A"]
    advance(run, "1h")
    advance(run, "1h")
    assert run.result == {"x": 1, "b": [{"tries": 3}, {"x": 1}]}


def test_a_retrier_of_branches_that_is_used_up_leaves_the_error_to_the_catchers(begin: Begin) -> None:
    tried = [{"ErrorEquals": ["States.ALL"], "MaxAttempts": 1}]
    caught = [{"ErrorEquals": ["States.ALL"], "Next": "D"}]
    states = machine(
        A={"Type": "Parallel", "Branches": [machine(B=task("fail"))], "Retry": tried, "Catch": caught, "End": True},
        D={"Type": "Pass", "Result": "over", "End": True},
    )
    run = begin(states, {})
    advance(run, "1m")
    assert run.result == "over"


# -- branches and items


def test_parallel_gives_each_branch_its_input_and_joins_their_outputs_in_order(begin: Begin) -> None:
    branches = [machine(B=task("echo", Next="B2"), B2={"Type": "Pass", "End": True}), machine(C={"Type": "Succeed"})]
    states = machine(A={"Type": "Parallel", "Parameters": {"it.$": "$.id"}, "Branches": branches,
                        "ResultPath": "$.both", "End": True})  # fmt: skip
    assert begin(states, ORDER).result == {**ORDER, "both": [{"it": "o1"}, {"it": "o1"}]}


def test_a_map_selects_each_items_input_and_gives_a_list_in_order(begin: Begin) -> None:
    select = {"sku.$": "$$.Map.Item.Value.sku", "at.$": "$$.Map.Item.Index", "of.$": "$.id"}
    states = machine(A={"Type": "Map", "ItemsPath": "$.lines", "ItemSelector": select, "MaxConcurrency": 1,
                        "ItemProcessor": machine(B=task("echo")), "End": True})  # fmt: skip
    run = begin(states, ORDER)
    assert run.result == [{"sku": "a", "at": 0, "of": "o1"}, {"sku": "b", "at": 1, "of": "o1"}]


def test_a_map_over_nothing_gives_an_empty_list(begin: Begin) -> None:
    states = machine(A={"Type": "Map", "ItemsPath": "$.lines", "ItemProcessor": machine(B=task("echo")), "End": True})
    assert begin(states, {"lines": []}).result == []


def test_a_map_hands_out_batches(begin: Begin) -> None:
    batcher = {"MaxItemsPerBatch": 2, "BatchInput": {"id.$": "$.id"}}
    states = machine(A={"Type": "Map", "ItemsPath": "$.n", "ItemBatcher": batcher,
                        "ItemProcessor": machine(B={"Type": "Succeed"}), "End": True})  # fmt: skip
    run = begin(states, {"id": 1, "n": [1, 2, 3]})
    assert run.result == [{"Items": [1, 2], "BatchInput": {"id": 1}}, {"Items": [3], "BatchInput": {"id": 1}}]


@pytest.mark.parametrize(("most", "status"), [(1, "completed"), (0, "failed")])
def test_a_map_tolerates_as_many_failures_as_it_says(begin: Begin, most: int, status: str) -> None:
    check = machine(
        B={"Type": "Choice", "Choices": [{"Variable": "$", "NumericEquals": 2, "Next": "No"}], "Default": "Yes"},
        No={"Type": "Fail", "Error": "Two"},
        Yes={"Type": "Succeed"},
    )
    states = machine(A={"Type": "Map", "ItemProcessor": check, "ToleratedFailureCount": most, "End": True})
    run = begin(states, [1, 2, 3])
    assert run.status == status
    assert run.result == ([1, 3] if most else None)


def test_maps_nest_and_variables_of_an_outer_item_are_seen_in_the_inner_ones(begin: Begin) -> None:
    innermost = machine(
        C={"Type": "Pass", "Parameters": {"row.$": "$row", "at.$": "$$.Map.Item.Index", "v.$": "$"}, "End": True}
    )
    inner = machine(
        B={"Type": "Pass", "Assign": {"row.$": "$$.Map.Item.Index"}, "Next": "M"},
        M={"Type": "Map", "ItemProcessor": innermost, "End": True},
    )
    run = begin(machine(A={"Type": "Map", "ItemProcessor": inner, "End": True}), [["x"], ["y", "z"]])
    assert run.result == [
        [{"row": 0, "at": 0, "v": "x"}],
        [{"row": 1, "at": 0, "v": "y"}, {"row": 1, "at": 1, "v": "z"}],
    ]


# -- JSONata


def test_jsonata_makes_arguments_outputs_and_variables(begin: Begin) -> None:
    states = {**OF_ANSWERS, **machine(
        A=task("echo", Arguments={"sum": "{% $states.input.total * 2 %}"}, Assign={"sum": "{% $states.result.sum %}"},
               Output="{% $merge([$states.input, $states.result]) %}", Next="B"),
        B={"Type": "Choice", "Choices": [{"Condition": "{% $sum > 300 %}", "Next": "C", "Output": {"s": "{% $sum %}"}}],
           "Default": "D"},
        C={"Type": "Pass", "End": True},
        D={"Type": "Fail", "Error": "{% 'Small' & $string($sum) %}"},
    )}  # fmt: skip
    assert begin(states, {"total": 200}).result == {"s": 400}
    run = begin(states, {"total": 100})
    assert run.error is not None
    assert run.error["type"] == "Small200"


def test_jsonata_maps_what_its_items_say(begin: Begin) -> None:
    states = {**OF_ANSWERS, **machine(
        A={"Type": "Map", "Items": "{% $states.input.lines.sku %}",
           "ItemSelector": {"sku": "{% $states.context.Map.Item.Value %}"},
           "ItemProcessor": machine(B=task("echo", Output="{% $states.result.sku & '!' %}")),
           "Output": "{% $join($states.result, ',') %}", "End": True},
    )}  # fmt: skip
    assert begin(states, ORDER).result == "a!,b!"


def test_jsonata_catches_with_the_error_output(begin: Begin) -> None:
    caught = [{"ErrorEquals": ["States.ALL"], "Output": "{% $states.errorOutput.Error %}", "Next": "B"}]
    states = {**OF_ANSWERS, **machine(A=task("fail", Catch=caught), B={"Type": "Succeed"})}
    assert begin(states, {}).result == "CardDeclined"


def test_one_state_may_be_of_the_other_language(begin: Begin) -> None:
    states = machine(
        A={"Type": "Pass", "QueryLanguage": "JSONata", "Output": "{% $states.input.total + 1 %}", "Next": "B"},
        B={"Type": "Pass", "Parameters": {"n.$": "$"}, "End": True},
    )
    assert begin(states, ORDER).result == {"n": 201}


# -- tasks


def test_a_child_machine_is_run_and_waited_for(begin: Begin) -> None:
    arn = "arn:aws:states:us-east-1:123456789012:stateMachine:child"
    states = machine(
        A=task("arn:aws:states:::states:startExecution.sync:2", Parameters={"StateMachineArn": arn, "Input.$": "$"},
               ResultSelector={"out.$": "$.Output", "status.$": "$.Status"})
    )  # fmt: skip
    run = begin(states, {"number": 1}, child=machine(B=task("plus")))
    assert run.result == {"out": 2, "status": "SUCCEEDED"}


def test_lambda_invoke_gives_the_payload_to_the_function_and_wraps_its_result(begin: Begin) -> None:
    states = machine(
        A=task("arn:aws:states:::lambda:invoke", Parameters={"FunctionName": "echo", "Payload": {"x.$": "$.id"}})
    )
    assert begin(states, ORDER).result == {"ExecutedVersion": "$LATEST", "Payload": {"x": "o1"}, "StatusCode": 200}


# -- what ends a branch, an item or a child


BOOM: Machine = {"Type": "Fail", "Error": "Boom", "Cause": "why"}
ANY: Machine = {"ErrorEquals": ["States.ALL"], "Next": "Z"}


@pytest.mark.parametrize(
    "state",
    [
        {"Type": "Parallel", "Branches": [machine(B=BOOM)]},
        {"Type": "Map", "ItemsPath": "$.lines", "ItemProcessor": machine(B=BOOM)},
        {"Type": "Parallel", "Branches": [machine(P={"Type": "Parallel", "Branches": [machine(B=BOOM)], "End": True})]},
    ],
)
def test_an_error_inside_is_caught_outside_with_its_own_cause(begin: Begin, state: Machine) -> None:
    run = begin(machine(A={**state, "Catch": [ANY], "End": True}, Z={"Type": "Succeed"}), ORDER)
    assert run.result == {"Error": "Boom", "Cause": "why"}


def test_more_failures_than_a_map_tolerates_have_an_error_of_their_own(begin: Begin) -> None:
    caught = {**ANY, "ErrorEquals": ["States.ExceedToleratedFailureThreshold"]}
    states = machine(
        A={"Type": "Map", "ItemProcessor": machine(B=BOOM), "ToleratedFailureCount": 1, "Catch": [caught], "End": True},
        Z={"Type": "Pass", "Result": "too many", "End": True},
    )
    assert begin(states, [1, 2, 3]).result == "too many"


def test_a_child_that_fails_is_a_failed_task(begin: Begin) -> None:
    arn = "arn:aws:states:us-east-1:123456789012:stateMachine:child"
    states = machine(
        A=task("arn:aws:states:::states:startExecution.sync", Parameters={"StateMachineArn": arn},
               Catch=[{**ANY, "ErrorEquals": ["States.TaskFailed"]}]),
        Z={"Type": "Pass", "Result": "caught", "End": True},
    )  # fmt: skip
    assert begin(states, {}, child=machine(B=BOOM)).result == "caught"


def test_the_cause_of_a_child_that_fails_is_json_that_tells_of_it(begin: Begin) -> None:
    arn = "arn:aws:states:us-east-1:123456789012:stateMachine:child"
    states = machine(
        A=task("arn:aws:states:::states:startExecution.sync:2", Parameters={"StateMachineArn": arn}, Catch=[ANY]),
        Z={"Type": "Pass", "Parameters": {"e.$": "$.Error", "c.$": "States.StringToJson($.Cause)"}, "End": True},
    )
    found = begin(states, {}, child=machine(B=BOOM)).result
    assert found["e"] == "States.TaskFailed"
    assert {"Error": "Boom", "Cause": "why", "Status": "FAILED"}.items() <= found["c"].items()
    assert found["c"]["ExecutionArn"] == f"arn:aws:states:::execution:child:{found['c']['Name']}"


def entered(run: Run) -> list[str]:
    with run._kit.client() as client:
        told: list[str] = client._http.get(f"/runs/{run.id}?as=asl").json()["states_entered"]
    return told


def test_a_state_that_is_retried_has_been_entered_once(begin: Begin) -> None:
    tried = [{"ErrorEquals": ["Busy"], "IntervalSeconds": 1, "BackoffRate": 1}]
    branches = [machine(B=task("fail", Parameters={"times": 2, "name": "Busy"}))]
    run = begin(machine(A={"Type": "Parallel", "Branches": branches, "Retry": tried, "End": True}), {})
    advance(advance(run, "1s"), "1s")
    assert (run.status, entered(run)) == ("completed", ["A", "B", "B", "B"])


@pytest.mark.parametrize(
    ("fields", "result"),
    [
        ({}, [{"Key": "a", "Value": 1}]),
        ({"ItemSelector": {"k.$": "$$.Map.Item.Key", "v.$": "$$.Map.Item.Value"}}, [{"k": "a", "v": 1}]),
        ({"ItemBatcher": {"MaxItemsPerBatch": 2}}, [{"Items": [{"Key": "a", "Value": 1}]}]),
    ],
)
def test_a_map_over_an_object_goes_through_its_keys_and_values(begin: Begin, fields: Machine, result: Any) -> None:
    states = machine(A={"Type": "Map", "ItemProcessor": machine(B={"Type": "Succeed"}), **fields, "End": True})
    assert begin(states, {"a": 1}).result == result


def test_the_explanation_of_a_retrys_pause_names_the_state(begin: Begin) -> None:
    tried = [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 60}]
    run = begin(machine(A={"Type": "Parallel", "Branches": [machine(B=task("fail"))], "Retry": tried, "End": True}), {})
    with run._kit.client() as client:
        told = client.handle(run.id).explain()
    assert told["why"].startswith("It waits at A for ")


def test_states_are_shown_in_the_order_in_which_they_were_entered(begin: Begin) -> None:
    states = machine(A={"Type": "Pass", "Next": "B"}, B=task("echo", Next="C"), C={"Type": "Pass", "End": True})
    assert list(begin(states, {"x": 1}).view["steps"]) == ["A", "B", "C"]
