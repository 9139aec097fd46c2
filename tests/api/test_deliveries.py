"""What webhooks brought: what of it is kept, how it is listed, and how it is taken again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import pytest

from stepwell.api.resolver import app_of
from stepwell.api.webhooks.keeping import kept_headers
from stepwell.api.webhooks.replay import delivery_routes
from stepwell.api.webhooks.route import webhook_routes
from stepwell.api.webhooks.sources import sources_of
from stepwell.definition.webhooks import check_webhooks
from stepwell.limits import DAY_MS, DELIVERY_BYTES, KEY_CHARACTERS
from stepwell.runtime.notify import deliveries
from stepwell.runtime.notify.deliveries import Deliveries, Listed
from stepwell.runtime.stores.answers import encode_cursor
from tests.api.webhook_kit import ENVIRONMENT, WebhookWorld, github, plain, standard, told

SOURCES = """
sources:
  github: {scheme: github, secret: env:GITHUB, event: "'github.' + headers['x-github-event']", key: body.repository,
           keep: 7d}
  shop: {scheme: standard-webhooks, secret: env:STANDARD, workflow: quick, input: "{'amount': body.amount}", keep: 1d}
  plain: {scheme: hmac, secret: env:PLAIN, header: X-Signature, event: body.type, payload: query, keep: 1d,
          match: body.size > 1}
  short: {scheme: hmac, secret: env:PLAIN, header: X-Signature, event: "'short'"}
