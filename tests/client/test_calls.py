"""What a client sends, when it sends it again, and what it makes of the answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from stepwell.client import (
    AccessProblem,
    ApiProblem,
    AsyncClient,
    BusyProblem,
    Client,
    ConflictProblem,
    InputProblem,
    NotFoundProblem,
    RunFailed,
    ServerProblem,
    Unreachable,
    UpdateFailed,
    exchange,
    flows,
)
from stepwell.client.requests import Request
from stepwell.errors import InvalidInput, UserError

URL = "https://api.example.com"
RUN = {"run_id": "r1", "status": "running"}
Answer = httpx.Response | Exception


class Api(httpx.MockTransport):
    """Gives these answers, one after the other, to a client of either kind."""

    def __init__(self, *answers: Answer) -> None:
        self.requests: list[httpx.Request] = []
        self._answers = iter(answers)
        super().__init__(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


def answer(status: int, body: Any = None, **headers: str) -> httpx.Response:
    return httpx.Response(status, json=body, headers={name.replace("_", "-"): value for name, value in headers.items()})


def refusal(status: int, code: str = "some_code", **more: Any) -> httpx.Response:
    return answer(status, {"code": code, "title": "T", "detail": "what is wrong", "hint": "what to do", **more})


Both = Callable[[Api, Callable[[Any], Any]], Any]


@pytest.fixture(params=["sync", "async"])
def on(request: pytest.FixtureRequest, pauses: list[float]) -> Both:
    """Does the same with a Client, or with an AsyncClient whose coroutine is run."""

    def blocking(api: Api, act: Callable[[Any], Any]) -> Any:
        with Client(URL, transport=api) as client:
            return act(client)

    def awaiting(api: Api, act: Callable[[Any], Any]) -> Any:
        async def main() -> Any:
            async with AsyncClient(URL, transport=api) as client:
                return await act(client)

        return asyncio.run(main())

    return blocking if request.param == "sync" else awaiting


@pytest.mark.filterwarnings("error")
def test_a_function_for_a_token_that_gives_no_text_is_refused() -> None:
    """Such as an async one, which nobody awaits."""

    async def renewed() -> str:
        return "t"

    for given, kind in ((renewed, "coroutine"), (lambda: None, "NoneType")):
        api = Api()
        wrong: Any = given  # what a caller may get wrong
        with Client(URL, token=wrong, transport=api) as client, pytest.raises(UserError) as refused:
            client.stats()
        assert str(refused.value).startswith(f"the function of token= gave a {kind}, not text")
        assert api.requests == []


def test_a_time_is_sent_as_its_text(on: Both) -> None:
    """One without a time zone has no offset, which the API refuses."""
    when, api = datetime(2027, 1, 1, 9, tzinfo=UTC), Api(answer(201, RUN), answer(201, RUN), answer(200, {}))
    on(api, lambda client: client.start("order", {}, start_at=when))
    on(api, lambda client: client.start("order", {}, start_at="2027-01-01T09:00:00Z"))
    on(api, lambda client: client.failures(since=when).page())
    sent = [json.loads(request.content)["start_at"] for request in api.requests[:2]]
    assert sent == ["2027-01-01T09:00:00+00:00", "2027-01-01T09:00:00Z"]
    assert api.requests[2].url.params["since"] == "2027-01-01T09:00:00+00:00"


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses before calls are sent again; they take no time."""
    found: list[float] = []
    original = exchange._pause_seconds

    def counted(*given: Any) -> float:
        found.append(original(*given))
        return 0

    monkeypatch.setattr(exchange, "_pause_seconds", counted)
    return found


def start(client: Any) -> Any:
    return client.start("order", {"amount": 5})


@pytest.mark.parametrize("first", [answer(500), answer(502), answer(503), answer(429), httpx.ReadTimeout("lost"),
                                   httpx.ConnectError("refused"), httpx.RemoteProtocolError("cut")])  # fmt: skip
