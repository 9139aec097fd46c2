"""The live feed on AWS: who may watch, what watchers are sent, and that a run nobody watches pays nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from ministack.services import dynamodb, eventbridge

from stepwell.aws.changes import change_of
from stepwell.aws.live import CONNECTED_MS
from stepwell.limits import LIVE_TICKET_MS
from stepwell.runtime.loop.driving import run_now
from tests.contract.emulated import answer
from tests.contract.live_kit import AFTER, BEFORE, FLOW, STEPS, page, seen
from tests.functions.conftest import Deploy
from tests.functions.kit import Deployment, Invocation, event_of

_NUMBERS = count(1)
GONE = ClientError({"Error": {"Code": "GoneException", "Message": "gone"}}, "PostToConnection")


class Gateway:
    """API Gateway's end of the connections: what was posted to each."""

    def __init__(self) -> None:
        self.posted: dict[str, list[str]] = {}
        self.broken: dict[str, Exception] = {}

    def close(self) -> None:
        """It has no connections of its own."""

    def post_to_connection(self, **request: Any) -> dict[str, Any]:
        connection = request["ConnectionId"]
        if connection in self.broken:
            raise self.broken[connection]
        self.posted.setdefault(connection, []).append(request["Data"].decode())
        return {}


class Watched:
    """A stack with a live feed, and its watchers."""

    def __init__(self, stack: Deployment, connections: str) -> None:
        self.stack, self.gateway, self._connections, self._taken = stack, Gateway(), connections, 0
        stack.cloud.clients._made["apigatewaymanagementapi"] = self.gateway
        self.table = stack.function("api").entry.deployment.table

    def ticket(self, query: str = "") -> str:
        event = event_of("http")
        event["requestContext"]["http"].update(method="GET", path="/stream")
        event.update(rawPath="/stream", rawQueryString=query, body=None)
        found = self.stack.function("api").handler(event, Invocation(self.stack.clock))
        assert found["statusCode"] == 200, found
        url = urlsplit(json.loads(found["body"])["url"])
        assert f"{url.scheme}://{url.netloc}{url.path}" == "wss://live.example.com/live"
        return parse_qs(str(url.query))["ticket"][0]

    def send(self, kind: str, connection: str, body: str | None = None, **query: str) -> int:
        """An event of the WebSocket API. Returns the status of the answer."""
        event = event_of(f"websocket_{kind}")
        event["requestContext"]["connectionId"] = connection
        if kind == "connect":
            event["queryStringParameters"] = query or None
        if body is not None:
            event["body"] = body
        return int(self.stack.function("live").handler(event, Invocation(self.stack.clock))["statusCode"])

    def open(self, connection: str, query: str = "") -> str:
        assert self.send("connect", connection, ticket=self.ticket(query)) == 200
        return connection

    def flow(self) -> None:
        """Hands the stream function what was committed since the last time, which is a second ago."""
        self.stack.function("stream").stream._feed._looked_at = float("-inf")
        records = list(dynamodb.stream_live_records(self.table))[self._taken :]
        self._taken += len(records)
        handler = self.stack.function("stream").handler
        found = handler({"Records": json.loads(json.dumps(records))}, Invocation(self.stack.clock, 60))
        assert found == {"batchItemFailures": []}

    def connections(self) -> list[str]:
        found = self.stack.cloud.connect("dynamodb").scan(TableName=self._connections)["Items"]
        return [item["sk"]["S"] for item in found]


@pytest.fixture
def watched(deployed: Deploy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    stack, number = deployed(FLOW, STEPS), next(_NUMBERS)
    table, bus = f"connections-{number}", f"live-{number}"
    for name, value in {
        "STEPWELL_BUS": bus,
        "STEPWELL_LIVE_TABLE": table,
        "STEPWELL_LIVE_CALLBACK": "https://live.example.com/live",
        "STEPWELL_LIVE_URL": "wss://live.example.com/live",
        "STEPWELL_URL": "https://api.example.com",
        "STEPWELL_LINK_SECRET": "the-link-key",
    }.items():
        monkeypatch.setenv(name, value)
    key = json.dumps({"SecretString": "k" * 48})
    stack.cloud.connect("secretsmanager")
    stack.cloud.before = lambda operation, _: answer(200, key) if operation == "GetSecretValue" else None
    stack.cloud.connect("events").create_event_bus(Name=bus)
    client = stack.cloud.connect("dynamodb")
    client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    )
    view = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    client.update_table(TableName=stack.function("stream").entry.deployment.table, StreamSpecification=view)
    yield Watched(stack, table)
    eventbridge.reset()


def waiting(watched: Watched) -> str:
    run_id = watched.stack.start({})
    watched.stack.deliver()
    return run_id


def approve(watched: Watched, run_id: str) -> None:
    assert watched.stack.call("POST", f"/runs/{run_id}/approve", {})[0] == 200
    watched.stack.deliver()
    watched.flow()


def test_a_watcher_gets_what_came_before_and_then_what_is_committed(watched: Watched) -> None:
    """From the cursor on, each entry once; what came before it connected is in the answer to its message."""
    run_id = waiting(watched)
    watched.flow()
    watcher = watched.open("a", f"run={run_id}")
    assert watched.gateway.posted == {}
    assert watched.send("message", watcher, '{"after": ""}') == 200
    (past,) = watched.gateway.posted[watcher]
    assert seen([past]) == BEFORE
    approve(watched, run_id)
    assert seen(watched.gateway.posted[watcher]) == [*BEFORE, *AFTER]


