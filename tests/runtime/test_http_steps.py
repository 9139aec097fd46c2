"""HTTP steps against real sockets: what is sent, what comes of the answer, and what is never sent."""

from __future__ import annotations

import itertools
import json
import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from stepwell.definition.targets import parse_hosts, parse_url
from stepwell.engine.actions import Outcome
from stepwell.engine.records import Failure
from stepwell.runtime.steps.http_call import Deadline, Network, Sending, send
from stepwell.runtime.steps.http_step import HttpSteps
from stepwell.runtime.steps.threads import AttemptTimeoutError
from tests.runtime.http_kit import HOST, PUBLIC, Server, World, as_json, attempt, certificate, http_steps, reply

SECRET = "sk_live_a/b+c=4242"  # noqa: S105
Tls = tuple[ssl.SSLContext, ssl.SSLContext]
JSON = "application/json"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return certificate(tmp_path_factory.mktemp("tls"))


def failed(outcome: Outcome) -> Failure:
    assert outcome.failure is not None, outcome
    return outcome.failure


def asked(tls: Tls, answered: Any, *args: Any, **more: Any) -> tuple[Outcome, bytes]:
    """One attempt against a server with this answer: its outcome and the request."""
    with Server(answered, tls=tls[0]) as server:
        world = World(server, tls[1])
        outcome = attempt(http_steps(world.network, KEY=SECRET), *args, **more)
    return outcome, b"".join(server.asked)


# -- what is sent


def test_a_post_sends_its_input_as_json_and_the_steps_idempotency_key(tls: Tls) -> None:
    outcome, request = asked(tls, as_json('{"id": 7}', "201 Created"), "POST", "/refunds/7", given={"amount": 3})
    assert outcome.value == {"status": 201, "headers": {"content-type": JSON}, "body": {"id": 7}}
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /refunds/7 HTTP/1.1"
    assert {"Host: api.example.com", "Idempotency-Key: r1:0:4", "Content-Type: application/json",
            "Content-Length: 13", "Connection: close", "Accept-Encoding: identity"} <= set(lines)  # fmt: skip
    assert json.loads(body) == {"amount": 3}


def test_a_get_sends_its_input_as_the_query_and_a_form_is_one(tls: Tls) -> None:
    given = {"q": "a b&c", "tag": ["x", "y"], "none": None, "n": 5, "yes": True}
    _, request = asked(tls, reply(), path="/find?v=1", given=given)
    assert request.startswith(b"GET /find?v=1&q=a+b%26c&tag=x&tag=y&n=5&yes=true HTTP/1.1\r\n")
    _, request = asked(tls, reply(), "POST", given=given, body="form")
    assert request.endswith(b"\r\n\r\nq=a+b%26c&tag=x&tag=y&n=5&yes=true")


def test_headers_are_those_of_the_step_and_replace_ours(tls: Tls) -> None:
    headers = {"authorization": {"secret": ["env:NONE", "env:KEY"], "prefix": "Bearer "}, "idempotency-key": "own",
               "x-n": 5, "x-yes": True}  # fmt: skip
    _, request = asked(tls, reply(), headers=headers)
    lines = request.decode().split("\r\n")
    assert {f"authorization: Bearer {SECRET}", "idempotency-key: own", "x-n: 5", "x-yes: true"} <= set(lines)
    assert "r1:0:4" not in request.decode()


@pytest.mark.parametrize(
    ("method", "given", "body"),
    [("GET", [1], "json"), ("GET", {"a": {"b": 1}}, "json"), ("POST", "text", "form"), ("POST", {"a": [[1]]}, "form")],
)
def test_an_input_that_is_no_query_or_form_is_a_validation_error(tls: Tls, method: str, given: Any, body: str) -> None:
    outcome, request = asked(tls, reply(), method, given=given, body=body)
    assert (failed(outcome).type, failed(outcome).category, request) == ("step_input", "validation", b"")


# -- what comes back