def test_a_start_whose_answer_is_lost_is_sent_again_with_the_same_key(on: Both, first: Answer) -> None:
    """The API starts one run for one key, so that the second call cannot start another."""
    api = Api(first, answer(201, RUN))
    assert on(api, start).id == "r1"
    keys = [request.headers["idempotency-key"] for request in api.requests]
    assert len(keys) == 2
    assert keys[0] == keys[1]
    assert json.loads(api.requests[1].content) == {"input": {"amount": 5}}


def test_a_closed_client_says_so() -> None:
    api = Api()
    with Client(URL, transport=api) as client:
        pass
    with pytest.raises(UserError) as raised:
        client.stats()

    async def main() -> None:
        async with AsyncClient(URL, transport=api) as closed:
            pass
        with pytest.raises(UserError) as raised:
            await closed.stats()
        assert raised.value.code == "client_closed"

    asyncio.run(main())
    assert (raised.value.code, api.requests) == ("client_closed", [])


def test_two_starts_have_two_keys_and_one_with_an_id_has_none(on: Both) -> None:
    first, second, named = (Api(answer(201, RUN)) for _ in range(3))
    on(first, start)
    on(second, start)
    on(named, lambda client: client.start("order", id="order-17"))
    keys = [api.requests[0].headers.get("idempotency-key") for api in (first, second, named)]
    assert keys[0] != keys[1]
    assert keys[2] is None
    assert json.loads(named.requests[0].content) == {"input": {}, "run_id": "order-17"}


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.start("order", {}, key=""),
        lambda client: client.start("order", {}, id=""),
        lambda client: client.send_event("paid", id=""),
        lambda client: client.batch("purge", key=""),
        lambda client: client.handle("r1").rerun(key=""),
        lambda client: client.handle("r1").fork(3, key=""),
        lambda client: client.handle("r1").signal("paid", id=""),
        lambda client: client.handle("r1").send_update("pay", id=""),
        lambda client: client.handle("").view(),
        lambda client: client.delete_schedule(""),
    ],
)
def test_an_empty_key_or_id_is_refused_before_anything_is_sent(on: Both, call: Callable[[Any], Any]) -> None:
    """Where a caller's variable is empty, each call would count, or reach another route."""
    api = Api()
    with pytest.raises(UserError) as refused:
        on(api, call)
    assert (refused.value.code, api.requests) == ("bad_key", [])


@pytest.mark.parametrize(
    "part", [{"tag": ""}, {"tag": {}}, {"status": []}, {"status": ""}, {"since": ""}, {"before": ""}, {"failure": ""}]
)
def test_a_batch_with_an_empty_part_of_its_filter_is_refused_before_anything_is_sent(
    on: Both, part: dict[str, Any]
) -> None:
    """As of a variable that is not set: it acted on all runs of the workflow."""
    api = Api()
    with pytest.raises(UserError, match=f"the filter's `{next(iter(part))}` is empty") as refused:
        on(api, lambda client: client.batch("cancel", workflow="order", **part))
    assert (refused.value.code, api.requests) == ("empty_filter", [])


def test_a_schedule_is_made_with_all_that_the_api_takes(on: Both) -> None:
    api = Api(answer(201, {}))
    on(
        api,
        lambda client: client.create_schedule("n", "order", "0 9 * * *", given={"a": 1}, catch_up="1h", version="v"),
    )
    assert json.loads(api.requests[0].content) == {
        "name": "n", "workflow": "order", "schedule": "0 9 * * *", "timezone": "UTC", "overlap": "skip",
        "version": "v", "catch_up": "1h", "input": {"a": 1},
    }  # fmt: skip


@pytest.mark.parametrize("named", [{"amount": 5}, {"given": 5}, {"id": "r1", "amont": 5}])
def test_an_argument_by_name_is_refused_before_it_is_sent(on: Both, named: dict[str, Any]) -> None:
    """By name, a start takes its options."""
    api = Api()
    with pytest.raises(InvalidInput, match="a start has no option") as raised:
        on(api, lambda client: client.start("order", **named))
    assert (raised.value.code, api.requests) == ("step_input", [])
    assert "by position" in str(raised.value.hint)


def test_the_earlier_run_of_a_key_is_not_new(on: Both) -> None:
    assert on(Api(answer(201, RUN)), start).is_new
    assert not on(Api(answer(200, RUN)), start).is_new


