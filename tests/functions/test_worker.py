"""The worker's handler: what an event of its queue leads to, and what it does with the time that Lambda leaves it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from stepwell.aws.invoker import LambdaInvoker
from stepwell.engine.records import Kind
from stepwell.runtime.steps.lambdas import Invoked
from tests.contract.emulated import answer
from tests.functions.conftest import Deploy
from tests.functions.kit import TIMEOUT_SECONDS, Deployment, Invocation

TWO_STEPS = "workflow: flow\ntimeline: [{name: a, run: python:m.a}, {name: b, run: python:m.b}]"
ONCE = "workflow: flow\ntimeline: [{name: a, run: python:m.a, at_most_once: true}]"
TIMES = "import world\ndef a(ctx):\n    world.said.append(ctx.timeout_seconds)"


class Died(BaseException):
    """What ends a worker at once: no handler of ours may catch it."""


# -- what it does


def test_a_run_started_by_the_api_is_driven_to_its_end_in_one_invocation(deployed: Deploy) -> None:
    stack = deployed(TWO_STEPS, "def a(name): return name.upper()\ndef b(a): return f'hello {a}'")
    run_id = stack.start({"name": "ana"})
    assert stack.deliver() == 1
    run = stack.run(run_id)
    assert (run["status"], run["result"]) == ("completed", "hello ANA")


def test_a_chain_of_ten_steps_costs_sqs_a_send_a_receive_and_a_delete(deployed: Deploy) -> None:
    names = ", ".join(f"{{name: s{number}, run: python:m.a}}" for number in range(10))
    stack = deployed(f"workflow: flow\ntimeline: [{names}]", "def a(): pass")
    stack.function("api"), stack.function("worker")
    stack.cloud.calls.clear()
    run_id = stack.start()
    stack.invoke("default", stack.messages("default"))
    assert stack.run(run_id)["status"] == "completed"
    sent = [call for call in stack.cloud.calls if "Message" in call]
    assert sent == ["SendMessage", "ReceiveMessage", "DeleteMessage"]


def test_quick_steps_share_an_invocation_that_is_shorter_than_their_time_limit(deployed: Deploy) -> None:
    """A step without `timeout` may take five minutes; the pool's invocations last five minutes, or one."""
    names = ", ".join(f"{{name: s{number}, run: python:m.a}}" for number in range(6))
    stack = deployed(f"workflow: flow\ntimeline: [{names}]", f"{TIMES}\n    world.clock.advance(20_000)")
    for timeout_seconds, limits in ((300, [295, 275, 255, 295, 275, 255]), (60, [55] * 6)):
        run_id = stack.start()
        assert stack.deliver(timeout_seconds=timeout_seconds) == len([limit for limit in limits if limit == limits[0]])
        assert stack.run(run_id)["status"] == "completed"
        assert stack.world.said == limits
        stack.world.said.clear()


def test_a_step_that_an_invocation_can_give_its_whole_time_gets_it(deployed: Deploy) -> None:
    names = ", ".join(f"{{name: s{number}, run: python:m.a, timeout: 4m}}" for number in range(5))
    stack = deployed(f"workflow: flow\ntimeline: [{names}]", f"{TIMES}\n    world.clock.advance(20_000)")
    stack.start()
    assert stack.deliver(timeout_seconds=300) == 2
    assert stack.world.said == [240] * 5


def test_steps_import_the_projects_packages_from_the_package_of_the_function(deployed: Deploy, tmp_path: Path) -> None:
    """There the project is a folder of its own; `paths` name the places that modules are imported from."""
    till = tmp_path / "project" / "tills"
    till.mkdir(parents=True)
    (till / "rates.py").write_text("TAX = 21\n")
    flows = tmp_path / "project" / "flows" / "sub"
    flows.mkdir(parents=True)
    (flows / "steps.py").write_text("from tills.rates import TAX\ndef a(): return TAX")
    definition = "workflow: flow\ntimeline: [{name: a, run: python:sub.steps.a}]"
    stack = deployed(definition, paths=["project/flows", "project/."])
    run_id = stack.start()
    stack.deliver()
    assert stack.run(run_id)["result"] == 21