@pytest.mark.parametrize(
    ("answered", "body"),
    [
        (reply("204 No Content"), None),
        (reply(body="plain"), "plain"),
        (reply(body="é".encode("latin-1"), content_type="text/plain; charset=ISO-8859-1"), "é"),
        (reply(body='{"a": [1, null]}', content_type="application/problem+json; charset=utf-8"), {"a": [1, None]}),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "abcde"),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", "until the end"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + reply(body="x"), "x"),
    ],
)
def test_a_body_is_json_where_it_says_so_and_else_text(tls: Tls, answered: bytes, body: Any) -> None:
    outcome, _ = asked(tls, answered)
    assert outcome.value["body"] == body


def test_only_a_few_headers_are_kept(tls: Tls) -> None:
    outcome, _ = asked(tls, reply(ETag='"v1"', Set_Cookie="session=1", X_Request_Id="q7"))
    assert outcome.value["headers"] == {"etag": '"v1"', "x-request-id": "q7"}


@pytest.mark.parametrize(
    ("status", "category"),
    [
        ("400 Bad Request", "step"),
        ("404 Not Found", "step"),
        ("429 Too Many Requests", "external"),
        ("500 Internal Server Error", "external"),
        ("503 Service Unavailable", "external"),
        ("599 Odd", "external"),
        ("307 Temporary Redirect", "step"),
    ],
)
def test_another_status_is_an_error_by_its_number(tls: Tls, status: str, category: str) -> None:
    outcome, _ = asked(tls, as_json('{"why": "no"}', status), "POST", "/x?token=1")
    failure, code = failed(outcome), int(status[:3])
    assert (failure.type, failure.category) == (f"http_{code}", category)
    assert (failure.data["status"], failure.data["body"]) == (code, {"why": "no"})
    assert failure.message.startswith(f"POST https://{HOST} answered {code}")


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        ("429 Slow Down", {"Retry_After": "7"}, 7),
        ("503 X", {"Retry_After": "Wed, 21 Oct 2015 07:28:30 GMT", "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 30),
        ("503 X", {"Retry_After": "Wed, 21 Oct 2015 07:28:00 GMT"}, None),
        ("503 X", {"Retry_After": "-1"}, None),
        ("503 X", {}, None),
        ("500 X", {"Retry_After": "7"}, None),
    ],
)
def test_an_answer_that_asks_for_time_says_how_many_seconds(
    tls: Tls, status: str, headers: dict[str, str], seconds: float | None
) -> None:
    outcome, _ = asked(tls, reply(status, **headers))
    assert failed(outcome).data.get("retry_after") == seconds


def test_what_an_error_keeps_of_a_body_is_bounded(tls: Tls) -> None:
    outcome, _ = asked(tls, reply("500 Oops", "x" * 900_000))
    assert len(failed(outcome).data["body"]) == 2_000


def _many(part: bytes) -> Callable[[bytes], Iterator[bytes]]:
    """A body without an end, in chunks."""

    def send(_: bytes) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        yield from itertools.repeat(b"%x\r\n%s\r\n" % (len(part), part))

    return send


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    ("answered", "kind", "category"),
    [
        (b"", "http_connection", "transient"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "http_connection", "transient"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "http_connection", "transient"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "bad_answer", "external"),
        (b"HTTP/1.1 abc OK\r\n\r\n", "bad_answer", "external"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n", "bad_answer", "external"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", "bad_answer", "external"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "http_connection", "transient"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000001\r\n\r\n", "answer_too_large", "step"),
        (_many(b"x" * 60_000), "answer_too_large", "step"),
        (reply(body=b"\xff\xfe\x00"), "bad_answer", "step"),
        (reply(body="x", content_type="text/plain; charset=klingon"), "bad_answer", "step"),
        (reply(body=b"\x1f\x8b\x08", content_encoding="gzip"), "bad_answer", "step"),
        (as_json("{"), "bad_answer", "step"),
        (as_json("NaN"), "bad_answer", "step"),
        (as_json(DEEP), "bad_answer", "step"),
        (as_json("[" * 100 + "]" * 100), "bad_output", "step"),
        (as_json("1e999"), "bad_output", "step"),
    ],
)
def test_an_answer_that_cannot_be_used_is_an_error(tls: Tls, answered: Any, kind: str, category: str) -> None:
    failure = failed(asked(tls, answered)[0])
    assert (failure.type, failure.category) == (kind, category)


