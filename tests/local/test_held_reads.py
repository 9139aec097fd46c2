"""Reads that the development server holds: whoever has the current answer gets the next one as it is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stepwell.local.commits import Commits
from stepwell.local.database import Database
from stepwell.local.gateway import Gateway, preferred_seconds
from tests.local.kit import DEADLINE_SECONDS
from tests.local.test_gateway import call, scope

TAGGED = ((b"if-none-match", b'W/"0"'), (b"prefer", b"respond-async, wait=20"))


class Counting:
    """An API with one answer, whose tag is its number."""

    def __init__(self) -> None:
        self.number, self.looks = 0, 0

    async def resolve_async(self, event: dict[str, Any], context: object) -> Mapping[str, Any]:
        self.looks += 1
        etag = f'W/"{self.number}"'
        status = 304 if event["headers"].get("if-none-match") == etag else 200
        return {"statusCode": status, "headers": {"ETag": etag}, "body": "" if status == 304 else str(self.number)}


async def ask(api: Counting, commits: Commits, *headers: tuple[bytes, bytes]) -> tuple[int, dict[str, str], bytes]:
    gateway = Gateway(lambda: api, commits=commits)
    asked = asyncio.ensure_future(call(gateway, scope("/runs/a", "GET", "", *headers)))
    while not api.looks:  # the first look is at what the reader has
        await asyncio.sleep(0.001)
    api.number += 1
    commits.tell()
    return await asyncio.wait_for(asked, DEADLINE_SECONDS)


def test_a_reader_with_the_current_answer_gets_the_next_one_at_its_commit() -> None:
    api = Counting()
    status, headers, body = asyncio.run(ask(api, Commits(), *TAGGED))
    assert (status, body, headers["preference-applied"]) == (200, b"1", "wait=20")
    assert api.looks == 2


@pytest.mark.parametrize("headers", [TAGGED[:1], TAGGED[1:], ((b"prefer", b"wait=20"), (b"if-none-match", b'"old"'))])
def test_other_readers_are_answered_at_once(headers: tuple[tuple[bytes, bytes], ...]) -> None:
    """Without a tag, without the preference, or with another tag than the current one."""
    api = Counting()
    asyncio.run(ask(api, Commits(), *headers))
    assert api.looks == 1


def test_a_commit_that_changes_nothing_for_the_reader_leaves_it_held_until_its_time_is_up() -> None:
    api, commits = Counting(), Commits()

    async def two_commits() -> int:
        gateway = Gateway(lambda: api, commits=commits)
        asked = asyncio.ensure_future(call(gateway, scope("/", "GET", "", TAGGED[0], (b"prefer", b"wait=1"))))
        while not api.looks:
            await asyncio.sleep(0.001)
        commits.tell()
        return (await asyncio.wait_for(asked, DEADLINE_SECONDS))[0]

    assert asyncio.run(two_commits()) == 304
    assert api.looks > 1


def test_a_server_that_stops_answers_the_reads_that_it_holds() -> None:
    api, commits = Counting(), Commits()

    async def stopped() -> int:
        gateway = Gateway(lambda: api, commits=commits)
        asked = asyncio.ensure_future(call(gateway, scope("/", "GET", "", *TAGGED)))
        while not api.looks:
            await asyncio.sleep(0.001)
        gateway.let_go()
        return (await asyncio.wait_for(asked, DEADLINE_SECONDS))[0]

    assert asyncio.run(stopped()) == 304


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"prefer": "wait=20", "if-none-match": '"a"'}, 20),
        ({"prefer": "handling=lenient; wait=900", "if-none-match": '"a"'}, 25),
        ({"prefer": "awaits=3", "if-none-match": '"a"'}, 0),
        ({"prefer": "wait=20"}, 0),
    ],
)
def test_a_read_is_held_for_as_long_as_it_prefers_and_at_most_25_seconds(headers: dict[str, str], seconds: int) -> None:
    assert preferred_seconds(headers) == seconds


def test_each_commit_of_the_store_is_told(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.db")
    for lazily in (False, True):
        told = database.commits.next()
        database.change("INSERT INTO definitions (version, body) VALUES (?, ?)", (f"{lazily}", "{}"), lazily=lazily)
        assert told.done()
    told = database.commits.next()
    with database.transaction() as execute:
        execute("INSERT INTO definitions (version, body) VALUES (?, ?)", ("c", "{}"))
        assert not told.done()
    assert told.done()
    database.close()