def test_a_duplicate_wake_runs_nothing_twice(deployed: Deploy) -> None:
    stack = deployed(ONCE, "import world\ndef a(): world.said.append('a')")
    stack.start()
    event = stack.messages("default")
    stack.send("default", event["Records"][0]["body"])
    stack.invoke("default", event)
    assert stack.deliver() == 1
    assert stack.world.said == ["a"]


def test_a_step_of_another_pool_goes_to_that_pools_worker(deployed: Deploy) -> None:
    definition = "workflow: flow\ntimeline: [{name: a, run: python:m.a}, {name: b, run: python:m.b, pool: heavy}]"
    stack = deployed(definition, "def a(): return 1\ndef b(): return 2")
    run_id = stack.start()
    assert stack.deliver("default") == 1
    assert stack.run(run_id)["status"] == "running"
    assert stack.deliver("heavy") == 1
    assert stack.run(run_id)["result"] == 2


# -- what fails


def test_a_message_that_is_not_ours_fails_alone(deployed: Deploy) -> None:
    stack = deployed(TWO_STEPS, "def a(): return 1\ndef b(): return 2")
    for body in ("not json", "[]", '{"type": "greeting"}', '{"type": "wake"}', "17"):
        stack.send("default", body)
    run_id = stack.start()
    event = stack.messages("default", 10)
    ours = next(record["messageId"] for record in event["Records"] if run_id in record["body"])
    failed = stack.invoke("default", event)
    assert sorted(failed) == sorted(record["messageId"] for record in event["Records"] if record["messageId"] != ours)
    assert stack.run(run_id)["status"] == "completed"


def test_a_message_that_is_not_ours_ends_in_the_dead_queue(deployed: Deploy) -> None:
    stack = deployed(TWO_STEPS)
    stack.send("default", "not json")
    for _ in range(20):
        stack.deliver()
        stack.pass_time(61)
    assert [record["body"] for record in stack.messages("dead")["Records"]] == ["not json"]


def test_a_message_that_fails_comes_again_later_each_time(deployed: Deploy) -> None:
    stack = deployed(TWO_STEPS)
    stack.send("default", "not json")
    handled = []
    for second in range(60):
        handled += [second] * stack.deliver("default")
        stack.pass_time(1)
    assert handled == [0, 1, 3, 11, 43]


def test_a_store_that_does_not_answer_fails_the_message_which_then_comes_again(deployed: Deploy) -> None:
    stack = deployed(TWO_STEPS, "def a(): return 1\ndef b(): return 2")
    run_id = stack.start()
    event = stack.messages("default")

    def broken(operation: str, _: Any) -> None:
        if operation == "GetItem":
            raise ValueError("the network is gone")

    stack.cloud.before = broken
    assert stack.invoke("default", event) == [event["Records"][0]["messageId"]]
    stack.cloud.heal()
    stack.pass_time(1)
    assert stack.deliver() == 1
    assert stack.run(run_id)["status"] == "completed"


# -- time


def test_a_step_that_may_take_longer_than_is_left_gets_an_invocation_of_its_own(deployed: Deploy) -> None:
    steps = "import world\ndef a(): world.clock.advance(800_000)\ndef b(ctx): world.said.append(ctx.timeout_seconds)"
    stack = deployed(TWO_STEPS, steps)
    run_id = stack.start()
    assert stack.deliver() == 2
    assert stack.run(run_id)["status"] == "completed"
    assert stack.world.said == [300]


