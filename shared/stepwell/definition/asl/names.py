"""The names that Amazon States Language has for errors: of a run's failures, and in `ErrorEquals`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from stepwell.definition.graph import Json
from stepwell.definition.text import closest, compact_json

ALL = "States.ALL"
EXECUTION = "execution"  # the tag that has the name which StartExecution gave a run
TASK_FAILED = "States.TaskFailed"
TIMEOUT = "States.Timeout"
HEARTBEAT = "States.HeartbeatTimeout"
RUNTIME = "States.Runtime"
TOO_LARGE = "States.DataLimitExceeded"
_MISFIT = "step_input"  # of a Python function; on Lambda its handler would raise KeyError, or an error like it
TOO_WIDE = "fork_too_wide"  # of a Map, which has no such bound in Step Functions: the name is Stepwell's own
RESERVED = "States."  # no other error has a name that begins so
_TIMED_OUT = "lambda_timeout"  # by Lambda, whose function has a limit of its own
_STATUS = "States.Http.StatusCode."  # and the status: 404

_NAMED: Mapping[str, str] = {
    "heartbeat_timeout": HEARTBEAT,
    "lambda_connection": "Lambda.SdkClientException",
    _TIMED_OUT: "Sandbox.Timedout",
    "parameter_path_failure": "States.ParameterPathFailure",
    "result_path_failure": "States.ResultPathMatchFailure",
    "intrinsic_failure": "States.IntrinsicFailure",
    "query_evaluation_error": "States.QueryEvaluationError",
    "no_matching_transition": "States.NoChoiceMatched",
    "branch_failed": "States.BranchFailed",
    "child_failed": TASK_FAILED,
    _MISFIT: TASK_FAILED,
    "item_reader_failed": "States.ItemReaderFailed",
    "result_writer_failed": "States.ResultWriterFailed",
    TOO_WIDE: TOO_WIDE,
    "join_unmet": "States.ExceedToleratedFailureThreshold",
    "payload_too_large": TOO_LARGE,
    "answer_too_large": TOO_LARGE,
}
# Of any error of a service: DynamoDb.DynamoDbException, DynamoDB.AmazonDynamoDBException, Lambda.AWSLambdaException.
_OF_SERVICE = re.compile(r"(\w+)\.(?:Amazon|AWS)?\1Exception")
_CHILD_STATUS: Mapping[str, str] = {"cancelled": "ABORTED", "timed_out": "TIMED_OUT"}
_BY_CATEGORY: Mapping[str, str] = {"timeout": TIMEOUT, "worker_lost": TASK_FAILED}
_NOT_OF_FUNCTIONS = frozenset({"answer_too_large", "bad_answer", "lambda_connection", "lambda_not_here"})
_OF_STEPWELLS = frozenset({"timeout", "validation", "worker_lost"})  # categories
_OF_STEPWELL = re.compile(r"[a-z][a-z0-9_]*")  # as its codes are written; other types are classes of exceptions
KNOWN = frozenset(
    {
        ALL,
        TASK_FAILED,
        TIMEOUT,
        RUNTIME,
        "States.Http.Socket",
        "States.Permissions",
        *_NAMED.values(),
    }
)
# What each wildcard leaves out. Nothing but its own name takes an error that ends an execution for sure.
_TERMINAL = frozenset({RUNTIME, TOO_LARGE})
_NOT_TAKEN: Mapping[str, frozenset[str]] = {ALL: _TERMINAL, TASK_FAILED: _TERMINAL | {TIMEOUT}}


def error_name(failure_type: str, category: str) -> str:
    """Returns what Step Functions calls such a failure. A type of the user's own, such as CardDeclined, stays."""
    if failure_type in _NAMED:
        return _NAMED[failure_type]
    if category == "validation" and _OF_STEPWELL.fullmatch(failure_type):
        return RUNTIME
    return _BY_CATEGORY.get(category, failure_type)


def name_of(error: Mapping[str, Json]) -> str:
    """Returns what Step Functions calls a failure that is read whole: it says whether Lambda refused the call."""
    if _is_refusal(error["type"], error.get("data")):
        return f"Lambda.{error['type']}"
    return error_name(error["type"], error.get("category", ""))