# -- time


def test_an_answer_that_does_not_come_in_time_is_a_timeout(tls: Tls) -> None:
    over = threading.Event()
    with Server(lambda _: [b""] * over.wait(9), tls=tls[0]) as server:
        failure = failed(attempt(http_steps(World(server, tls[1]).network), timeout_ms=2_000))
        over.set()
    assert (failure.type, failure.category) == ("step_timeout", "timeout")


def test_a_body_that_comes_byte_by_byte_is_not_waited_for_longer_than_the_step_may_take(tls: Tls) -> None:
    clock = itertools.count(0, 0.5)  # each look at it is half a second later
    with Server(_many(b"x"), tls=tls[0]) as server:
        failure = failed(attempt(http_steps(World(server, tls[1]).network, clock=lambda: next(clock))))
    assert (failure.type, failure.category) == ("step_timeout", "timeout")


def test_headers_that_come_byte_by_byte_are_not_waited_for_longer_than_the_call_may_take(tls: Tls) -> None:
    """A socket's own time limit begins anew with each byte, and an endpoint of webhooks has no step around it."""
    over = threading.Event()

    def drip(_: bytes) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nX-Slow: "
        for _number in range(60):
            yield b"x"
            if over.wait(0.25):
                return
        yield b"\r\nContent-Length: 0\r\n\r\n"

    with Server(drip, tls=tls[0]) as server:
        network, deadline = World(server, tls[1]).network, Deadline(time.monotonic, 2)
        with pytest.raises(AttemptTimeoutError):
            send(Sending("GET", parse_url(f"https://{HOST}/"), {}, None, wants_body=False), network, deadline)
        over.set()


# -- where nothing is sent

REFUSED = [
    "127.0.0.1", "127.255.0.1", "0.0.0.0", "10.0.0.1", "172.16.0.1",  # noqa: S104 - none of them is bound to
    "192.168.1.1", "100.64.0.1", "169.254.169.254", "169.254.170.2", "192.0.0.1", "192.0.2.1", "192.88.99.1",
    "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1",
    "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1",
    "ff02::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:169.254.169.254", "::7f00:1", "::ffff:0:7f00:1",
    "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808", "2002:7f00:1::", "2002:a9fe:a9fe::",
    "2001::1", "2001:db8::1", "100::1", "2852039166", "0xa9fea9fe", "nonsense", "",
]  # fmt: skip


@pytest.mark.parametrize("address", REFUSED)
def test_a_name_that_leads_to_an_address_that_is_not_public_is_not_called(tls: Tls, address: str) -> None:
    with Server(reply(), tls=tls[0]) as server:
        for found in ([address], [PUBLIC, address]):  # one bad address is enough
            world = World(server, tls[1], found)
            failure = failed(attempt(http_steps(world.network)))
            assert (failure.type, failure.category, world.dialled) == ("http_address", "step", [])
    assert server.asked == []


@pytest.mark.parametrize("address", [PUBLIC, "8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"])
def test_a_public_address_is_called(tls: Tls, address: str) -> None:
    with Server(reply(), tls=tls[0]) as server:
        world = World(server, tls[1], [address])
        assert attempt(http_steps(world.network)).value["status"] == 200
    assert world.dialled == [(address, 443)]


def test_a_name_is_looked_up_once_so_that_it_cannot_change_its_answer(tls: Tls) -> None:
    with Server(reply(), tls=tls[0]) as server:
        world = World(server, tls[1], [PUBLIC], ["127.0.0.1"])
        assert attempt(http_steps(world.network)).value["status"] == 200
    assert (world.looked_up, world.dialled) == ([HOST], [(PUBLIC, 443)])


