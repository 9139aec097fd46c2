"""`stepwell webhook deliveries` and `stepwell webhook replay`: what is asked of the API, and what is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import Cli, FakeApi, problem

ONE: dict[str, Any] = {
    "source": "shop", "id": "d-1", "at": "2026-03-01T13:00:00.000Z", "outcome": "published", "detail": "paid A-1",
    "made": "shop:d-1", "replays": ["shop:d-1~replay-1"], "bytes": 20, "expires_at": "2026-03-08T13:00:00.000Z",
}  # fmt: skip
REFUSED = {**ONE, "id": "d-2", "outcome": "refused", "detail": "unmappable: no key", "made": None, "replays": []}


def test_deliveries_are_a_table_or_json(cli: Cli, api: FakeApi) -> None:
    api.on("GET", "/deliveries", (200, {"items": [REFUSED, ONE], "next_cursor": "next"}))
    shown = cli("webhook", "deliveries", "shop", "--since", "2026-03-01T00:00:00Z", "--limit", "2")
    assert shown.exit_code == 0
    for text in ("d-2", "refused", "unmappable: no key", "shop:d-1~replay-1"):
        assert text in shown.stdout
    assert "--cursor next" in shown.stderr
    assert api.calls[0].query == {"source": ["shop"], "since": ["2026-03-01T00:00:00+00:00"], "limit": ["2"]}
    assert json.loads(cli("webhook", "deliveries", "--json").stdout)["items"] == [REFUSED, ONE]


def test_without_deliveries_it_is_told_how_they_are_kept(cli: Cli, api: FakeApi) -> None:
    api.on("GET", "/deliveries", (200, {"items": [], "next_cursor": None}))
    assert "`keep: 7d`" in cli("webhook", "deliveries").stderr


def test_one_delivery_is_replayed(cli: Cli, api: FakeApi) -> None:
    api.on("POST", "/deliveries:replay", (202, {"event_id": "shop:d-1~replay-1", "replay": 1}))
    told = cli("webhook", "replay", "shop", "d-1", "--again")
    assert (told.exit_code, told.stdout) == (0, "d-1: sent as event shop:d-1~replay-1\n")
    assert api.calls[0].body == {"source": "shop", "delivery": "d-1", "again": True}


IDS = [f"72d3162e-0000-4000-8000-00000000000{n}" for n in (1, 2)] + ["6f2a9b10-0000-4000-8000-000000000000", "d-1"]


@pytest.mark.parametrize("columns", [40, 80, 100, 160])
def test_an_id_is_never_broken_over_lines(
    cli: Cli, api: FakeApi, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is shown of it names it for a replay."""
    monkeypatch.setenv("COLUMNS", str(columns))
    api.on("GET", "/deliveries", (200, {"items": [{**ONE, "id": one} for one in IDS], "next_cursor": None}))
    words = cli("webhook", "deliveries", "shop").stdout.split()
    for one in IDS:
        (shown,) = {word for word in words if one.startswith(word) and len(word) >= min(8, len(one))}
        assert [other for other in IDS if other.startswith(shown)] == [one]
        assert columns < 100 or shown == one


def test_ids_that_no_table_has_room_for_are_shown_by_their_beginnings(cli: Cli, api: FakeApi) -> None:
    api.on("GET", "/deliveries", (200, {"items": [{**ONE, "id": "ab" * 32}], "next_cursor": None}))
    assert " abababab " in cli("webhook", "deliveries", "shop").stdout


def test_a_delivery_is_replayed_by_the_beginning_of_its_id(cli: Cli, api: FakeApi) -> None:
    missing = problem(404, "unknown_delivery", "shop has no delivery 6f2a9b10")
    api.on("GET", "/deliveries", (200, {"items": [{**ONE, "id": one} for one in IDS], "next_cursor": None}))
    api.on("POST", "/deliveries:replay", missing, (202, {"run_id": "run_1", "replay": 1}), missing, missing)
    told = cli("webhook", "replay", "shop", "6f2a9b10")
    assert (told.exit_code, told.stdout) == (0, f"{IDS[2]}: started run_1\n")
    assert api.calls[-1].body == {"source": "shop", "delivery": IDS[2], "again": False}
    several = cli("webhook", "replay", "shop", "72d3162e")
    assert (several.exit_code, "[ambiguous_delivery]" in several.stderr) == (2, True)
    assert "2 deliveries have an id that begins with 72d3162e" in several.stderr
    none = cli("webhook", "replay", "shop", "nothing")
    assert (none.exit_code, "[unknown_delivery]" in none.stderr) == (3, True)


def test_one_that_was_taken_before_is_refused_with_what_to_do(cli: Cli, api: FakeApi) -> None:
    refusal = problem(409, "already_taken", "the delivery was published as shop:d-1", hint="use --again")
    api.on("POST", "/deliveries:replay", refusal)
    told = cli("webhook", "replay", "shop", "d-1")
    assert (told.exit_code, "--again" in told.stderr) == (3, True)


def test_all_since_a_time_are_replayed_in_their_order_and_each_is_told(cli: Cli, api: FakeApi) -> None:
    pages = [{"items": [{**ONE, "id": "d-3"}, REFUSED], "next_cursor": "c"}, {"items": [ONE], "next_cursor": None}]
    api.on("GET", "/deliveries", *((200, page) for page in pages))
    api.on("POST", "/deliveries:replay", problem(409, "already_taken", "it was published"),
           (202, {"run_id": "run_1", "replay": 1}), problem(400, "unmappable", "no key"))  # fmt: skip
    told = cli("webhook", "replay", "shop", "--since", "2h")
    assert told.stdout.splitlines() == ["d-1: skipped: it was published", "d-2: started run_1",
                                        "d-3: refused: no key"]  # fmt: skip
    assert told.exit_code == 1


def test_a_delivery_that_came_on_several_days_is_replayed_once(cli: Cli, api: FakeApi) -> None:
    listed = [{**ONE, "id": name} for name in ("d-1", "d-2", "d-1")]
    api.on("GET", "/deliveries", (200, {"items": listed, "next_cursor": None}))
    api.on("POST", "/deliveries:replay", (202, {"event_id": "e", "replay": 1}))
    assert cli("webhook", "replay", "shop", "--since", "3d", "--again").exit_code == 0
    assert [call.body["delivery"] for call in api.calls if call.method == "POST"] == ["d-1", "d-2"]


def test_a_replay_is_of_one_delivery_or_of_all_since_a_time(cli: Cli) -> None:
    for arguments in ((), ("d-1", "--since", "2h")):
        result = cli("webhook", "replay", "shop", *arguments)
        assert (result.exit_code, "[bad_usage]" in result.stderr) == (2, True)
