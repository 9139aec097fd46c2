"""Callbacks: a URL that ends one wait, once; each call of it has a definite answer."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

import pytest

from stepwell.engine.actions import Outcome
from stepwell.engine.names import iso
from stepwell.engine.records import Pause
from stepwell.errors import PortError
from stepwell.limits import BODY_BYTES, DAY_MS, EVENT_PENDING
from stepwell.runtime.calls.callbacks import step_callback, wait_callback
from stepwell.runtime.calls.links import CallbackLink
from stepwell.runtime.loop.coordinator import Coordinator
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.ports import Event
from stepwell.runtime.steps.port import StepCall
from tests.api.kit import START_MS, URL, Reply, World

HOLD = "workflow: hold\ntimeline: [{name: hold, wait: {for: callback, timeout: 2h, data: {order: 7}%s}}%s]\n"
FAILING = HOLD % ("", ", {name: after, run: python:shop.charge}")
ASKS = "workflow: asks\nnodes:\n  ask: {run: python:shop.ask, timeout: 1m, transitions: [{to: done}]}\n  done: {}\n"


def held(more: str = "", after: str = "") -> tuple[World, str, str]:
    """A run that waits for a callback, and the callback's URL."""
    world = World(HOLD % (more, after))
    run_id = world.start("hold")
    return world, run_id, world.get(f"/runs/{run_id}").json["waiting_data"]["callback_url"]


def post(world: World, url: str, body: Any = None) -> Reply:
    return world.open("POST", url, "" if body is None else json.dumps(body))


def test_what_is_posted_is_the_result_of_the_wait() -> None:
    world, run_id, url = held()
    assert url.startswith(f"{URL}/callbacks/")
    reply = post(world, url, {"paid": True})
    assert (reply.status, reply.json) == (200, {"status": "taken"})
    world.drain()
    run = world.get(f"/runs/{run_id}").json
    assert (run["status"], run["state"]["hold"]) == ("completed", {"paid": True})


def test_a_callback_whose_api_died_in_the_midst_ends_the_wait_all_the_same() -> None:
    """The event is stored and queued before it is offered."""
    world, run_id, url = held()
    with mock.patch.object(Coordinator, "publish", side_effect=PortError("the store did not answer")):
        assert post(world, url, {"paid": True}).status == 503
    world.advance(30)
    assert world.get(f"/runs/{run_id}").json["state"]["hold"] == {"paid": True}


def test_a_callback_is_taken_once() -> None:
    world, run_id, url = held()
    assert post(world, url, 1).status == 200
    for again in (url, f"{url}/fail", f"{url}/heartbeat"):
        reply = post(world, again, None)
        assert (reply.status, reply.json["code"]) == (409, "callback_used")
    world.drain()
    after = world.stored()
    assert post(world, url, 2).status == 409
    assert world.stored() == after
    assert world.get(f"/runs/{run_id}").json["result"] == 1


def test_a_failure_is_the_waits_error_which_rules_may_take() -> None:
    world, run_id, url = held()
    error = {"type": "CardDeclined", "message": "no funds", "data": {"code": 51}}
    assert post(world, f"{url}/fail", error).status == 200
    world.drain()
    found = world.get(f"/runs/{run_id}").json["error"]
    assert (found["type"], found["category"], found["message"]) == ("CardDeclined", "external", "no funds")
    assert found["data"] == {"code": 51}


def test_a_link_that_is_not_good_is_refused_and_changes_nothing() -> None:
    world, run_id, url = held()
    token = url.rpartition("/")[2]
    said, mac = token.split(".")
    other = World(FAILING)
    other.link_keys = [b"another key, that signs nothing here"]
    resigned = run_now(_signed(other, f"{run_id}|0|w0"))
    elsewhere = run_now(_signed(world, "run_nobody_knows|0|w0"))
    before = world.stored()
    for bad in (token[:-2], said, f"{said}.{mac[::-1]}", "x", resigned, "%00", "a" * 5_000):
        for action in ("", "/fail", "/heartbeat"):
            reply = world.open("POST", f"{URL}/callbacks/{bad}{action}", "{}")
            assert (reply.status, reply.json["code"]) == (404, "unknown_link"), bad
    assert post(world, f"{URL}/callbacks/{elsewhere}", 1).status == 410
    world.clock.advance(2 * 3_600_000)
    reply = post(world, url, 1)
    assert (reply.status, reply.json["code"]) == (410, "callback_expired")
    assert world.stored() == before