@pytest.mark.parametrize("first", [answer(503), httpx.ReadTimeout("lost")])
def test_an_approval_is_not_sent_again_once_the_api_may_have_taken_it(on: Both, first: Answer) -> None:
    """A second one would be refused, or answer another wait."""
    api = Api(first)
    with pytest.raises(Unreachable):
        on(api, lambda client: client.handle("r1").approve(by="ana"))
    assert len(api.requests) == 1


@pytest.mark.parametrize("first", [answer(429), httpx.ConnectError("refused")])
def test_an_approval_that_the_api_has_not_seen_is_sent_again(on: Both, first: Answer) -> None:
    api = Api(first, answer(200, RUN))
    on(api, lambda client: client.handle("r1").approve(by="ana"))
    assert len(api.requests) == 2


def test_an_event_has_one_id_however_often_it_is_sent(on: Both) -> None:
    api = Api(answer(503), answer(202, {"event_id": "e"}))
    on(api, lambda client: client.handle("r1").signal("paid", {"amount": 5}))
    first, second = (json.loads(request.content) for request in api.requests)
    assert first == second
    assert first["id"]


def test_a_start_brings_an_event_of_one_id_however_often_it_is_sent(on: Both) -> None:
    api = Api(answer(503), answer(201, RUN))
    on(api, lambda client: client.start("order", {}, id="r1", event={"name": "paid", "payload": 5}))
    first, second = (json.loads(request.content) for request in api.requests)
    assert first == second
    assert first["event"].keys() == {"id", "name", "payload"}


DELETIONS: list[Callable[[Any], Any]] = [
    lambda client: client.handle("r1").delete(),
    lambda client: client.delete_schedule("nightly"),
    lambda client: client.delete_alias("order", "stable"),
]


@pytest.mark.parametrize("delete", DELETIONS)
@pytest.mark.parametrize("lost", [httpx.ReadTimeout("lost"), answer(502), answer(504)])
def test_a_deletion_whose_answer_was_lost_took_effect(on: Both, lost: Answer, delete: Callable[[Any], Any]) -> None:
    """The second call finds nothing, because the first one deleted it."""
    told = on(Api(lost, refusal(404, "unknown")), delete)
    assert told in (None, {"run_id": "r1", "deleted_runs": None, "deleted_items": None})


@pytest.mark.parametrize("delete", DELETIONS)
@pytest.mark.parametrize("before", [[], [answer(429)], [httpx.ConnectError("refused")]])
def test_a_deletion_of_nothing_is_told(on: Both, before: list[Answer], delete: Callable[[Any], Any]) -> None:
    """No call before this one has reached the API."""
    with pytest.raises(NotFoundProblem):
        on(Api(*before, refusal(404, "unknown")), delete)


def test_retry_after_says_how_long_to_wait_else_the_pauses_grow(on: Both, pauses: list[float]) -> None:
    api = Api(answer(429, retry_after="7"), answer(503), answer(503), answer(200, {}))
    on(api, lambda client: client.stats())
    first, second, third = pauses
    assert first == 7
    assert 0.2 <= second <= 0.4 <= third <= 0.8


def test_the_pause_stays_at_its_longest_however_often_a_call_is_sent_again() -> None:
    assert 15 <= exchange._pause_seconds(answer(503), 10_000) <= 30


def test_a_call_waits_for_a_free_connection_as_long_as_it_takes() -> None:
    """A hundred calls that wait for results have all connections, each for half a minute; others come after them."""

    def limits(request: httpx.Request) -> httpx.Response:
        assert request.extensions["timeout"]["pool"] is None
        return answer(200, RUN)

    with Client(URL, transport=httpx.MockTransport(limits)) as client:
        assert client.handle("r1").status() == "running"


def test_retry_after_asks_for_thirty_seconds_at_most() -> None:
    assert exchange._pause_seconds(answer(429, retry_after="86400"), 0) == 30


