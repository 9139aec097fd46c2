"""Tasks that wait for a callback with their token: `.waitForTaskToken`."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.errors import Conflict
from stepwell.runtime.loop.driving import run_now
from stepwell.testing.kit import Run
from tests.machines.conftest import Begin, Machine, advance, machine, task

INVOKE = "arn:aws:states:::lambda:invoke.waitForTaskToken"
CHILD = "arn:aws:states:us-east-1:123456789012:stateMachine:child"
PAYLOAD = {"FunctionName": "echo", "Payload": {"order.$": "$.id", "token.$": "$$.Task.Token"}}
ORDER = {"id": "o1"}


def ask(**fields: Any) -> Machine:
    return task(INVOKE, Parameters=PAYLOAD, **fields)


def token_of(run: Run) -> str:
    """The token that the last attempt of the task has been given."""
    return str(told(run)[-1]["token"])


def told(run: Run) -> list[Any]:
    run._kit.settle()
    calls: list[Any] = module_of(run)["calls"]
    return calls


def module_of(run: Run) -> dict[str, Any]:
    registry: Any = run._kit._steps._real._registry
    names: dict[str, Any] = registry.function("python:work.early").__globals__
    return names


def send(run: Run, output: Any = None, token: str = "", **error: str) -> None:
    run._kit.callback(token or token_of(run), output, **error)
    run._kit.settle()


@pytest.mark.parametrize("output", [{"paid": True}, 7, "text", None, [1]])
def test_the_result_of_the_task_is_what_the_callback_brings(begin: Begin, output: Any) -> None:
    run = begin(machine(A=ask(ResultPath="$.answer", Next="B"), B={"Type": "Succeed"}), ORDER)
    assert (run.status, run.waiting_for) == ("waiting", "callback")
    assert told(run)[0]["order"] == "o1"
    send(run, output)
    assert (run.status, run.result) == ("completed", {"id": "o1", "answer": output})
    assert run.steps["A"].output == {"id": "o1", "answer": output}


def test_the_token_is_in_no_record(begin: Begin) -> None:
    run = begin(machine(A=ask()), ORDER)
    token = token_of(run)
    send(run, "done")
    assert token not in str(run.export())


def test_a_token_may_stand_within_text(begin: Begin) -> None:
    payload = {
        "token": "{% $states.context.Task.Token %}",
        "url": "{% 'https://x/?t=' & $states.context.Task.Token & '&y' %}",
    }
    given = {"FunctionName": "echo", "Payload": payload}
    run = begin(machine(A=task(INVOKE, QueryLanguage="JSONata", Arguments=given)))
    assert told(run)[0]["url"] == f"https://x/?t={token_of(run)}&y"
    send(run, 3)
    assert run.result == 3


def test_a_failure_that_is_sent_is_caught_with_its_name_and_cause(begin: Begin) -> None:
    catch = [{"ErrorEquals": ["CardDeclined"], "ResultPath": "$.error", "Next": "B"}]
    run = begin(machine(A=ask(Catch=catch), B={"Type": "Succeed"}), ORDER)
    send(run, error="CardDeclined", message="no money")
    assert run.result == {"id": "o1", "error": {"Error": "CardDeclined", "Cause": "no money"}}


def test_a_failure_that_nothing_takes_fails_the_run(begin: Begin) -> None:
    run = begin(machine(A=ask()), ORDER)
    send(run, error="CardDeclined", message="no money")
    assert run.status == "failed"
    assert run.error is not None
    assert (run.error["type"], run.error["message"]) == ("CardDeclined", "no money")


def test_each_retry_has_a_token_of_its_own_and_the_old_one_is_over(begin: Begin) -> None:
    tried = [{"ErrorEquals": ["Busy"], "IntervalSeconds": 10, "MaxAttempts": 1}]
    run = begin(machine(A=ask(Retry=tried)), ORDER)
    first = token_of(run)
    send(run, error="Busy", message="later")
    advance(run, "9s")
    assert len(told(run)) == 1
    advance(run, "1s")
    assert len(told(run)) == 2
    assert token_of(run) != first
    with pytest.raises(Conflict) as refused:
        send(run, "late", token=first)
    assert refused.value.code in ("callback_over", "callback_used")
    send(run, error="Busy", message="again")
    assert run.status == "failed"


@pytest.mark.parametrize(
    ("fields", "after", "name"),
    [
        ({"TimeoutSeconds": 60}, "60s", "States.Timeout"),
        ({"HeartbeatSeconds": 20, "TimeoutSeconds": 60}, "20s", "States.HeartbeatTimeout"),
        ({"HeartbeatSeconds": 20}, "20s", "States.Timeout"),  # which takes it too
        ({"HeartbeatSeconds": 20}, "20s", "States.TaskFailed"),
    ],
)
def test_time_and_heartbeats_end_the_wait(begin: Begin, fields: Machine, after: str, name: str) -> None:
    catch = [{"ErrorEquals": [name], "Next": "B"}]
    run = begin(machine(A=ask(Catch=catch, **fields), B={"Type": "Pass", "Result": "caught", "End": True}), ORDER)
    advance(run, f"{int(after[:-1]) - 1}s")
    assert run.status == "waiting"
    advance(run, "2s")
    assert run.result == "caught"


def test_a_time_out_that_nothing_takes_fails_the_run(begin: Begin) -> None:
    run = begin(machine(A=ask(TimeoutSeconds=60)), ORDER)
    advance(run, "61s")
    with run._kit.client() as client:
        shown = client._http.get(f"/runs/{run.id}?as=asl").json()
    assert (shown["status"], shown["error"]) == ("FAILED", "States.Timeout")


def test_a_heartbeat_keeps_the_wait_open(begin: Begin) -> None:
    run = begin(machine(A=ask(HeartbeatSeconds=20)), ORDER)
    with run._kit.client() as client:
        for _ in range(3):
            advance(run, "15s")
            assert client._http.post(f"/callbacks/{token_of(run)}/heartbeat").status_code == 200
    assert run.status == "waiting"
    send(run, 1)
    assert run.result == 1


def test_a_task_waits_without_limit_where_it_has_none(begin: Begin) -> None:
    run = begin(machine(A=ask()), ORDER)
    advance(run, "300d")
    assert run.status == "waiting"
    send(run, 1)
    assert run.result == 1


def early(begin: Begin, **given: Any) -> Run:
    """A run whose function sends its result by its own token, while it runs itself."""
    states = machine(A=task("arn:x:early.waitForTaskToken", Parameters={"token.$": "$$.Task.Token", **given}))
    run = begin(states)
    kit = run._kit

    def send_now(token: str, output: Any) -> None:
        link = kit._links.callback(token, kit._clock.now_ms())
        run_now(kit.service.callbacks.complete(link, output))

    module_of(run)["send"].append(send_now)
    return run


@pytest.mark.parametrize("fails", [False, True])
def test_a_callback_that_comes_while_the_function_runs_is_kept_whatever_becomes_of_it(
    begin: Begin, fails: bool
) -> None:
    run = early(begin, fails=fails)
    assert (run.status, run.result) == ("completed", "early")


def test_a_function_that_fails_is_retried_with_another_token(begin: Begin) -> None:
    tried = [{"ErrorEquals": ["Busy"], "IntervalSeconds": 1}]
    given = {"FunctionName": "fail", "Payload": {"times": 1, "name": "Busy", "token.$": "$$.Task.Token"}}
    run = begin(machine(A=task(INVOKE, Parameters=given, Retry=tried)), ORDER)
    first = token_of(run)
    advance(run, "1s")
    assert (run.status, len(told(run))) == ("waiting", 2)
    assert token_of(run) != first
    send(run, "second")
    assert run.result == "second"


def test_a_function_that_fails_fails_the_task_with_its_own_error(begin: Begin) -> None:
    given = {"FunctionName": "fail", "Payload": {"token.$": "$$.Task.Token"}}
    run = begin(machine(A=task(INVOKE, Parameters=given)), ORDER)
    assert run.status == "failed"
    assert run.error is not None
    assert (run.error["type"], run.error["message"]) == ("CardDeclined", "no CardDeclined")
    (paused,) = [one["data"] for one in run.history if one["type"] == "step.paused"]
    assert (paused["for"], paused["error"]["type"]) == ("callback", "CardDeclined")


def test_a_child_machine_may_get_the_token(begin: Begin) -> None:
    given = {"StateMachineArn": CHILD, "Input": {"token.$": "$$.Task.Token"}}
    states = machine(A=task("arn:aws:states:::states:startExecution.waitForTaskToken", Parameters=given))
    run = begin(states, ORDER, child=machine(B=task("echo")))
    assert run.status == "waiting"
    send(run, {"from": "the child"})
    assert run.result == {"from": "the child"}


def test_branches_have_tokens_of_their_own(begin: Begin) -> None:
    states = machine(A={"Type": "Map", "ItemsPath": "$.all", "ItemProcessor": machine(B=ask()), "End": True})
    run = begin(states, {"all": [{"id": "a"}, {"id": "b"}]})
    tokens = {one["order"]: one["token"] for one in told(run)}
    send(run, "of b", tokens["b"])
    send(run, "of a", tokens["a"])
    assert run.result == ["of a", "of b"]


def test_a_token_works_once(begin: Begin) -> None:
    run = begin(machine(A=ask(Next="W"), W={"Type": "Wait", "Seconds": 60, "End": True}), ORDER)
    send(run, 1)
    with pytest.raises(Conflict) as refused:
        send(run, 2)
    assert refused.value.code == "callback_used"
    advance(run, "60s")
    assert run.result == 1