async def _signed(world: World, callback: str) -> str:
    assert world.parts.links is not None
    return world.parts.links.callback_url(CallbackLink(callback, START_MS + DAY_MS)).rpartition("/")[2]


@pytest.mark.parametrize("ends", ["cancel", "time"])
def test_a_callback_for_a_wait_that_is_over_is_gone_and_leaves_nothing(ends: str) -> None:
    world, run_id, _ = held(", on_timeout: continue" if ends == "time" else "", ", {name: nap, sleep: 1d}")
    url = f"{URL}/callbacks/{run_now(_signed(world, f'{run_id}|0|w0'))}"
    if ends == "time":
        world.advance(2 * 3_600)
    else:
        world.post(f"/runs/{run_id}/cancel")
    world.drain()
    before = world.stored()
    reply = post(world, url, 1)
    assert (reply.status, reply.json["code"]) == (410, "callback_over")
    reply = post(world, f"{url}/heartbeat")
    assert (reply.status, reply.json["code"]) == (410, "callback_over")
    assert world.stored() == before


def test_a_time_out_that_comes_first_is_told_to_who_posts() -> None:
    """The wait was there when it was looked for, and is over when the event is offered to it."""
    world, run_id, url = held()
    usual = world.store.put_event

    async def late(event: Event, most: int = EVENT_PENDING) -> bool:
        await world.parts.service.terminate(run_id)
        return await usual(event, most)

    world.store.put_event = late  # type: ignore[method-assign]  # of this store
    assert post(world, url, 1).json["code"] == "callback_over"
    assert post(world, url, 1).status == 410


@pytest.mark.parametrize(("body", "status"), [("{", 400), ('{"a": NaN}', 400), ("[" * 99 + "]" * 99, 422),
                                              ('"' + "x" * BODY_BYTES + '"', 413)])  # fmt: skip
def test_a_body_that_cannot_be_uses_nothing_up(body: str, status: int) -> None:
    world, _, url = held()
    assert world.open("POST", url, body).status == status
    assert post(world, f"{url}/fail", {"type": 7}).status == 422
    assert post(world, url, 1).status == 200


# -- heartbeats


def held_among(several: str) -> tuple[World, str, CallbackLink]:
    """A run that waits for any or all of an approval and a callback, and the callback's link."""
    world = World("workflow: hold\ntimeline:\n  - name: hold\n    wait:\n      timeout: 2h\n"
                  f"      {several}: [{{for: approval}}, {{for: callback, heartbeat: 10m}}]\n")  # fmt: skip
    run_id = world.start("hold")
    callback = wait_callback(run_id, run_now(world.parts.service.standing(run_id)).token)
    assert callback is not None
    return world, run_id, CallbackLink(callback, START_MS + 9 * 3_600_000)


def test_a_heartbeat_puts_the_end_off_and_silence_ends_the_wait() -> None:
    world, run_id, url = held(", heartbeat: 10m")
    for _ in range(3):
        world.advance(9 * 60)
        assert post(world, f"{url}/heartbeat").json == {"status": "noted"}
    assert world.get(f"/runs/{run_id}").json["status"] == "waiting"
    world.advance(12 * 60)
    run = world.get(f"/runs/{run_id}").json
    assert (run["status"], run["error"]["type"]) == ("timed_out", "heartbeat_timeout")
    assert post(world, f"{url}/heartbeat").status == 410


def test_a_callback_among_other_waits_has_its_heartbeat_too() -> None:
    world, run_id, link = held_among("any")
    for _ in range(3):
        world.advance(9 * 60)
        run_now(world.parts.service.callbacks.beat(link))
    assert world.get(f"/runs/{run_id}").json["status"] == "waiting"
    world.advance(12 * 60)
    run = world.get(f"/runs/{run_id}").json
    assert (run["status"], run["error"]["type"]) == ("timed_out", "heartbeat_timeout")


