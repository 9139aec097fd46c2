"""What the handlers are made to do, until each has done all that it may."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any
from unittest import mock

from stepwell.aws.store.keys import header_key
from stepwell.limits import DELIVERIES
from stepwell.runtime.stores.blobs import of_run, place_of, reference_of
from tests.contract.emulated import answer
from tests.functions.kit import POOLS, Invocation
from tests.iam.stack import SECRET, Stack

LARGE = "x" * 40_000  # more than an item takes
HOUR_SECONDS = 3_600


def play(stack: Stack) -> None:
    """Everything, in an order in which nobody finds what another should have made."""
    be_asked(stack)
    for pool in POOLS:
        order(stack, pool)
        call(stack, pool)
        link(stack, pool)
    call_services(stack)
    ask(stack)
    queue_up(stack)
    fan_out(stack)
    recall(stack)
    act_together(stack)
    stop(stack)
    name_versions(stack)
    forget(stack)
    go_round(stack)
    fire(stack)
    for pool in POOLS:
        die(stack, pool)
    lose(stack)
    watch(stack)
    tell(stack)
    expire_forked(stack)
    hook_deleted(stack)
    write(stack)


def be_asked(stack: Stack) -> None:
    """Webhooks: an event, kept and taken again; for each pool a run of a workflow that never ran before, whose retry is
    the same run."""
    assert stack.hook("till", {"key": "nobody", "large": LARGE}) == 202
    _, page = stack.call("GET", "/deliveries")
    again = {"source": "till", "delivery": page["items"][0]["id"], "again": True}
    assert stack.call("POST", "/deliveries:replay", again)[0] == 202
    for pool in POOLS:
        assert [stack.hook(f"form-{pool}", {"large": LARGE}) for _ in range(2)] == [202, 202]
    assert stack.authorize(SECRET)
    stack.deliver()


def order(stack: Stack, pool: str) -> None:
    """A run from its start to its end, with every kind of pause."""
    late = {"start_at": "2023-11-16T00:00:00Z", "input": {"key": "late"}}
    assert stack.call("POST", f"/workflows/order-{pool}/runs", late)[0] == 201
    run_id = stack.start({"key": pool, "large": LARGE}, f"order-{pool}")
    for size in (1, 2):  # the first is taken by its waiter, the other stays
        event = {"name": "paid", "key": pool, "payload": {"note": "x" * size}}
        assert stack.call("POST", "/events", event)[0] == 202
    stack.deliver("resume")
    stack.deliver()
    waits(stack, run_id, "nap")
    stack.pass_time(18 * 60)
    stack.deliver()
    waits(stack, run_id, "nap")  # the schedule fired early
    stack.pass_time(2 * 60)
    stack.deliver()
    waits(stack, run_id, "shipped")
    assert stack.call("POST", "/events", {"name": "shipped", "key": pool, "payload": {"large": LARGE}})[0] == 202
    for _ in range(40):
        stack.deliver()
        stack.pass_time(60)
    waits(stack, run_id, "allowed")
    assert stack.call("POST", f"/runs/{run_id}/approve", {"data": LARGE})[0] == 200
    stack.deliver()
    assert stack.run(run_id)["status"] == "completed"


def call(stack: Stack, pool: str) -> None:
    """A run that calls a function, and a host that turns out to be this machine: secrets are read, nothing is sent."""
    run_id = stack.start({}, f"calls-{pool}")
    stack.deliver()
    run = stack.run(run_id)
    assert (run["status"], run["steps"]["score"]["output"]["score"]) == ("completed", 1)
    assert run["steps"]["tell"]["error"]["type"] == "http_address"


def call_services(stack: Stack) -> None:
    """A state machine whose tasks call services, started and shown by the API of Step Functions."""
    machine = "arn:aws:states:eu-west-1:111111111111:stateMachine:machine"
    begun = _asked_of_states(stack, "StartExecution", {"stateMachineArn": machine})
    stack.deliver()
    shown = _asked_of_states(stack, "DescribeExecution", {"executionArn": begun["executionArn"]})
    assert shown["status"] == "SUCCEEDED", shown


def _asked_of_states(stack: Stack, operation: str, body: Any) -> Any:
    status, said = stack.call("POST", "/aws/states", body, headers={"x-amz-target": f"AWSStepFunctions.{operation}"})
    assert status == 200, said
    return said


def link(stack: Stack, pool: str) -> None:
    """A run that a person and another system move on, by links alone."""
    run_id = stack.start({}, f"linked-{pool}")
    stack.deliver()
    assert stack.call("POST", f"/runs/{run_id}/delegate", {"by": "ana", "to": "bea"}, authorizer={})[0] == 200
    url = stack.call("POST", f"/runs/{run_id}/links")[1]["approval_links"]["bea"]
    path = url[url.index("/approvals/") :]
    assert stack.call("GET", path)[0] == 200
    assert stack.form(path, "decision=approved") == 200
    stack.deliver()
    url = stack.call("POST", f"/runs/{run_id}/links")[1]["callback_url"]
    path = url[url.index("/callbacks/") :]
    assert stack.call("POST", f"{path}/heartbeat")[0] == 200
    assert stack.call("POST", f"{path}/fail" if pool == "heavy" else path, {})[0] == 200
    stack.deliver()
    assert stack.run(run_id)["status"] == ("failed" if pool == "heavy" else "completed")


def waits(stack: Stack, run_id: str, node: str) -> None:
    token = stack.token(run_id)
    assert (token.node, token.parked is not None) == (node, True), stack.run(run_id)


def ask(stack: Stack) -> None:
    """The API: what other scenarios do not ask it."""
    runs = [stack.start({"key": "none"}, "asks") for _ in range(4)]
    stack.deliver()
    for run_id, action in zip(runs, ("reject", "cancel", "terminate", "approve"), strict=True):
        assert stack.call("POST", f"/runs/{run_id}/{action}", {})[0] == 200
    stack.deliver()
    status, idle = stack.call("POST", "/workflows/asks/runs", {"create_only": True, "input": {"key": "none"}})
    run_id = idle["run_id"]
    assert (status, stack.call("POST", f"/runs/{run_id}/start")[0]) == (201, 200)
    assert stack.call("POST", f"/runs/{run_id}/events", {"name": "hello"})[0] == 202
    status, again = stack.call("POST", f"/runs/{runs[1]}/redrive", {})
    assert (status, stack.call("POST", f"/runs/{runs[0]}/rerun", {})[0]) == (201, 201), again
    for dry_run, expected in ((True, 200), (False, 201)):
        assert stack.call("POST", f"/runs/{runs[2]}/fork", {"at": 0, "dry_run": dry_run})[0] == expected
    for path in ("history", "explain", "graph", "logs"):
        assert stack.call("GET", f"/runs/{run_id}/{path}")[0] == 200
    assert stack.call("GET", f"/runs/{runs[3]}/result")[0] == 200
    assert stack.call("GET", f"/runs/{runs[3]}/value?path=/state")[0] == 200
    assert stack.call("GET", f"/runs/{runs[3]}/state?at=0")[0] == 200
    assert stack.call("POST", "/check", {"definition": "workflow: w\ntimeline: []\n"})[0] == 200
    lists = ("/runs", "/runs?status=waiting", "/runs?sort=waiting_until")
    for path in (*lists, "/failures", "/stats", "/stats?costs=true", "/workflows", "/workflows/asks", "/health"):
        assert stack.call("GET", path)[0] == 200
    stack.deliver()
    run_id = stack.start({}, "counted")
    stack.deliver()
    assert stack.call("GET", f"/runs/{run_id}/queries/count")[0] == 200
    assert stack.call("GET", f"/runs/{run_id}/export")[0] == 200
    status, sent = stack.call("POST", f"/runs/{run_id}/updates/add", {"input": {"n": 2}})
    assert status == 202
    stack.deliver()
    assert stack.call("GET", f"/runs/{run_id}/updates/add/{sent['update_id']}")[1]["output"] == 2


def queue_up(stack: Stack) -> None:
    """Runs of which one at a time may be under way; it is paused meanwhile, and started again with an event."""
    first, second = stack.start({}, "limited"), stack.start({}, "limited")
    stack.deliver()
    assert stack.call("GET", f"/runs/{first}/output")[1]["items"][0]["data"] == "half way"
    for action in ("pause", "unpause"):
        assert stack.call("POST", f"/runs/{first}/{action}", {})[0] == 200
        stack.deliver()
    assert stack.run(second)["status"] == "pending"
    assert stack.call("POST", f"/runs/{first}/approve", {})[0] == 200
    stack.deliver()
    assert stack.run(second)["status"] == "waiting"
    named = {"run_id": "signalled", "input": {"key": "none"}, "event": {"name": "hello", "payload": 1}}
    assert [stack.call("POST", "/workflows/asks/runs", named)[0] for _ in range(2)] == [201, 200]
    stack.deliver()


def fan_out(stack: Stack) -> None:
    """A fork of two pages, that is cancelled: one page after the other is closed. Then it goes on as another run."""
    run_id = stack.start({"items": list(range(110))}, "fans")
    stack.deliver()
    status, page = stack.call("GET", f"/runs/{run_id}/branches")
    assert (status, page["items"][0]["status"]) == (200, "waiting")
    assert stack.call("POST", f"/runs/{run_id}/approve", {"wait": page["items"][0]["id"]})[0] == 200
    stack.deliver()
    assert stack.call("POST", f"/runs/{run_id}/cancel", {})[0] == 200
    stack.deliver()
    _, page = stack.call("GET", f"/runs/{run_id}/branches?fork=0%2F0&cursor=105")
    assert [branch["status"] for branch in page["items"]] == ["cancelled"] * 5
    status, again = stack.call("POST", f"/runs/{run_id}/redrive", {})
    assert status == 201, again
    stack.deliver()
    _, page = stack.call("GET", f"/runs/{again['run_id']}/branches")
    assert [branch["status"] for branch in page["items"][:3]] == ["completed", "waiting", "waiting"]
    assert stack.call("POST", f"/runs/{again['run_id']}/cancel", {})[0] == 200
    stack.deliver()


def recall(stack: Stack) -> None:
    """A function that another pool's worker replays, and a history: outputs are read where they stand. One watches."""
    run_id = stack.start({}, "recalls")
    stack.deliver()
    run = stack.run(run_id)
    assert (run["status"], run.get("result")) == ("completed", 5_001), run
    assert stack.call("GET", f"/runs/{run_id}/history")[0] == 200
    _, found = stack.call("GET", f"/stream?run={run_id}")
    assert stack.watch("connect", "recalls", ticket=found["url"].partition("ticket=")[2]) == 200
    assert stack.watch("message", "recalls", '{"after": ""}') == 200
    assert stack.watch("disconnect", "recalls") == 200


