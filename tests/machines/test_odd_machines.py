"""Machines that are long, deep or oddly named, large data, and what is done to runs from outside."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest

from stepwell.errors import Conflict
from stepwell.testing.kit import Run
from tests.machines.conftest import Begin, Machine, advance, machine, task
from tests.machines.test_task_tokens import ask, send, token_of, told

PASS: Machine = {"Type": "Pass", "End": True}
NAMES = ["a b", "é日本", "a.b", "A.Catch[0]", "x[0]", "a:b", "a#b", "{% x %}", "{{ x }}", "a\\b", "a'b\"c", "0",
         "state", "a" * 80]  # fmt: skip


def pause(seconds: int, **more: Any) -> Machine:
    return {"Type": "Wait", "Seconds": seconds, **({} if "Next" in more else {"End": True}), **more}


def test_states_may_have_any_name_that_can_be_printed(begin: Begin) -> None:
    names = iter([*NAMES, "Z"])
    states: dict[str, Machine] = {}
    name = next(names)
    for following in names:
        caught = [{"ErrorEquals": ["States.ALL"], "Next": following}]
        states[name] = task("fail", Catch=caught, ResultPath="$.x", Next="Z")
        name = following
    states["Z"] = {**pause(3600), "Next": "é map"}
    del states["Z"]["End"]
    inner = machine(**{"é item": {**pause(1200)}})
    states["é map"] = {"Type": "Map", "Items": [1], "QueryLanguage": "JSONata", "ItemProcessor": inner, "End": True}
    run = begin({"StartAt": NAMES[0], "States": states}, {})
    assert run.status == "waiting"
    advance(run, "1h")
    advance(run, "20m")
    assert (run.status, run.result) == ("completed", [1])
    assert [step for step in run.view["steps"] if step in NAMES] == NAMES


def test_a_long_machine_runs_to_its_end(begin: Begin) -> None:
    count = 300
    states = {f"S{at}": task("plus", Next=f"S{at + 1}") for at in range(count)}
    assert begin(machine(**states, **{f"S{count}": {"Type": "Succeed"}}), 0).result == count


def nested(inner: Machine, at: int) -> Machine:
    fork = {"Type": "Map", "ItemProcessor": inner} if at % 2 else {"Type": "Parallel", "Branches": [inner]}
    return machine(**{f"P{at}": {**fork, "End": True}})


def test_states_nest_deeply_with_a_token_at_the_bottom(begin: Begin) -> None:
    run = begin(reduce(nested, range(12), machine(A=ask(InputPath="$"))), [[[[[[{"id": "o"}]]]]]])
    assert run.status == "waiting"
    send(run, 5)
    result = run.result
    for _ in range(12):
        (result,) = result
    assert result == 5


def test_data_of_256_kb_goes_through_states_and_a_token(begin: Begin) -> None:
    large = "x" * 255_000
    states = machine(
        A=task("echo", ResultPath="$.a", Next="B"),
        B=ask(ResultPath="$.b", Next="C"),
        C={"Type": "Pass", "OutputPath": "$.b"},
    )
    states["States"]["C"]["End"] = True
    run = begin(states, {"id": "o", "data": large})
    send(run, [large])
    assert run.result == [large]


def token_is_over(run: Run, token: str) -> bool:
    with pytest.raises(Conflict) as refused:
        send(run, "late", token)
    return refused.value.code == "callback_over"


@pytest.mark.parametrize("kind", ["Parallel", "Map"])
def test_a_cancel_ends_what_runs_in_branches(begin: Begin, kind: str) -> None:
    inner = machine(A=ask(Next="W"), W=pause(100))
    fork = {"Branches": [inner]} if kind == "Parallel" else {"ItemProcessor": inner}
    given: Any = {"id": "o"} if kind == "Parallel" else [{"id": "o"}, {"id": "p"}]
    run = begin(machine(P={"Type": kind, **fork, "End": True}), given)
    token = token_of(run)
    run.cancel("no need", by="kim")
    assert run.status == "cancelled"
    assert token_is_over(run, token)
    advance(run, "1h")
    assert run.status == "cancelled"


def test_a_branch_that_fails_ends_the_wait_for_a_token_beside_it(begin: Begin) -> None:
    fails = machine(W=pause(5, Next="F"), F={"Type": "Fail", "Error": "Boom"})
    run = begin(machine(P={"Type": "Parallel", "Branches": [machine(A=ask()), fails], "End": True}), {"id": "o"})
    token = token_of(run)
    advance(run, "6s")
    assert run.status == "failed"
    assert token_is_over(run, token)


def test_a_paused_run_takes_answers_and_goes_on_when_it_may(begin: Begin) -> None:
    branches = [machine(A=ask()), machine(W=pause(50))]
    run = begin(machine(P={"Type": "Parallel", "Branches": branches, "End": True}), {"id": "o"})
    token = token_of(run)
    run.pause()
    assert run.status == "paused"
    send(run, 7, token)
    advance(run, "20s")
    assert run.status == "paused"
    run.unpause()
    assert (run.status, run.waiting_for) == ("waiting", "sleep")
    advance(run, "31s")
    assert (run.status, run.result) == ("completed", [7, {"id": "o"}])


def test_a_redriven_task_has_a_token_of_its_own(begin: Begin) -> None:
    run = begin(machine(A=ask(TimeoutSeconds=60)), {"id": "o"})
    first = token_of(run)
    advance(run, "61s")
    assert run.status == "failed"
    again = run.redrive()
    assert again.status == "waiting"
    assert token_of(again) != first
    send(again, "second")
    assert again.result == "second"


def test_a_redriven_map_keeps_the_items_that_were_answered(begin: Begin) -> None:
    states = machine(M={"Type": "Map", "ItemProcessor": machine(A=ask()), "ToleratedFailureCount": 0, "End": True})
    run = begin(states, [{"id": "a"}, {"id": "b"}])
    tokens = {one["order"]: one["token"] for one in told(run)}
    send(run, "of a", tokens["a"])
    send(run, token=tokens["b"], error="Busy", message="later")
    assert run.status == "failed"
    again = run.redrive()
    assert [one["order"] for one in told(again)[2:]] == ["b"]
    send(again, "of b")
    assert again.result == ["of a", "of b"]


def test_a_fork_of_a_run_goes_on_at_a_state_with_the_data_it_had(begin: Begin) -> None:
    states = machine(
        A={"Type": "Pass", "Assign": {"v": 1}, "Result": {"id": "o"}, "Next": "B"},
        B=ask(Next="C"),
        C={"Type": "Pass", "Parameters": {"v.$": "$v", "b.$": "$"}, "End": True},
    )
    run = begin(states, {})
    send(run, "first")
    assert run.result == {"v": 1, "b": "first"}
    fork = run.fork(1)
    assert fork.status == "waiting"
    send(fork, "second")
    assert fork.result == {"v": 1, "b": "second"}


def test_an_export_has_the_run_of_a_machine_whole(begin: Begin) -> None:
    run = begin(machine(A=ask(Next="W"), W=pause(5)), {"id": "o"})
    send(run, 5)
    advance(run, "6s")
    assert run.status == "completed"
    logs = [one for one in run.export() if "'W'" in str(one)]
    assert logs