def timers(world: World, run_id: str) -> list[tuple[str, str]]:
    wakers = world.get(f"/runs/{run_id}/explain").json["wakers"]
    return [(one["at"], one["detail"]) for one in wakers if one["what"] == "timer"]


def test_explain_and_the_run_tell_until_when_a_heartbeat_must_come() -> None:
    world, run_id, url = held(", heartbeat: 10m")
    silent, over = "the callback fails then, unless a heartbeat comes before", "the wait times out then"
    assert timers(world, run_id) == [(iso(START_MS + 600_000), silent), (iso(START_MS + 7_200_000), over)]
    world.advance(9 * 60)
    post(world, f"{url}/heartbeat")
    assert timers(world, run_id) == [(iso(START_MS + 1_200_000), silent), (iso(START_MS + 7_200_000), over)]
    assert world.get(f"/runs/{run_id}").json["waiting_data"]["heartbeat_until"] == iso(START_MS + 1_200_000)


def test_a_callback_that_needs_no_heartbeat_shows_no_time_for_one() -> None:
    world, run_id, _ = held()
    assert timers(world, run_id) == [(iso(START_MS + 7_200_000), "the wait times out then")]
    assert "heartbeat_until" not in world.get(f"/runs/{run_id}").json["waiting_data"]


def test_a_callback_that_has_answered_among_others_shows_no_time_for_a_heartbeat() -> None:
    world, run_id, link = held_among("all")
    assert [at for at, _ in timers(world, run_id)] == [iso(START_MS + 600_000), iso(START_MS + 7_200_000)]
    run_now(world.parts.service.callbacks.complete(link, 1))
    world.drain()
    assert [at for at, _ in timers(world, run_id)] == [iso(START_MS + 7_200_000)]


def test_a_callback_that_has_answered_needs_no_heartbeat_while_others_are_awaited() -> None:
    world, run_id, link = held_among("all")
    run_now(world.parts.service.callbacks.complete(link, 1))
    world.advance(60 * 60)
    assert world.get(f"/runs/{run_id}").json["status"] == "waiting"
    run_now(world.parts.service.approve(run_id, {}, "ana"))
    world.drain()
    assert world.get(f"/runs/{run_id}").json["status"] == "completed"


def test_heartbeats_that_come_all_the_time_leave_few_records() -> None:
    world, run_id, url = held(", heartbeat: 10m")
    for _ in range(100):
        world.clock.advance(6_000)
        assert post(world, f"{url}/heartbeat").status == 200
    records = run_now(world.parts.service.records(run_id))
    assert len(records) <= 12
    assert len(run_now(world.parts.service.standing(run_id)).token.received) == 1
    assert post(world, url, 1).status == 200


def test_a_heartbeat_is_one_record_and_nothing_follows_from_it() -> None:
    """No message, no timer of its own: the wait's timer looks when the last heartbeat was, and is set anew."""
    world, run_id, url = held(", heartbeat: 10m")
    messages = world.queue.pending()
    with mock.patch.multiple(world.store, put_waiter=mock.DEFAULT, change_status=mock.DEFAULT) as others:
        for _ in range(50):
            world.clock.advance(120_000)
            assert post(world, f"{url}/heartbeat").status == 200
            world.drain()
            assert world.queue.pending() == messages
    assert [one.call_count for one in others.values()] == [0, 0]
    assert len(run_now(world.parts.service.records(run_id))) == 51
    assert world.get(f"/runs/{run_id}").json["status"] == "waiting"


def test_a_heartbeat_that_was_overtaken_by_a_later_one_does_not_take_it_back() -> None:
    """Two are sent at once, and the second to be written counts from the earlier time."""
    world, run_id, url = held(", heartbeat: 10m")
    world.advance(8 * 60)
    usual = world.store.append

    async def overtaken(*args: Any, **named: Any) -> Any:
        world.store.append = usual  # type: ignore[method-assign]  # of this store
        world.clock.advance(60_000)
        assert post(world, f"{url}/heartbeat").status == 200
        return await usual(*args, **named)

    world.store.append = overtaken  # type: ignore[method-assign]  # of this store
    assert post(world, f"{url}/heartbeat").status == 200
    assert len(run_now(world.parts.service.records(run_id))) == 2
    world.advance(10 * 60 + 30)
    assert world.get(f"/runs/{run_id}").json["status"] == "waiting"