def act_together(stack: Stack) -> None:
    """Batches: what is done to many runs, and a rate that lets a batch sleep."""
    for _ in range(2):
        stack.start({"key": "none"}, "asks")
    stack.deliver()
    for action in ("pause", "unpause", "cancel", "redrive"):
        chosen = {"workflow": "asks", **({"status": ["cancelled"]} if action == "redrive" else {})}
        status, job = stack.call("POST", "/runs:batch", {"filter": chosen, "action": action, "rate": 1})
        assert status == 202, job
        for _ in range(20):
            stack.deliver()
            stack.pass_time(10)
        assert stack.run(job["run_id"])["status"] == "completed", action
        assert stack.run(job["run_id"])["state"]["report"]["done"] >= 2, action
    chosen = {"workflow": "asks", "status": ["completed"]}
    _, job = stack.call("POST", "/runs:batch", {"filter": chosen, "action": "cancel", "dry_run": True})
    stack.deliver()
    assert stack.run(job["run_id"])["state"]["report"]["matched"] == 1


def name_versions(stack: Stack) -> None:
    """An alias is made, moved, started with, and deleted; the versions with open runs are listed."""
    for _ in range(2):
        assert stack.call("POST", "/workflows/asks/aliases", {"alias": "stable"})[0] == 200
    body = {"input": {"key": "none"}, "version": "stable"}
    assert stack.call("POST", "/workflows/asks/runs", body)[0] == 201
    assert stack.call("GET", "/workflows/asks/versions")[0] == 200
    assert stack.call("DELETE", "/workflows/asks/aliases/stable")[0] == 204
    stack.deliver()