def test_a_result_waits_no_longer_than_its_caller() -> None:
    """Neither for the pause that the API asks for, nor for an answer."""
    with Client(URL, transport=Api()) as client:
        steps = client._api.steps(flows.result("r1", 1))
        request = next(steps)
        assert isinstance(request, Request)
        assert client._api.arguments(request)["timeout"].read <= 3
        pause = steps.send(answer(503, retry_after="6"))
        assert isinstance(pause, exchange.Pause)
        assert pause.seconds <= 1
        with pytest.raises(TimeoutError, match="answered 503"):
            steps.send(None)


def test_a_result_whose_time_is_over_before_a_connection_is_free_is_a_timeout_on_this_machine_too() -> None:
    api = Api(httpx.PoolTimeout("all are taken"))
    with Client("http://127.0.0.1:8787", transport=api) as client, pytest.raises(TimeoutError, match="no answer"):
        client.handle("r1").result(0)
    steps = client._api.steps(flows.result("r1", 600))
    request = next(steps)
    assert isinstance(request, Request)
    assert client._api.arguments(request)["timeout"].pool > 590


@pytest.mark.parametrize("gone", [httpx.ReadTimeout("late"), httpx.ConnectError("refused"), answer(503)])
def test_a_result_whose_time_is_over_is_a_timeout_also_without_an_answer(on: Both, gone: Answer) -> None:
    api = Api(gone)
    with pytest.raises(TimeoutError, match="there was no answer in the time given"):
        on(api, lambda client: client.handle("r1").result(0))
    assert len(api.requests) == 1


def test_what_stays_wrong_is_raised_after_three_retries(on: Both) -> None:
    api = Api(*(refusal(503, "unavailable") for _ in range(4)))
    with pytest.raises(ServerProblem) as raised:
        on(api, lambda client: client.stats())
    assert (raised.value.status, raised.value.code, len(api.requests)) == (503, "unavailable", 4)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, InputProblem), (401, AccessProblem), (403, AccessProblem), (404, NotFoundProblem), (409, ConflictProblem),
     (413, InputProblem), (422, InputProblem), (418, ApiProblem), (501, ServerProblem)],
)  # fmt: skip
def test_a_problem_document_is_an_exception_of_its_kind_with_its_code(
    on: Both, status: int, kind: type[ApiProblem]
) -> None:
    errors = [{"path": "/input/amount", "message": "is no number"}]
    with pytest.raises(kind, match="what is wrong") as raised:
        on(Api(refusal(status, "its_code", errors=errors)), lambda client: client.handle("r1").view())
    assert type(raised.value) is kind
    assert (raised.value.code, raised.value.hint) == ("its_code", "what to do")
    assert raised.value.errors == [("/input/amount", "is no number")]


@pytest.mark.parametrize("body", [{"message": "Bad gateway"}, "<html>", None], ids=["message", "page", "nothing"])
@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_gateway_that_gets_no_answer_is_no_stranger(on: Both, status: int, body: Any) -> None:
    """The URL is right, and the API behind it does not answer."""
    api = Api(*(answer(status, body) for _ in range(4)))
    with pytest.raises(Unreachable, match=f"the API's gateway answered {status}: ") as raised:
        on(api, lambda client: client.stats())
    assert (raised.value.code, raised.value.hint, len(api.requests)) == ("unreachable", "try again", 4)


@pytest.mark.parametrize("act", [start, lambda client: client.handle("r1").approve(by="ana")], ids=["start", "approve"])
@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_after_a_gateways_refusal_a_person_looks_before_a_second_act(
    on: Both, status: int, act: Callable[[Any], Any]
) -> None:
    """The API may have taken the call; another start would have another key."""
    with pytest.raises(Unreachable) as raised:
        on(Api(*(answer(status, {"message": "no answer"}) for _ in range(4))), act)
    assert "the API may have taken the call" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (httpx.ReadTimeout("lost"), "the API may have taken the call"),
        (httpx.RemoteProtocolError("cut"), "the API may have taken the call"),
        (httpx.ConnectError("refused"), "check --url"),
    ],
)
def test_after_a_lost_answer_a_person_looks_before_a_second_act(on: Both, error: Exception, hint: str) -> None:
    with pytest.raises(Unreachable) as raised:
        on(Api(*([error] * 4)), lambda client: client.handle("r1").approve(by="ana"))
    assert hint in (raised.value.hint or "")