@pytest.mark.parametrize("location", ["http://169.254.169.254/latest/meta-data/", f"https://{HOST}/elsewhere", "/x"])
def test_a_redirect_is_not_followed(tls: Tls, location: str) -> None:
    with Server(reply("302 Found", Location=location), tls=tls[0]) as server:
        world = World(server, tls[1])
        failure = failed(attempt(http_steps(world.network)))
    assert (failure.type, failure.category, failure.data["headers"]["location"]) == ("http_302", "step", location)
    assert (len(server.asked), len(world.dialled)) == (1, 1)


@pytest.mark.parametrize(
    ("hosts", "url"),
    [
        ("", f"https://{HOST}/"),
        (HOST, "https://api.example.com.evil.test/"),
        (HOST, "https://evil.test/"),
        (HOST, f"https://{HOST}:8443/"),
        ("*", f"https://{HOST}:8443/"),
        ("*", "https://localhost/"),
        ("*", "http://127.0.0.1:9001/2018-06-01/runtime/invocation/next"),
    ],
)
def test_a_host_that_is_not_on_the_list_is_not_even_looked_up(tls: Tls, hosts: str, url: str) -> None:
    with Server(reply(), tls=tls[0]) as server:
        world = World(server, tls[1])
        failure = failed(attempt(http_steps(world.network, hosts), url=url))
    assert (failure.type, failure.category, world.looked_up, world.dialled) == ("http_host", "step", [], [])


@pytest.mark.parametrize(
    ("hosts", "url", "told"),
    [
        (
            "",
            "https://evil.test/",
            "nothing was sent to https://evil.test: it is not among the hosts that may be called (none: the list is "
            'empty); add "evil.test" to http_hosts of the stack; for stepwell dev, set '
            'STEPWELL_HTTP_HOSTS="*,evil.test"',
        ),
        (f"{HOST},*.shop.test:8443", "https://evil.test/", f"may be called ({HOST}, *.shop.test:8443); add"),
        ("*", f"https://{HOST}:8443/", f'any public host by https at port 443); add "{HOST}:8443" to http_hosts'),
        ("*", "http://localhost:9001/", '443); for stepwell dev, set STEPWELL_HTTP_HOSTS="*,http://localhost:9001"'),
    ],
)
def test_a_refused_host_is_told_with_those_that_may_be_called_and_what_to_add(hosts: str, url: str, told: str) -> None:
    hosts_of = parse_hosts(hosts.split(","))
    assert told in hosts_of.refusal(parse_url(url))
    assert told in failed(attempt(HttpSteps(hosts_of), url=url)).message


def test_a_host_of_this_machine_is_called_in_place_of_the_one_that_the_definition_names() -> None:
    with Server(as_json('{"paid": true}')) as server:
        hosts = parse_hosts([f"{HOST}=http://localhost:{server.port}"])
        outcome = attempt(HttpSteps(hosts), path="/orders?id=1")
    assert outcome.value["body"] == {"paid": True}
    assert server.asked[0].startswith(b"GET /orders?id=1 HTTP/1.1\r\n")


@pytest.mark.parametrize("url", [f"https://{HOST}@evil.test/", "https://169.254.169.254/", f"http://{HOST}/",
                                 f"https://{HOST}/a b", f"https://{HOST}/\r\nX: y", "gopher://x/"])  # fmt: skip
def test_a_url_is_read_as_strictly_again_when_it_is_called(tls: Tls, url: str) -> None:
    with Server(reply(), tls=tls[0]) as server:
        world = World(server, tls[1])
        failure = failed(attempt(http_steps(world.network, f"{HOST},*"), url=url))
    assert (failure.type, failure.category, world.looked_up) == ("bad_url", "validation", [])