def stop(stack: Stack) -> None:
    """A workflow that is paused, and all of them: a run that stops before its first step, and goes on."""
    for place in ("/workflows/asks", "/workflows:"):
        separator = "" if place.endswith(":") else "/"
        stack.pass_time(10)
        assert stack.call("POST", f"{place}{separator}pause", {"reason": "an incident"})[0] == 200
        run_id = stack.start({"key": "none"}, "asks")
        stack.deliver()
        assert stack.run(run_id)["status"] == "paused"
        assert stack.call("POST", f"{place}{separator}unpause")[0] == 200
        stack.deliver()
        stack.pass_time(60)
        stack.deliver()
        assert stack.run(run_id)["status"] == "waiting"


def forget(stack: Stack) -> None:
    """A run that is deleted, a purge of two more; each of their places: a fork, large values, an event, a snapshot."""
    ids = [stack.start({"items": [1, 2], "large": LARGE}, "fans") for _ in range(3)]
    stack.deliver()
    for run_id in ids:
        event = {"name": "hello", "payload": {"large": LARGE}}
        assert stack.call("POST", f"/runs/{run_id}/events", event)[0] == 202
        assert stack.call("POST", f"/runs/{run_id}/cancel", {})[0] == 200
    stack.deliver()
    status, deleted = stack.call("DELETE", f"/runs/{ids[0]}")
    assert (status, deleted.get("deleted_runs")) == (200, 1), deleted
    since = "2020-01-01T00:00:00Z"
    body = {"filter": {"workflow": "fans", "since": since, "before": "2100-01-01T00:00:00Z"}, "action": "purge"}
    _, job = stack.call("POST", "/runs:batch", body)
    for _ in range(3):
        stack.deliver()
        stack.pass_time(15 * 60)
    assert stack.run(job["run_id"])["state"]["report"]["done"] >= 2
    assert stack.call("GET", f"/runs/{ids[2]}")[0] == 404