@pytest.mark.parametrize("url", ["https://api.example.com", "http://127.0.0.1:8787"])
def test_a_server_that_takes_too_long_to_answer_is_there(url: str) -> None:
    """A hint to start it would be wrong."""

    def wait(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("late")

    with pytest.raises(Unreachable) as raised, Client(url, transport=httpx.MockTransport(wait), retries=0) as client:
        client.health()
    assert raised.value.hint == ("try again, since a server is there; if it never answers, check --url or STEPWELL_URL")


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), "half a character: \ud800"])
def test_what_json_cannot_hold_is_refused_before_it_is_sent(on: Both, value: Any) -> None:
    api = Api()
    with pytest.raises(InvalidInput) as raised:
        on(api, lambda client: client.start("order", {"amount": value}))
    assert (raised.value.code, api.requests) == ("not_storable", [])


def test_too_many_calls_are_told_after_the_retries(on: Both) -> None:
    with pytest.raises(BusyProblem):
        on(Api(*(refusal(429, "too_many_pending") for _ in range(4))), lambda client: client.send_event("paid"))


def test_a_result_is_waited_for_by_long_polls(on: Both) -> None:
    api = Api(answer(202, RUN), answer(202, RUN), answer(200, {**RUN, "status": "completed", "result": {"total": 5}}))
    assert on(api, lambda client: client.handle("r1").result()) == {"total": 5}
    assert {request.url.params["wait"] for request in api.requests} == {"25"}


def test_a_result_that_does_not_come_in_time_is_a_timeout(on: Both) -> None:
    with pytest.raises(TimeoutError, match="run r1 is running after 0 seconds"):
        on(Api(answer(202, RUN)), lambda client: client.handle("r1").result(0))


def test_a_run_that_failed_raises_its_error(on: Both) -> None:
    error = {"type": "CardDeclined", "message": "no funds", "step": "charge", "attempts": 3}
    failed = refusal(409, "run_failed", run_id="r1", run_status="failed", error=error)
    with pytest.raises(RunFailed) as raised:
        on(Api(failed), lambda client: client.handle("r1").result())
    assert (raised.value.run_id, raised.value.run_status, raised.value.error) == ("r1", "failed", error)


def test_a_large_result_is_read_from_its_link_without_credentials() -> None:
    link = "https://bucket.s3.amazonaws.com/result?X-Amz-Signature=1"
    large = {"run_id": "r1", "status": "completed", "result": {"large": {"bytes": 9_000_000, "link": link}}}
    api = Api(answer(200, large), answer(200, ["much"]))
    with Client(URL, api_key="secret", transport=api) as client:
        assert client.handle("r1").result() == ["much"]
    assert api.requests[0].headers["x-api-key"] == "secret"
    assert str(api.requests[1].url) == link
    assert "x-api-key" not in api.requests[1].headers


def large(link: str) -> Any:
    return {"large": {"bytes": 9_000_000, "link": link}}


SIGNED = "https://bucket.s3.amazonaws.com/value?X-Amz-Signature=1"


def test_what_is_too_large_for_an_answer_is_read_from_its_links(on: Both) -> None:
    """Whether the API hands it out itself, or by a signed link."""
    view = {"state": {"a": large("/runs/r1/value?path=%2Fstate%2Fa"), "b": 1}, "result": large("/runs/r1/result")}
    api = Api(answer(200, {"value": large(SIGNED)}), answer(200, ["much"]), answer(200, {"result": "more"}))
    assert on(api, lambda client: client.whole(view)) == {"state": {"a": ["much"], "b": 1}, "result": "more"}
    first, second, third = api.requests
    assert dict(first.url.params) == {"path": "/state/a"}
    assert str(second.url) == SIGNED
    assert third.url.path == "/runs/r1/result"


def test_a_value_that_only_looks_like_a_link_leads_nowhere(on: Both) -> None:
    view = {"state": {"mine": large("https://elsewhere.example.com/"), "large": {"bytes": 1}}, "items": [None, 2]}
    assert on(Api(), lambda client: client.whole(view)) == view


