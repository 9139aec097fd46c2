"""Names of errors: what Step Functions calls a failure, what `ErrorEquals` takes, and which names are mistakes."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.definition.asl.names import bad_names, cause_of, error_name, is_thrown, takes


@pytest.mark.parametrize(
    ("failure_type", "category", "expected"),
    [
        ("CardDeclined", "step", "CardDeclined"),
        ("ConnectError", "transient", "ConnectError"),
        ("http_503", "external", "http_503"),
        ("step_timeout", "timeout", "States.Timeout"),
        ("lambda_timeout", "timeout", "Sandbox.Timedout"),
        ("lambda_connection", "transient", "Lambda.SdkClientException"),
        ("workflow_timeout", "timeout", "States.Timeout"),
        ("heartbeat_timeout", "timeout", "States.HeartbeatTimeout"),
        ("worker_lost", "worker_lost", "States.TaskFailed"),
        ("outcome_unknown", "worker_lost", "States.TaskFailed"),
        ("bad_expression", "validation", "States.Runtime"),
        ("output_schema", "validation", "States.Runtime"),
        ("fork_too_wide", "validation", "fork_too_wide"),
        ("parameter_path_failure", "validation", "States.ParameterPathFailure"),
        ("result_path_failure", "validation", "States.ResultPathMatchFailure"),
        ("intrinsic_failure", "validation", "States.IntrinsicFailure"),
        ("query_evaluation_error", "validation", "States.QueryEvaluationError"),
        ("step_input", "validation", "States.TaskFailed"),
        ("no_matching_transition", "step", "States.NoChoiceMatched"),
        ("branch_failed", "step", "States.BranchFailed"),
        ("join_unmet", "step", "States.ExceedToleratedFailureThreshold"),
        ("payload_too_large", "validation", "States.DataLimitExceeded"),
        ("answer_too_large", "step", "States.DataLimitExceeded"),
        ("BadAddress", "validation", "BadAddress"),
        ("terminated", "governance", "terminated"),
    ],
)
def test_a_failure_has_the_name_of_step_functions(failure_type: str, category: str, expected: str) -> None:
    assert error_name(failure_type, category) == expected
    assert takes([expected], failure_type, category)
    assert takes(["Other", expected], failure_type, category)
    assert not takes(["Other"], failure_type, category)


STEP, TIMEOUT, BEAT = ("CardDeclined", "step"), ("step_timeout", "timeout"), ("heartbeat_timeout", "timeout")
LOST, BROKEN, LARGE = ("worker_lost", "worker_lost"), ("bad_expression", "validation"), ("answer_too_large", "step")
OF_LAMBDA = ("lambda_timeout", "timeout")
QUERY, MISFIT = ("query_evaluation_error", "validation"), ("step_input", "validation")


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("States.ALL", {STEP, TIMEOUT, BEAT, LOST, QUERY, OF_LAMBDA, MISFIT}),
        ("States.TaskFailed", {STEP, BEAT, LOST, QUERY, OF_LAMBDA, MISFIT}),
        ("Lambda.Unknown", {OF_LAMBDA}),
        ("States.Timeout", {TIMEOUT, BEAT}),
        ("States.HeartbeatTimeout", {BEAT}),
        ("States.Runtime", {BROKEN, MISFIT}),
        ("States.DataLimitExceeded", {LARGE}),
        ("CardDeclined", {STEP}),
        ("carddeclined", set()),
        ("*", set()),
    ],
)
def test_a_name_takes_just_these_failures(name: str, taken: set[tuple[str, str]]) -> None:
    every = {STEP, TIMEOUT, BEAT, LOST, BROKEN, LARGE, QUERY, OF_LAMBDA, MISFIT}
    assert {one for one in every if takes([name], *one)} == taken


@pytest.mark.parametrize(
    ("failure_type", "category", "data", "expected"),
    [
        ("CardDeclined", "step", {"limit": 5}, True),
        ("gaierror", "transient", None, True),
        ("BadAddress", "validation", None, True),
        ("failed", "step", None, True),
        ("lambda_timeout", "timeout", None, True),
        ("step_timeout", "timeout", None, False),
        ("step_input", "validation", None, False),
        ("worker_lost", "worker_lost", None, False),
        ("lambda_connection", "transient", None, False),
        ("TooManyRequestsException", "transient", {"status": 429, "code": "TooManyRequestsException"}, False),
    ],
)
def test_a_function_throws_what_neither_lambda_nor_stepwell_fails_with(
    failure_type: str, category: str, data: object, *, expected: bool
) -> None:
    assert is_thrown(failure_type, category, data) is expected


def test_the_cause_of_a_limit_is_its_sentence() -> None:
    assert cause_of({"type": "step_timeout", "category": "timeout", "message": "too late"}) == "too late"


def test_no_name_takes_nothing() -> None:
    assert not takes([], "CardDeclined", "step")


@pytest.mark.parametrize(
    "error_equals",
    [["States.ALL"], ["CardDeclined", "Lambda.Unknown"], ["States.Http.StatusCode.404"], ["States.ItemReaderFailed"]],
)
def test_good_names_are_no_mistakes(error_equals: Any) -> None:
    assert list(bad_names(error_equals, "/Catch/0/ErrorEquals")) == []


@pytest.mark.parametrize(
    ("error_equals", "pointer", "says"),
    [
        ("States.ALL", "", "a list of names"),
        (None, "", "a list of names"),
        ({"a": 1}, "", "a list of names"),
        ([], "", "is empty"),
        (["A", 1], "/1", "a text that is not empty"),
        ([""], "/0", "a text that is not empty"),
        (["States.Al"], "/0", "did you mean `States.ALL`?"),
        (["A", "States.TimedOut"], "/1", "did you mean `States.Timeout`?"),
        (["States."], "/0", "names beginning with States."),
        (["States.Http.StatusCode.abc"], "/0", "names beginning with States."),
    ],
)
def test_a_bad_name_has_its_pointer_and_a_hint(error_equals: Any, pointer: str, says: str) -> None:
    ((path, message, hint),) = bad_names(error_equals, "/E")
    assert path == f"/E{pointer}"
    assert says in f"{message} {hint}"
    assert hint


@pytest.mark.parametrize(
    ("name", "failure", "is_taken"),
    [
        ("DynamoDb.DynamoDbException", ("DynamoDb.ConditionalCheckFailedException", "step"), True),
        ("DynamoDB.AmazonDynamoDBException", ("DynamoDB.ThrottlingException", "transient"), True),
        ("DynamoDB.AmazonDynamoDBException", ("DynamoDb.ThrottlingException", "transient"), False),
        ("S3.S3Exception", ("S3.NoSuchKeyException", "step"), True),
        ("S3.NoSuchKeyException", ("S3.AccessDenied", "step"), False),
        ("Lambda.TooManyRequestsException", ("TooManyRequestsException", "transient"), True),
        ("Lambda.TooManyRequestsException", ("TooManyRequestsException", "step"), False),
        ("Lambda.AWSLambdaException", ("ServiceException", "transient"), True),
        ("Lambda.SdkClientException", ("lambda_connection", "transient"), True),
    ],
)
def test_an_error_of_a_service_has_the_names_of_step_functions(
    name: str, failure: tuple[str, str], is_taken: bool
) -> None:
    assert takes([name], *failure) is is_taken