def _is_refusal(failure_type: str, data: Json) -> bool:
    """Tells whether Lambda did not call the function. The errors of other services have names of their own."""
    return isinstance(data, dict) and data.get("code") == failure_type


def is_thrown(failure_type: str, category: str, data: Json) -> bool:
    """Tells whether a function failed with this, and neither Lambda, which calls it, nor Stepwell for it."""
    is_own = category in _OF_STEPWELLS and _OF_STEPWELL.fullmatch(failure_type) is not None
    is_of_lambda = _is_refusal(failure_type, data) or failure_type in _NOT_OF_FUNCTIONS
    return failure_type == _TIMED_OUT or not (is_own or is_of_lambda)


def cause_of(error: Mapping[str, Json]) -> str:
    """Returns the Cause of a failure: its message. That of a function or a child run is JSON, which machines parse."""
    message, child = str(error.get("message") or ""), error.get("data")
    if error.get("is_thrown"):
        kind = _NAMED.get(error["type"], error["type"])
        return compact_json({"errorMessage": message, "errorType": kind, "stackTrace": []})
    if error["type"] != "child_failed" or not isinstance(child, dict) or "run_id" not in child:
        return message
    failed, workflow, run_id = child.get("error"), child["workflow"], child["run_id"]
    why = {"Cause": cause_of(failed), "Error": name_of(failed)} if failed else {}
    told = {
        **why,
        "ExecutionArn": f"arn:aws:states:::execution:{workflow}:{run_id}",
        "Name": run_id,
        "StateMachineArn": f"arn:aws:states:::stateMachine:{workflow}",
        "Status": _CHILD_STATUS.get(child["status"], "FAILED"),
    }
    return compact_json(told)


def takes(error_equals: Sequence[str], failure_type: str, category: str, data: Json = None) -> bool:
    """Tells whether a retrier or catcher with this `ErrorEquals` takes such a failure."""
    found = {error_name(failure_type, category), *_of_lambda(failure_type, category, data)}
    if failure_type == _MISFIT:
        found.add(RUNTIME)  # its name in earlier releases, which catchers may have
    return any(_is_taken(name, one) for name in error_equals for one in found)


def _of_lambda(failure_type: str, category: str, data: Json) -> Iterator[str]:
    """Yields what Step Functions calls a failure of Lambda itself; a step has only the name that Lambda gives it."""
    if failure_type in (_TIMED_OUT, "LambdaError"):
        yield "Lambda.Unknown"
    elif _is_refusal(failure_type, data) or (category == "transient" and failure_type.endswith("Exception")):
        yield f"Lambda.{failure_type}"


def _is_taken(name: str, found: str) -> bool:
    if name in _NOT_TAKEN:
        return found == name or found not in _NOT_TAKEN[name]
    of_service = _OF_SERVICE.fullmatch(name)
    if of_service is not None and found.startswith(f"{of_service[1]}."):
        return True
    return found == name or (name == TIMEOUT and found == HEARTBEAT)


def bad_names(error_equals: Json, path: str) -> Iterator[tuple[str, str, str]]:
    """Yields what is wrong in one `ErrorEquals`: pointer, message, hint.

    Whether a wildcard stands alone, in the last of its retriers or catchers, is for the caller, who sees them all.
    """
    if not isinstance(error_equals, list):
        yield path, "ErrorEquals is a list of names of errors", 'write ["States.ALL"] for all of them'
        return
    if not error_equals:
        yield path, "ErrorEquals is empty, so that it takes no error", 'write ["States.ALL"] for all of them'
    for index, name in enumerate(error_equals):
        here = f"{path}/{index}"
        if not isinstance(name, str) or not name:
            yield here, "the name of an error is a text that is not empty", 'for example "CardDeclined"'
        elif name.startswith(RESERVED) and not _is_known(name):
            message = f"Amazon States Language has no error {name}, and names beginning with {RESERVED} are its own"
            yield here, message, closest(name, sorted(KNOWN)) or "write a name without this beginning"


def _is_known(name: str) -> bool:
    return name in KNOWN or (name.startswith(_STATUS) and re.fullmatch(r"[1-5]\d\d", name[len(_STATUS) :]) is not None)