def test_a_value_that_looks_like_a_link_is_read_from_the_link_that_the_api_gave_it(on: Both) -> None:
    """Its own link is a user's, and is not followed, whoever looks at it."""
    given = large(f"/runs/r1/value?blob={'0' * 64}&path=%2Fvalue")
    forged = large("https://elsewhere.example.com/")
    calls: list[Callable[[Any], Any]] = [
        lambda client: client.handle("r1").query("all"),
        lambda client: client.handle("r1").value("/result"),
        lambda client: client.whole(large("/runs/r1/value?path=%2Fresult")),
    ]
    for call in calls:
        api = Api(answer(200, {"value": given}), answer(200, {"value": forged}))
        assert on(api, call) == forged
    assert on(Api(answer(200, {"value": forged})), lambda client: client.whole({"of": given})) == {"of": forged}
    odd = {"of": [large("/runs/r1/history"), large("/runs/r1/../workflows/value?path=x")]}
    assert on(Api(), lambda client: client.whole(odd)) == odd


def test_one_value_is_read_by_its_path(on: Both) -> None:
    api = Api(answer(200, {"value": large(SIGNED)}), answer(200, ["much"]))
    assert on(api, lambda client: client.handle("r1").value("/state/a/0", at=0)) == ["much"]
    assert dict(api.requests[0].url.params) == {"path": "/state/a/0", "at": "0"}


def test_a_large_answer_of_a_query_or_an_update_is_read_from_its_link(on: Both) -> None:
    api = Api(answer(200, {"value": large(SIGNED)}), answer(200, ["much"]))
    assert on(api, lambda client: client.handle("r1").query("all")) == ["much"]
    done = {"update_id": "u", "pending": False, "output": large(SIGNED), "error": None}
    api = Api(answer(200, done), answer(200, ["more"]))
    assert on(api, lambda client: client.handle("r1").update("all")) == ["more"]


def test_an_update_is_waited_for_and_its_error_raised(on: Both) -> None:
    pending = {"update_id": "u", "pending": True, "output": None, "error": None}
    done = {**pending, "pending": False, "output": 7}
    api = Api(answer(202, pending), answer(200, done))
    assert on(api, lambda client: client.handle("r1").update("add", {"n": 2})) == 7
    assert api.requests[1].url.path == "/runs/r1/updates/add/u"
    failed = {**done, "error": {"type": "TooMany", "message": "no more"}}
    with pytest.raises(UpdateFailed, match="TooMany: no more"):
        on(Api(answer(200, failed)), lambda client: client.handle("r1").update("add"))


def pages() -> Api:
    return Api(answer(200, {"items": [{"run_id": "a"}, {"run_id": "b"}], "next_cursor": "c1"}),
               answer(200, {"items": [{"run_id": "c"}], "next_cursor": None}))  # fmt: skip


def test_a_list_is_an_iterator_over_all_pages() -> None:
    api = pages()
    with Client(URL, transport=api) as client:
        assert [run["run_id"] for run in client.runs(workflow="order", status="failed")] == ["a", "b", "c"]
    first, second = (dict(request.url.params) for request in api.requests)
    assert first == {"workflow": "order", "status": "failed", "limit": "500"}
    assert second == {**first, "cursor": "c1"}


def test_a_list_of_an_async_client_is_an_async_iterator() -> None:
    async def main() -> list[str]:
        async with AsyncClient(URL, transport=pages()) as client:
            return [run["run_id"] async for run in client.runs()]

    assert asyncio.run(main()) == ["a", "b", "c"]


def test_a_list_that_is_left_early_reads_no_further_page() -> None:
    api = pages()
    with Client(URL, transport=api) as client:
        assert next(iter(client.runs()))["run_id"] == "a"
    assert len(api.requests) == 1