def test_a_watcher_that_comes_back_goes_on_from_its_cursor(watched: Watched) -> None:
    """It missed what was committed while it was away; what it knows does not come again."""
    run_id = waiting(watched)
    watched.send("message", watched.open("a", f"run={run_id}"), '{"after": ""}')
    cursor, more = page(watched.gateway.posted["a"][0])
    assert not more
    assert watched.send("disconnect", "a") == 200
    approve(watched, run_id)
    assert len(watched.gateway.posted["a"]) == 1
    watched.send("message", watched.open("b", f"run={run_id}"), json.dumps({"after": cursor}))
    assert seen(watched.gateway.posted["b"]) == AFTER


def test_who_watches_a_workflow_or_all_runs_gets_their_entries_from_now_on(watched: Watched) -> None:
    other, own, all_ = watched.open("other", "workflow=none"), watched.open("own", "workflow=flow"), watched.open("all")
    assert watched.send("message", own, '{"after": ""}') == 200
    assert page(watched.gateway.posted.pop(own)[0]) == ("", False)
    approve(watched, waiting(watched))
    assert other not in watched.gateway.posted
    assert seen(watched.gateway.posted[own]) == seen(watched.gateway.posted[all_]) == [*BEFORE, *AFTER]


def test_nobody_watches_without_a_ticket_of_this_api_that_is_in_time(watched: Watched) -> None:
    """Whoever may call the API is given one; it is good for a minute, and the WebSocket does not open otherwise."""
    ticket = watched.ticket()
    assert watched.send("connect", "a") == 403
    assert watched.send("connect", "a", ticket=ticket[:-2] + "AA") == 403
    assert watched.send("message", "a", "{}") == 403
    watched.stack.clock.advance(LIVE_TICKET_MS)
    assert watched.send("connect", "a", ticket=ticket) == 403
    assert watched.connections() == []
    status, problem = watched.stack.call("GET", "/stream", None)
    assert (status, set(problem)) == (200, {"url", "expires_at"})


def test_a_watcher_whose_end_nobody_was_told_of_takes_no_place(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API Gateway tries once to tell of it, and DynamoDB deletes what has expired days later."""
    monkeypatch.setattr("stepwell.aws.watching.LIVE_WATCHERS", 2)
    watched.open("first")
    watched.open("second")
    assert watched.send("connect", "third", ticket=watched.ticket()) == 503
    watched.stack.clock.advance(CONNECTED_MS + 1_000)
    assert watched.send("connect", "third", ticket=watched.ticket()) == 200
    assert watched.connections() == ["first", "second", "third"]


def test_a_message_that_is_no_cursor_is_refused_and_changes_nothing(watched: Watched) -> None:
    watcher = watched.open("a", f"run={waiting(watched)}")
    for text in ("", "[]", '{"after": 7}', '{"after": "0@x"}', '{"after": "' + "9" * 2_000 + '"}'):
        assert watched.send("message", watcher, text) == 400
    errors = [json.loads(frame)["error"] for frame in watched.gateway.posted["a"]]
    assert [one["code"] for one in errors] == [*["bad_message"] * 3, "bad_cursor", "bad_message"]
    assert all(one["message"] for one in errors)
    assert watched.connections() == ["a"]


def test_who_watches_a_run_that_is_no_more_is_told_so(watched: Watched) -> None:
    run_id = waiting(watched)
    watcher = watched.open("a", f"run={run_id}")
    approve(watched, run_id)
    run_now(watched.stack.function("api").entry.parts.eraser.delete(run_id))
    assert watched.send("message", watcher, '{"after": ""}') == 400
    assert json.loads(watched.gateway.posted["a"][-1])["error"]["code"] == "unknown_run"


def test_a_run_that_nobody_watches_costs_the_feed_no_write_and_at_most_one_read_a_second(watched: Watched) -> None:
    """However many batches the stream function takes meanwhile."""
    run_id = waiting(watched)
    watched.flow()
    approve(watched, run_id)
    watched.stack.cloud.calls.clear()
    feed = watched.stack.function("stream").stream._feed
    feed._seconds = lambda: 1e9
    feed.tell(feed_of(watched))
    feed.tell(feed_of(watched))
    assert watched.stack.cloud.calls == ["Query"]
    assert watched.gateway.posted == {}
    feed.tell([])
    assert watched.stack.cloud.calls == ["Query"]


def feed_of(watched: Watched) -> list[Any]:
    """What a batch tells."""
    records = list(dynamodb.stream_live_records(watched.table))
    stream = watched.stack.function("stream").stream
    return [one for record in records for one in run_now(stream._notices(change_of(record)))]


def test_a_watcher_that_is_gone_is_forgotten_and_one_that_does_not_answer_keeps_nobody_waiting(
    watched: Watched,
) -> None:
    """The batch is done either way: no run, webhook or event waits for a watcher."""
    gone, silent, well = watched.open("gone"), watched.open("silent"), watched.open("well")
    watched.gateway.broken = {gone: GONE, silent: EndpointConnectionError(endpoint_url="https://live.example.com")}
    approve(watched, waiting(watched))
    assert seen(watched.gateway.posted[well]) == [*BEFORE, *AFTER]
    assert sorted(watched.connections()) == ["silent", "well"]


def test_watchers_that_take_long_get_no_more_of_a_batch_and_nothing_waits(watched: Watched) -> None:
    """They read what they missed when they send their cursor."""
    watcher = watched.open("a")
    feed = watched.stack.function("stream").stream._feed
    times = iter([0.0, 10.0, 10.0, 10.0])
    feed._seconds = lambda: next(times, 10.0)
    run_id = watched.stack.start({})
    watched.flow()
    assert watched.gateway.posted == {}
    assert watched.stack.run(run_id)["status"] == "pending"
    assert watched.send("message", watcher, "{}") == 200