def go_round(stack: Stack) -> None:
    """More records than one snapshot covers; what an hour without an answer does; a deadline of ten days."""
    laps, slow = stack.start({}, "laps"), stack.start({"key": "none"}, "asks")
    abandoned = stack.start({"key": "abandoned"}, "order-default")
    stack.deliver()
    for hours in (1, 240):
        stack.pass_time(hours * HOUR_SECONDS)
        for _ in range(20):
            stack.deliver()
            stack.pass_time(60)
    ends = [stack.run(run_id)["status"] for run_id in (laps, slow, abandoned)]
    assert ends == ["completed", "timed_out", "timed_out"]


def fire(stack: Stack) -> None:
    """Runs that an event and a schedule start; they have a deadline, so whoever starts them arms a timer."""
    schedule = {"name": "often", "workflow": "asked-heavy", "schedule": "rate(5 minutes)", "input": {"n": 1}}
    assert [stack.call("POST", "/schedules", schedule)[0] for _ in range(2)] == [201, 200]
    assert [stack.call("GET", path)[0] for path in ("/limits", "/limits/nowhere")] == [200, 404]
    _, page = stack.call("GET", "/schedules")
    assert [one["name"] for one in page["items"]] == ["often", "triggered:1"]
    stack.pass_time(11 * 60)
    assert stack.call("POST", "/events", {"name": "begin", "payload": {"large": LARGE}})[0] == 202
    stack.deliver()
    _, page = stack.call("GET", "/runs?workflow=triggered")
    assert [run["status"] for run in page["items"]] == ["completed"]
    _, page = stack.call("GET", "/schedules")
    assert page["items"][0]["last_run_id"] is not None
    for act in ("fire", "pause", "unpause"):
        assert stack.call("POST", f"/schedules/often/{act}", {})[0] in (200, 201)
    assert stack.call("DELETE", "/schedules/often")[0] == 204


