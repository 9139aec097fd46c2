"""`stepwell dlq`: messages that nobody could take."""

from __future__ import annotations

import json

from .conftest import Cli, FakeApi

LETTER = {"id": "m1", "queue": "Resume", "type": "publish", "run_id": None, "token": None, "why": "its handler failed",
          "event": {"name": "paid", "key": "A-1", "id": "e1"}, "sent_at": "2026-03-01T13:00:00.000Z", "deliveries": 6,
          "sent_again": 24}  # fmt: skip


def test_letters_are_listed_with_what_they_are_of_and_why(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/dlq", (200, {"items": [LETTER], "next_cursor": None}), (200, {"items": [], "next_cursor": None}))
    told = cli("dlq", "list").stdout
    assert "m1  publish  event paid e1  from Resume" in told
    assert "its handler failed" in told
    assert cli("dlq", "list").stdout == "no dead letters\n"
    assert json.loads(cli("dlq", "list", "--json").stdout) == {"items": [], "next_cursor": None}


def test_a_list_of_as_many_letters_as_the_api_gives_says_that_there_may_be_more(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/dlq", page(*map(str, range(500))))
    told = cli("dlq", "list")
    assert told.stderr == "these are 500; there may be more, which are listed once these are gone\n"


def page(*ids: str) -> tuple[int, dict[str, object]]:
    return 200, {"items": [{**LETTER, "id": one} for one in ids], "next_cursor": None}


def test_the_beginning_of_an_id_is_enough_where_only_one_letter_has_it(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/dlq", page("m1-abc", "m2-abc", "m2"))
    api.on("GET", "/dlq/m1-abc", (200, LETTER))
    api.on("GET", "/dlq/m2", (200, LETTER))
    assert cli("dlq", "show", "m1").exit_code == 0
    assert cli("dlq", "show", "m2").exit_code == 0
    several = cli("dlq", "show", "m")
    assert several.exit_code == 2
    assert "3 dead letters have an id that begins with m: m1-abc, m2-abc, m2" in several.stderr


def test_a_letter_is_shown_as_json(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/dlq", page("m1"))
    api.on("GET", "/dlq/m1", (200, {**LETTER, "message": {"type": "publish"}}))
    assert '"type": "publish"' in cli("dlq", "show", "m1").stdout


def test_letters_are_sent_back_by_id_or_all(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/dlq", page("m1", "m2"))
    api.on("POST", "/dlq:redrive", (200, {"sent": ["m1"], "left": ["m2"]}), (200, {"sent": ["m1"], "left": []}))
    told = cli("dlq", "redrive", "m1", "m2")
    assert told.exit_code == 1
    assert "sent 1 message back" in told.stdout
    assert "m2 stays: it cannot be read, or is not there" in told.stdout
    assert cli("dlq", "redrive", "--all").exit_code == 0
    assert [call.body for call in api.calls if call.method == "POST"] == [{"ids": ["m1", "m2"]}, {"all": True}]
    assert len([call for call in api.calls if call.method == "GET"]) == 1  # the list: on AWS it takes seconds
    assert cli("dlq", "redrive").exit_code == 2


def test_all_letters_are_sent_back_however_many_calls_it_takes(api: FakeApi, cli: Cli) -> None:
    answers = (
        {"sent": ["m1"], "left": ["m2", "odd"]},
        {"sent": ["m2"], "left": ["odd"]},
        {"sent": [], "left": ["odd"]},
    )
    api.on("POST", "/dlq:redrive", *((200, one) for one in answers))
    told = cli("dlq", "redrive", "--all")
    assert told.exit_code == 1
    assert told.stdout == "sent 2 messages back\n  odd stays: it cannot be read, or is not there\n"


def test_letters_are_deleted_by_id_or_all_that_cannot_be_read(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/dlq", page("m1-abc"))
    api.on("POST", "/dlq:delete", (200, {"deleted": ["m1-abc"], "left": ["m2"]}), (200, {"deleted": [], "left": []}))
    told = cli("dlq", "delete", "m1", "m2")
    assert (told.exit_code, told.stdout) == (1, "deleted 1 message\n  m2 is not there\n")
    assert cli("dlq", "delete", "--unreadable").stdout == "deleted 0 messages\n"
    assert [call.body for call in api.calls if call.method == "POST"] == [
        {"ids": ["m1-abc", "m2"]}, {"unreadable": True}]  # fmt: skip
    assert cli("dlq", "delete").exit_code == 2


def test_deliveries_that_are_not_known_are_not_told(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/dlq", (200, {"items": [{**LETTER, "deliveries": 0}], "next_cursor": None}))
    assert "deliveries" not in cli("dlq", "list").stdout