def test_a_step_whose_limit_is_beyond_any_invocations_gets_all_of_a_fresh_one(deployed: Deploy) -> None:
    """Less what its record needs. What is left of one that began with a quick step is a fifth less at most."""
    names = ", ".join(f"{{name: {name}, run: python:m.a}}" for name in "abc")
    stack = deployed(f"workflow: flow\ntimeline: [{names}]", f"{TIMES}\n    world.clock.advance(4_000)")
    run_id = stack.start()
    assert stack.deliver(timeout_seconds=30) == 2
    assert stack.run(run_id)["status"] == "completed"
    assert stack.world.said == [25, 21, 25]


def test_a_step_that_does_not_end_in_the_time_left_has_timed_out_before_lambda_ends_it(deployed: Deploy) -> None:
    stack = deployed(TWO_STEPS, "import threading\ndef a(): threading.Event().wait(60)")
    run_id = stack.start()
    assert stack.deliver(timeout_seconds=5.1) == 1
    error = stack.run(run_id)["error"]
    assert (error["type"], error["category"]) == ("step_timeout", "timeout")
    assert error["message"] == "a did not end within 0.1 s"


def test_messages_of_a_batch_that_there_is_no_time_for_come_again(deployed: Deploy) -> None:
    stack = deployed(TWO_STEPS, "import world\ndef a(): world.clock.advance(897_000)\ndef b(): pass")
    first, second = stack.start(), stack.start()
    event = stack.messages("default", 2)
    assert len(event["Records"]) == 2
    assert len(stack.invoke("default", event)) == 1
    stack.pass_time(2)
    stack.deliver()
    assert [stack.run(run_id)["status"] for run_id in (first, second)] == ["completed", "completed"]


def test_a_step_to_be_run_at_most_once_is_not_begun_again_when_its_worker_dies(deployed: Deploy) -> None:
    """It died in its first second, before there was a lease: only the end of the function's timeout tells."""
    stack = deployed(ONCE, "import world\ndef a(): world.said.append('a')")
    run_id = stack.start()
    steps = stack.function("worker").entry.parts.worker._steps
    whole = steps.run

    async def dies(call: Any) -> Any:
        await whole(call)
        raise Died

    steps.run = dies
    with pytest.raises(Died):
        stack.function("worker").handler(stack.messages("default"), Invocation(stack.clock, 30))
    began = stack.records(run_id)[-1]
    assert began.kind is Kind.BEGAN
    steps.run = whole
    stack.pass_time(TIMEOUT_SECONDS - 1)
    assert stack.deliver() == 0
    stack.pass_time(1)
    assert stack.deliver() == 1
    assert stack.world.said == ["a"]
    assert stack.run(run_id)["error"]["category"] == "worker_lost"


def test_a_step_to_be_run_at_most_once_is_not_lost_while_it_may_still_run(deployed: Deploy) -> None:
    """The limit that its start wrote down is what this invocation had left, not the step's own five minutes."""
    stack = deployed(ONCE, "import world\ndef a(): world.said.append('a')")
    run_id = stack.start()
    worker = stack.function("worker")
    wake = stack.messages("default")["Records"][0]["body"]
    steps = worker.entry.parts.worker._steps
    whole = steps.run

    async def second_delivery(call: Any) -> Any:
        steps.run = whole
        stack.send("default", wake)
        assert stack.deliver("default", timeout_seconds=30) == 1
        stack.pass_time(26)
        return await whole(call)

    steps.run = second_delivery
    stack.send("default", wake)
    assert stack.deliver("default", timeout_seconds=30) == 1
    assert stack.run(run_id)["status"] == "completed"
    stack.pass_time(60)
    stack.deliver()
    assert (stack.run(run_id)["status"], stack.world.said) == ("completed", ["a"])


# -- an outage


def denied(*operations: str) -> Any:
    """A service that refuses these calls, as one that is out of reach does, only sooner."""
    refusal = '{"__type": "AccessDeniedException", "message": "no"}'
    return lambda operation, _: answer(400, refusal) if operation in operations else None