"""
MENDED = SOURCES.replace("key: body.repository,", "key: body.repo,")
PUSH = '{"repo": "a/b"}'


class KeepingWorld(WebhookWorld):
    """Webhooks, and the routes of what they brought."""

    def __init__(self, text: str = SOURCES) -> None:
        super().__init__(text, ENVIRONMENT)
        routes = (*webhook_routes(lambda: self.sources), *delivery_routes(lambda: self.sources))
        self.app = app_of(self.parts, routes)

    def change(self, text: str) -> None:
        self.sources = sources_of(check_webhooks(text).document, self.secrets)

    def listed(self, **query: Any) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.get("/deliveries", **query).json["items"]
        return items

    def replay(self, source: str, delivery: str, **more: Any) -> tuple[int, dict[str, Any]]:
        reply = self.post("/deliveries:replay", {"source": source, "delivery": delivery, **more})
        return reply.status, reply.json

    def push(self, number: int, body: str = PUSH) -> int:
        return self.deliver("github", body, github(body, **{"X-GitHub-Delivery": f"d-{number}"})).status


@pytest.fixture
def world() -> KeepingWorld:
    return KeepingWorld()


def test_a_refused_delivery_is_replayed_once_the_mapping_is_mended(world: KeepingWorld) -> None:
    assert world.push(1) == 400
    (one,) = world.listed()
    assert (one["source"], one["id"], one["outcome"], one["made"]) == ("github", "d-1", "refused", None)
    assert one["detail"].startswith("unmappable: `key` fails for this delivery")
    assert world.replay("github", "d-1")[0] == 400

    world.change(MENDED)
    assert world.replay("github", "d-1") == (202, {"event_id": "github:d-1~replay-1", "replay": 1})
    (event,) = world.queued
    assert (event.topic.name, event.topic.key, event.payload) == ("github.push", "=a/b", {"repo": "a/b"})
    assert world.listed()[0]["replays"] == ["github:d-1~replay-1"]


def test_what_was_published_is_published_once_more_only_where_that_is_asked_for(world: KeepingWorld) -> None:
    world.change(MENDED)
    assert world.push(1) == 202
    status, problem = world.replay("github", "d-1")
    assert (status, problem["code"]) == (409, "already_taken")
    assert problem["detail"] == "the delivery was published as github:d-1"
    again = [world.replay("github", "d-1", again=True)[1]["event_id"] for _ in range(2)]
    assert again == ["github:d-1~replay-1", "github:d-1~replay-2"]
    assert [event.id for event in world.queued] == ["github:d-1", *again]


def test_what_was_replayed_is_not_replayed_once_more_by_accident(world: KeepingWorld) -> None:
    world.push(1)
    world.change(MENDED)
    assert world.replay("github", "d-1")[0] == 202
    status, problem = world.replay("github", "d-1")
    assert (status, problem["code"]) == (409, "already_replayed")
    assert world.replay("github", "d-1", again=True)[1]["replay"] == 2
    assert len(world.queued) == 2


def test_a_retry_that_was_taken_counts_before_the_refusal_that_came_before_or_after_it(world: KeepingWorld) -> None:
    world.push(1)
    world.clock.advance(DAY_MS)
    world.change(MENDED)
    assert world.push(1) == 202
    world.clock.advance(DAY_MS)
    world.change(SOURCES)
    assert world.push(1) == 400
    assert world.replay("github", "d-1")[1]["code"] == "already_taken"


def test_a_delivery_with_the_longest_id_is_replayed_too(world: KeepingWorld) -> None:
    world.change(MENDED)
    longest = "d" * (KEY_CHARACTERS - len("github:"))
    assert world.deliver("github", PUSH, github(PUSH, **{"X-GitHub-Delivery": longest})).status == 202
    made = [world.replay("github", longest, again=True) for _ in range(2)]
    assert [status for status, _ in made] == [202, 202]
    hashed = hashlib.sha256(longest.encode()).hexdigest()
    assert [one["event_id"] for _, one in made] == [f"github:sha256:{hashed}~replay-{n}" for n in (1, 2)]
    assert [len(one["replays"]) for one in world.listed()] == [2]


def test_two_replays_at_the_same_time_are_one_event(world: KeepingWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.push(1)
    world.change(MENDED)

    async def none(self: object, delivery: object) -> int:  # each looks before the other has written
        return 0

    monkeypatch.setattr(deliveries.Deliveries, "replays", none)
    assert {world.replay("github", "d-1")[1]["event_id"] for _ in range(2)} == {"github:d-1~replay-1"}
    assert {event.id for event in world.queued} == {"github:d-1~replay-1"}
    asked = [world.replay("github", "d-1", again=True)[1]["replay"] for _ in range(2)]
    assert asked == [2, 3]


def test_a_replay_starts_a_run_of_its_own(world: KeepingWorld) -> None:
    body = '{"amount": 5}'
    first = world.deliver("shop", body, standard(body)).json["run_id"]
    status, answer = world.replay("shop", "msg_1", again=True)
    assert (status, answer["replay"]) == (202, 1)
    assert answer["run_id"] != first
    assert world.listed(source="shop")[0]["outcome"] == "started"


def test_a_delivery_that_does_not_match_is_ignored_and_kept(world: KeepingWorld) -> None:
    body = '{"type": "t", "size": 1}'
    reply = world.deliver("plain", body, plain(body))
    assert (reply.status, reply.json) == (202, {"ignored": True})
    (one,) = world.listed()
    assert (one["outcome"], one["id"][:7]) == ("ignored", "sha256:")
    assert world.replay("plain", one["id"]) == (202, {"ignored": True})
    assert world.messages == []
    world.change(SOURCES.replace("size > 1", "size > 0"))
    assert world.replay("plain", one["id"])[1]["replay"] == 1


def test_a_match_that_is_no_truth_or_fails_is_a_delivery_that_cannot_be_mapped(world: KeepingWorld) -> None:
    for match, body in (("body.type", '{"type": "t"}'), ("body.size > 1", '{"type": "t"}')):
        world.change(SOURCES.replace("body.size > 1", match))
        assert told(world.deliver("plain", body, plain(body))) == (400, "unmappable")
    assert world.messages == []


def test_a_body_that_is_no_json_is_kept_as_it_came(world: KeepingWorld) -> None:
    raw = b"\xff\xfe"
    assert world.deliver("github", raw, github(raw)).status == 400
    (one,) = world.listed()
    assert (one["bytes"], one["detail"][:8]) == (2, "bad_json")
    assert world.replay("github", one["id"])[1]["code"] == "bad_json"


def test_nothing_secret_is_kept(world: KeepingWorld) -> None:
    secrets = {"Authorization": "Basic hush", "Cookie": "a=hush", "X-Gitlab-Token": "hush", "X-Api-Key": "hush"}
    body = '{"type": "t", "size": 2}'
    assert world.deliver("plain", body, plain(body, **secrets), "token=hush&a=1").status == 202
    kept = [event for events in world.store._events.values() for event in events.values()
            if event.topic.name == deliveries.TOPIC]  # fmt: skip
    (entry,) = (json.loads(event.payload) for event in kept)
    assert (entry["headers"], entry["query"]) == ({"content-type": "application/json"}, "a=1")
    assert plain(body)["X-Signature"] not in str(entry)


def test_the_id_of_a_delivery_is_kept_whatever_its_header_is_called(world: KeepingWorld) -> None:
    world.change(SOURCES + "  sms: {scheme: twilio, secret: env:PLAIN, event: \"'sms'\", keep: 1d}\n")
    source = world.sources["sms"]
    assert source.signings[0].id_header == "i-twilio-idempotency-token"
    headers = {"i-twilio-idempotency-token": "1", "x-twilio-signature": "s", "x-forwarded-for": "192.0.2.1"}
    assert kept_headers(headers, source.signings[0]) == {"i-twilio-idempotency-token": "1"}


def test_a_large_body_is_a_claim_check_until_it_is_replayed(world: KeepingWorld) -> None:
    body = json.dumps({"repository": "a/b", "large": "x" * DELIVERY_BYTES})
    assert world.push(1, body) == 202
    (stored,) = (event for topic, events in world.store._events.items() for event in events.values()
                 if topic.name == deliveries.TOPIC)  # fmt: skip
    assert len(stored.payload) < 1_000
    assert world.replay("github", "d-1", again=True)[0] == 202
    assert world.queued[-1].payload["large"] == "x" * DELIVERY_BYTES


def test_a_source_that_does_not_ask_for_it_keeps_nothing(world: KeepingWorld) -> None:
    assert world.deliver("short", "{}", plain("{}")).status == 202
    assert world.listed() == world.listed(source="short") == []


def test_what_is_kept_expires(world: KeepingWorld) -> None:
    world.push(1)
    world.clock.advance(7 * DAY_MS - 1)
    assert len(world.listed()) == 1
    world.clock.advance(1)
    assert world.listed() == []
    assert world.replay("github", "d-1")[1]["code"] == "unknown_delivery"


def test_a_full_day_takes_what_comes_and_keeps_no_more(
    world: KeepingWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(deliveries, "DELIVERIES_KEPT", 2)
    world.change(MENDED)
    assert [world.push(number) for number in range(4)] == [202] * 4
    assert len(world.listed()) == 2
    assert caplog.text.count("no longer kept") == 1
    world.clock.advance(DAY_MS)
    world.push(9)
    assert len(world.listed()) == 3


def test_deliveries_are_listed_newest_first_page_by_page_over_sources_and_days(world: KeepingWorld) -> None:
    for number in range(5):
        world.push(number)
        body = f'{{"type": "t", "size": {number + 2}}}'
        world.deliver("plain", body, plain(body))
        world.clock.advance(DAY_MS // 6)
    whole = world.listed()
    assert [one["at"] for one in whole] == sorted((one["at"] for one in whole), reverse=True)
    assert len(whole) == 10
    page = world.get("/deliveries", limit=3).json
    found = page["items"]
    while page["next_cursor"]:
        page = world.get("/deliveries", limit=3, cursor=page["next_cursor"]).json
        found += page["items"]
    assert found == whole
    assert world.listed(source="plain") == [one for one in whole if one["source"] == "plain"]
    assert world.listed(since=whole[3]["at"]) == whole[:4]


def test_a_cursor_of_another_list_looks_into_no_days_to_come(
    world: KeepingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be of any year, and each day costs a read for each source."""
    days: list[int] = []
    of_day = Deliveries.of_day

    async def counted(self: Deliveries, sources: Sequence[str], day_ms: int) -> list[Listed]:
        days.append(day_ms)
        assert len(days) < 99
        return await of_day(self, sources, day_ms)

    monkeypatch.setattr(Deliveries, "of_day", counted)
    cursor = encode_cursor(world.clock.now_ms() + 1_000 * DAY_MS, "")
    assert world.get("/deliveries", cursor=cursor).status == 200
    assert 0 < len(days) <= 31


def test_an_unknown_source_or_delivery_is_told(world: KeepingWorld) -> None:
    assert told(world.get("/deliveries", source="none")) == (404, "unknown_source")
    assert world.replay("none", "d-1")[1]["code"] == "unknown_source"
    assert world.replay("github", "d-1")[1]["code"] == "unknown_delivery"


def test_a_delivery_that_came_before_is_a_duplicate(world: KeepingWorld) -> None:
    world.change(MENDED)
    replies = [world.deliver("github", PUSH, github(PUSH)).json for _ in range(2)]
    assert [reply.get("duplicate") for reply in replies] == [None, True]
    assert replies[0]["event_id"] == replies[1]["event_id"]
    assert len(world.listed()) == 1
    body = '{"amount": 5}'
    starts = [world.deliver("shop", body, standard(body)).json for _ in range(2)]
    assert [reply.get("duplicate") for reply in starts] == [None, True]