class Died(BaseException):
    """What ends a worker at once: no handler of ours may catch it."""


def die(stack: Stack, pool: str) -> None:
    """Workers that die of a message, another that no worker has seen, and one that is nobody's."""
    run_id = stack.start({"key": "dead"}, f"order-{pool}")
    (wake,) = stack.messages(pool)["Records"]
    steps = stack.function("worker", pool).entry.parts.worker._steps
    for delivery in (DELIVERIES - 1, DELIVERIES):
        wake["attributes"]["ApproximateReceiveCount"] = str(delivery)
        with mock.patch.object(steps, "run", side_effect=Died), suppress(Died):
            stack.invoke(pool, {"Records": [wake]})
    stack.sqs.delete_message(QueueUrl=stack.urls[pool], ReceiptHandle=wake["receiptHandle"])
    unseen_id = stack.start({"key": "unseen"}, f"order-{pool}")
    (unseen,) = stack.messages(pool)["Records"]
    stack.sqs.delete_message(QueueUrl=stack.urls[pool], ReceiptHandle=unseen["receiptHandle"])
    for one in (wake, unseen):
        stack.send(f"dead-{pool}", one["body"])
    stack.send(pool, "not json")
    stack.deliver()
    assert stack.run(run_id)["error"]["type"] == "worker_lost"
    assert (stack.run(unseen_id)["error"] or {}).get("type") != "worker_lost"


def lose(stack: Stack) -> None:
    """Runs whose wake, or whose timer, was lost, and a message that failed too often; the sweeper finds them."""
    stack.start({"key": "timer"}, "asks")
    stack.deliver()
    for schedule in stack.cloud.connect("scheduler").list_schedules()["Schedules"]:
        stack.cloud.connect("scheduler").delete_schedule(Name=schedule["Name"], GroupName=schedule["GroupName"])
    for pool in POOLS:
        stack.start({"key": "wake", "large": LARGE}, f"order-{pool}")
        for record in stack.messages(pool, 10)["Records"]:
            stack.sqs.delete_message(QueueUrl=stack.urls[pool], ReceiptHandle=record["receiptHandle"])
    stack.pass_time(2 * HOUR_SECONDS)
    stack.send("dead", json.dumps({"type": "deadline", "run_id": "nobody"}))
    for name in ("a second", "a third"):
        stack.send("dead", json.dumps({"type": "deadline", "run_id": name, "v": 2}))
    _, page = stack.call("GET", "/dlq")
    letters = {one["run_id"]: one["id"] for one in page["items"]}
    letter, unwanted = letters["a second"], letters["a third"]
    assert stack.call("GET", f"/dlq/{letter}")[1]["type"] == "deadline"
    assert stack.call("POST", "/dlq:redrive", {"ids": [letter]})[1]["sent"] == [letter]
    assert stack.call("POST", "/dlq:delete", {"ids": [unwanted]})[1]["deleted"] == [unwanted]
    found = stack.sweep()
    assert (found["Overdue"], found["NoProgress"], found["Republished"]) == (1, 2, 1)
    for everything in (False, True):
        assert stack.call("POST", "/recover", {"all": everything})[0] == 200
    stack.deliver()