def test_an_outage_of_the_table_loses_no_run_and_fails_no_step(deployed: Deploy) -> None:
    stack = deployed(TWO_STEPS, "def a(): return 1\ndef b(): return 2")
    run_id = stack.start()
    stack.cloud.before = denied("GetItem")
    for _ in range(40):
        stack.deliver()
        stack.pass_time(60)
    stack.cloud.heal()
    for _ in range(20):
        stack.pass_time(60)
        stack.deliver()
    assert stack.run(run_id)["status"] == "completed"


def test_an_event_that_comes_in_an_outage_is_not_lost(deployed: Deploy) -> None:
    stack = deployed("workflow: flow\ntimeline: [{name: hold, wait: {for: event, name: paid}}]")
    run_id = stack.start()
    stack.deliver()
    stack.call("POST", "/events", {"name": "paid", "payload": 7})
    stack.cloud.before = denied("PutItem")
    for _ in range(30):
        stack.deliver()
        stack.pass_time(60)
    stack.cloud.heal()
    for _ in range(20):
        stack.pass_time(60)
        stack.deliver()
    assert stack.run(run_id)["result"] == 7


def test_an_outage_without_an_end_leaves_the_message_to_a_person(deployed: Deploy) -> None:
    stack = deployed(TWO_STEPS)
    stack.start()
    stack.cloud.before = denied("GetItem")
    for _ in range(300):
        stack.deliver()
        stack.pass_time(60)
    assert len(stack.messages("dead")["Records"]) == 1


# -- what it answers

FUNCTION = "workflow: flow\nfunction: python:m.flow"
ASKED = """
from stepwell import step

def one(): return 1

async def flow(ctx):
    done = []
    ctx.query("done", lambda: done)
    done.append(await ctx.step(one))
    await ctx.event("more")
flow.__stepwell_workflow__ = "flow"
"""


def test_the_api_has_a_worker_answer_a_query(deployed: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_WORKER", "the-worker")
    stack = deployed(FUNCTION, ASKED)
    run_id = stack.start()
    stack.deliver()
    asked: list[Any] = []

    def invoke(client: Any, function: str, payload: bytes, told: Any) -> Invoked:
        asked.append(function)
        found = stack.function("worker").handler(json.loads(payload), Invocation(stack.clock))
        return Invoked(json.dumps(found).encode())

    monkeypatch.setattr(LambdaInvoker, "invoke", invoke)
    assert stack.call("GET", f"/runs/{run_id}/queries/done") == (200, {"run_id": run_id, "name": "done", "value": [1]})
    status, refused = stack.call("GET", f"/runs/{run_id}/queries/none")
    assert (status, refused["code"], asked) == (404, "unknown_query", ["the-worker"] * 2)


def test_a_run_of_many_years_loses_nothing_of_its_log_to_the_tables_time_to_live(deployed: Deploy) -> None:
    """DynamoDB deletes what has expired, whether its run has ended or not."""
    naps = ", ".join(f"{{name: nap_{number}, sleep: 365d}}" for number in range(4))
    stack = deployed(f"workflow: flow\ntimeline: [{{name: b, run: python:m.b}}, {naps}, {{name: c, run: python:m.b}}]",
                     "def b(): return 'done'")  # fmt: skip
    run_id = stack.start({"large": "x" * 2_000})
    stack.deliver()
    for _ in range(4):
        stack.pass_time(365 * 86_400)
        expire(stack)
        stack.deliver()
        stack.pass_time(120)
        stack.deliver()
    assert stack.run(run_id)["status"] == "completed"


def expire(stack: Deployment) -> None:
    """Deletes the items whose time to live is over, as DynamoDB does some time after that."""
    client = stack.cloud.connect("dynamodb")
    for item in client.scan(TableName=os.environ["STEPWELL_TABLE"])["Items"]:
        if "expires" in item and int(item["expires"]["N"]) * 1_000 < stack.clock.now_ms():
            client.delete_item(TableName=os.environ["STEPWELL_TABLE"], Key={name: item[name] for name in ("pk", "sk")})