def test_a_name_of_this_machine_may_lead_to_this_machine_alone() -> None:
    with Server(reply()) as server:
        entry = f"http://localhost:{server.port}"
        for addresses, kind in ((["10.0.0.1"], "http_address"), ([PUBLIC], "http_address")):
            world = World(server, ssl.create_default_context(), addresses)
            assert failed(attempt(http_steps(world.network, entry), url=f"{entry}/")).type == kind
        world = World(server, ssl.create_default_context(), ["::1", "127.0.0.1"])
        assert attempt(http_steps(world.network, entry), url=f"{entry}/").value["status"] == 200
    assert f"Host: localhost:{server.port}".encode() in server.asked[0]


def test_a_server_that_cannot_prove_the_name_gets_no_request(tls: Tls, tmp_path: Any) -> None:
    others = certificate(tmp_path, "other.example.com")
    for server_tls, trust in ((others[0], others[1]), (tls[0], ssl.create_default_context())):
        with Server(reply(), tls=server_tls) as server:
            failure = failed(attempt(http_steps(World(server, trust).network)))
        assert (failure.type, failure.category, server.asked) == ("http_certificate", "external", [])


def _unknown(host: str, port: int) -> Sequence[str]:
    raise OSError(-2, "Name or service not known")


def _refusing(address: str, port: int, timeout_seconds: float) -> Any:
    raise ConnectionRefusedError(111, "Connection refused")


def _silent(address: str, port: int, timeout_seconds: float) -> Any:
    raise TimeoutError("timed out")


@pytest.mark.parametrize(
    ("resolve", "dial"),
    [
        (_unknown, _refusing),
        (lambda *_: [], _refusing),
        (lambda *_: [PUBLIC], _refusing),
        (lambda *_: [PUBLIC], _silent),
    ],
)
def test_a_host_that_cannot_be_reached_is_transient(tls: Tls, resolve: Any, dial: Any) -> None:
    failure = failed(attempt(http_steps(Network(resolve, dial, lambda: tls[1]))))
    assert (failure.type, failure.category) == ("http_connection", "transient")


# -- secrets and headers


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\x00b", "é", "x" * 8_001])
def test_a_value_that_would_break_the_header_is_not_sent_nor_shown(
    tls: Tls, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Server(reply(), tls=tls[0]) as server:
        http = http_steps(World(server, tls[1]).network, KEY=f"{value}!")
        for header in (value, {"secret": "env:KEY"}):
            failure = failed(attempt(http, headers={"x-a": header}))
            assert (failure.type, failure.category) == ("bad_header", "validation")
            assert value not in failure.message + caplog.text
    assert server.asked == []


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request"])
def test_a_secret_that_is_sent_back_is_masked(tls: Tls, status: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    body = json.dumps({"you sent": f"Bearer {SECRET}", SECRET: [SECRET]}).replace("/", "\\/")
    echo = reply(status, body, content_type=JSON, X_Request_Id=SECRET)
    outcome, request = asked(tls, echo, headers={"authorization": {"secret": "env:KEY", "prefix": "Bearer "}})
    assert f"authorization: Bearer {SECRET}".encode() in request
    came = outcome.value or failed(outcome).data
    assert came["body"] == {"you sent": "Bearer [secret]", "[secret]": ["[secret]"]}
    assert came["headers"]["x-request-id"] == "[secret]"
    assert SECRET not in repr(outcome) + caplog.text


def test_a_secret_that_is_not_there_stops_the_request(tls: Tls) -> None:
    outcome, request = asked(tls, reply(), headers={"authorization": {"secret": ["ssm:/shop", "env:GONE"]}})
    failure = failed(outcome)
    assert (failure.type, failure.category, request) == ("secret_missing", "step", b"")
    assert "ssm:/shop" in failure.message
    assert "GONE" in failure.message


def test_a_worker_that_was_given_no_hosts_calls_none() -> None:
    assert failed(attempt(None)).type == "http_host"