def watch(stack: Stack) -> None:
    """Three who watch a run: one asks for its past, one is gone when it is sent something, one goes by itself."""
    _, page = stack.call("GET", "/runs?workflow=order-default")
    run_id = page["items"][-1]["run_id"]
    for connection in ("asks", "gone", "goes"):
        _, found = stack.call("GET", f"/stream?run={run_id}")
        assert stack.watch("connect", connection, ticket=found["url"].partition("ticket=")[2]) == 200
    assert stack.watch("message", "asks", '{"after": ""}') == 200
    assert stack.watch("disconnect", "goes") == 200
    usual = stack.cloud.before
    stack.cloud.before = lambda operation, request: (
        answer(410, "{}", {"x-amzn-errortype": "GoneException"})
        if operation == "PostToConnection" and "/gone" in request.url
        else usual(operation, request)
    )
    stack.tell([one for one in stack.written() if run_id in one["dynamodb"]["Keys"]["pk"]["S"]])
    stack.cloud.before = usual


def tell(stack: Stack) -> None:
    """All that the stream holds; a snapshot in parts that S3 does not take at first; a run whose time is over."""
    stack.tell(stack.written())
    ended = next(one for one in stack.written() if _is_end_of_order(one))
    files = stack.function("stream").stream._snapshots._files
    files._part_bytes = 5 << 10
    usual = stack.cloud.before
    stack.cloud.before = lambda operation, request: (
        answer(500, "") if operation == "CompleteMultipartUpload" else usual(operation, request)
    )
    event = {"Records": [json.loads(json.dumps(ended))]}
    assert stack.function("stream").handler(event, _minute(stack))["batchItemFailures"]
    stack.cloud.before = usual
    stack.tell([ended])
    before = len(stack.written())
    stack.cloud.connect("dynamodb").delete_item(TableName=stack.table, Key=ended["dynamodb"]["Keys"])
    (removed,) = stack.written()[before:]
    run_id = removed["dynamodb"]["Keys"]["pk"]["S"].removeprefix("RUN#")
    reference = reference_of(b"large", of_run(run_id))
    place = {"Bucket": stack.bucket, "Key": f"blobs/{place_of(reference)}"}
    stack.cloud.connect("s3").put_object(**place, Body=b"large")
    removed["dynamodb"]["OldImage"]["input_blob"] = {"S": reference}
    service = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
    stack.tell([{**removed, "userIdentity": service}])
    assert stack.written()[before + 1 :], "what the run left is erased"
    mine = {"Bucket": stack.bucket, "Prefix": f"blobs/{of_run(run_id)}/"}
    assert not stack.cloud.connect("s3").list_objects_v2(**mine).get("Contents")


def write(stack: Stack) -> None:
    """Notifications, which the stream queued. None can be signed, so each is put off, until its last try."""
    stack.deliver("notifications")
    stack.pass_time(10)
    (message,) = stack.messages("notifications")["Records"]
    notification = {**json.loads(message["body"]), "tries": 10, "at_ms": 0}
    stack.send("notifications", json.dumps(notification))
    stack.deliver("notifications")
    assert stack.messages("dead-notifications")["Records"]


def _is_end_of_order(record: Any) -> bool:
    new = record["dynamodb"].get("NewImage", {})
    return "status" in new and (new["workflow"]["S"], new["status"]["S"]) == ("order-default", "completed")


def _minute(stack: Stack) -> Invocation:
    return Invocation(stack.clock, 60)


def expire_forked(stack: Stack) -> None:
    """The time of a run with a fork is over: the stream erases its branches and their join."""
    run_id = stack.start({"items": [1, 2]}, "fans")
    stack.deliver()
    assert stack.call("POST", f"/runs/{run_id}/cancel", {})[0] == 200
    stack.deliver()
    before = len(stack.written())
    stack.cloud.connect("dynamodb").delete_item(TableName=stack.table, Key=header_key(run_id))
    (removed,) = stack.written()[before:]
    service = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
    stack.tell([{**removed, "userIdentity": service}])


def hook_deleted(stack: Stack) -> None:
    """A delivery that comes again, whose run was deleted a moment ago; its input is an item of its own."""
    body = {"large": "m" * 2_000}
    assert stack.hook("form-default", body) == 202
    stack.deliver()
    _, page = stack.call("GET", "/runs?workflow=asked-default")
    assert stack.call("DELETE", f"/runs/{page['items'][0]['run_id']}")[0] == 200
    assert stack.hook("form-default", body) < 500