# -- a step's own callback


def asking() -> tuple[World, str, dict[str, str]]:
    """A run whose step makes its URL, and then waits for it when it is let go on."""
    world, made = World(ASKS), {}

    def ask(call: StepCall) -> Outcome:
        callback = step_callback(call.run_id, call.token, call.key)
        assert callback is not None
        assert world.parts.links is not None
        made["url"] = world.parts.links.callback_url(CallbackLink(callback, START_MS + DAY_MS))
        if "early" in made:
            made["status"] = str(post(world, made["url"], {"n": 2}).status)
        return Outcome(pause=Pause("callback", timeout_ms=3_600_000, result={"sent": 1}))

    world.steps.functions["python:shop.ask"] = ask
    return world, "asks", made


def test_a_step_sends_its_url_and_waits_for_it() -> None:
    world, workflow, made = asking()
    run_id = world.start(workflow)
    assert world.get(f"/runs/{run_id}").json["waiting_data"]["callback_url"].startswith(f"{URL}/callbacks/")
    assert post(world, made["url"], {"n": 2}).status == 200
    world.drain()
    assert world.get(f"/runs/{run_id}").json["result"] == {"sent": 1, "n": 2}
    assert post(world, made["url"], {"n": 3}).json["code"] == "callback_used"


def test_a_callback_that_is_faster_than_its_step_is_kept() -> None:
    world, workflow, made = asking()
    made["early"] = "yes"
    run_id = world.start(workflow)
    assert made["status"] == "200"
    assert world.get(f"/runs/{run_id}").json["result"] == {"sent": 1, "n": 2}


def test_the_token_is_in_nothing_that_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    world, run_id, url = held()
    post(world, url, {"n": 1})
    world.drain()
    mac = url.rpartition(".")[2]
    history = world.get(f"/runs/{run_id}/history").text
    assert "CALLBACK_COMPLETED" in history
    assert mac not in world.stored() + history + caplog.text + world.get(f"/runs/{run_id}").text


# -- who is shown links


@pytest.mark.parametrize(
    ("authorizer", "in_view", "status"),
    [
        ({}, True, 200),
        ({"iam": {"userArn": "arn:aws:iam::1:user/ana"}}, False, 200),
        ({"jwt": {"claims": {"sub": "u-1"}}}, True, 403),
        ({"jwt": {"claims": {"sub": "u-1", "scope": "openid stepwell/links"}}}, True, 200),
        ({"jwt": {"claims": {"sub": "u-1", "scp": "openid stepwell/links"}}}, True, 200),  # of Entra ID
        ({"jwt": {"claims": {"sub": "u-1", "scp": "[openid stepwell/links]"}}}, True, 200),  # of Okta
        ({"jwt": {"claims": {"sub": "u-1", "scp": "[stepwell/links2]"}}}, True, 403),
    ],
)
def test_a_link_is_shown_to_whom_it_gives_nothing_more(authorizer: Any, in_view: bool, status: int) -> None:
    """With IAM one may be allowed to look alone: links are a call of their own."""
    world, run_id, url = held()
    assert _as(world, authorizer, "GET", f"/runs/{run_id}").json["waiting_data"].get("callback_url") == (
        url if in_view else None
    )
    reply = _as(world, authorizer, "POST", f"/runs/{run_id}/links")
    assert (reply.status, reply.json.get("callback_url")) == (status, url if status == 200 else None)


def _as(world: World, authorizer: Any, method: str, path: str) -> Reply:
    from tests.api.kit import event  # noqa: PLC0415 - its name is taken here

    call = event(method, path)
    call["requestContext"]["authorizer"] = authorizer
    return world.send(call)


def test_a_run_that_waits_for_neither_has_no_links() -> None:
    world = World()
    reply = world.post(f"/runs/{world.start('paid', input={'order': '1'})}/links")
    assert (reply.status, reply.json["code"]) == (409, "not_waiting")