def test_both_clients_have_the_same_methods() -> None:
    def names(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert names(Client) == names(AsyncClient)


@pytest.mark.parametrize(
    "url",
    [
        f"{URL}?stage=1",
        f"{URL}#top",
        f"{URL}/?",
        f" {URL}",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:0",
        5,
        b"http://a",
    ],
)
def test_a_url_to_which_no_route_can_be_appended_is_refused(url: Any) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(UserError) as raised:
            kind(url)
        assert raised.value.code == "bad_url"


@pytest.mark.parametrize("timeout", [float("nan"), "5"])
def test_a_timeout_that_is_no_number_is_refused(on: Both, timeout: Any) -> None:
    api = Api(answer(202, RUN))
    with pytest.raises(InvalidInput) as raised:
        on(api, lambda client: client.handle("r1").result(timeout=timeout))
    assert (raised.value.code, api.requests) == ("bad_value", [])


@pytest.mark.parametrize("given", [{"key": 5}, {"trace": "a\nb"}, {"trace": "\u00fc"}])
def test_what_no_header_carries_is_refused_before_it_is_sent(on: Both, given: Any) -> None:
    api = Api(answer(201, RUN))
    with pytest.raises(UserError) as raised:
        on(api, lambda client: client.start("order", {}, **given))
    assert (raised.value.code, api.requests) == ("bad_key", [])


def test_a_name_that_is_no_text_is_refused(on: Both) -> None:
    for act in (lambda client: client.handle(5).view(), lambda client: client.workflow(b"order")):
        with pytest.raises(UserError, match="is text") as raised:
            on(Api(), act)
        assert raised.value.code == "bad_key"


def test_one_dead_letter_may_be_named_by_its_id_alone(on: Both) -> None:
    api = Api(answer(200, {}), answer(200, {}))
    on(api, lambda client: client.redrive_dead_letters("abc"))
    on(api, lambda client: client.delete_dead_letters("abc"))
    assert [json.loads(request.content) for request in api.requests] == [{"ids": ["abc"]}] * 2


def test_an_empty_id_does_not_stand_for_all_dead_letters(on: Both) -> None:
    api = Api()
    for act in (lambda client: client.redrive_dead_letters(""), lambda client: client.delete_dead_letters("")):
        with pytest.raises(UserError) as raised:
            on(api, act)
        assert (raised.value.code, api.requests) == ("bad_key", [])


@pytest.mark.parametrize(
    ("act", "named"),
    [
        (lambda client: list(client.runs(status=5)), "status"),
        (lambda client: list(client.runs(waiting_for=True)), "waiting_for"),
        (lambda client: client.batch("cancel", status=5), "status"),
        (lambda client: client.redrive_dead_letters(5), "ids"),
    ],
)
def test_what_is_no_list_of_texts_is_refused_before_it_is_sent(act: Callable[[Any], Any], named: str) -> None:
    api = Api()
    with (
        pytest.raises(UserError, match=f"`{named}` is a text or a list") as raised,
        Client(URL, transport=api) as client,
    ):
        act(client)
    assert (raised.value.code, api.requests) == ("bad_value", [])


@pytest.mark.parametrize("header", [{"X-Signature": "s3cr3t\nHost: x"}, {"X-Signature": " s3cr3t"},
                                    {"X-Signature": 5}, {"X-\u00fc": "1"}, {"": "1"}])  # fmt: skip
def test_a_webhooks_header_that_http_cannot_carry_is_refused_without_its_value(on: Both, header: Any) -> None:
    api = Api()
    with pytest.raises(UserError) as raised:
        on(api, lambda client: client.deliver("shop", b"{}", header))
    assert (raised.value.code, api.requests) == ("bad_header", [])
    assert "s3cr3t" not in str(raised.value)


@pytest.mark.parametrize("said", [{}, {"status": "ok"}, {"version": "7"}])
def test_the_health_of_another_server_is_not_stepwells(on: Both, said: Any) -> None:
    with pytest.raises(Unreachable) as raised:
        on(Api(answer(200, said)), lambda client: client.health())
    assert raised.value.code == "not_stepwell"


def test_an_answer_to_a_start_without_a_run_is_of_another_server(on: Both) -> None:
    with pytest.raises(Unreachable) as raised:
        on(Api(answer(200, {})), lambda client: client.start("order", {}))
    assert raised.value.code == "not_stepwell"
