"""`stepwell recover`: pass after pass, and one report."""

from __future__ import annotations

from .conftest import Cli, FakeApi


def test_the_passes_are_added_up(api: FakeApi, cli: Cli) -> None:
    first = {"looked": 500, "woken": {"overdue": 2}, "first": [{"run_id": "r1", "why": "overdue"}], "rearmed": 499,
             "next_cursor": "c1"}  # fmt: skip
    second = {"looked": 7, "woken": {"overdue": 1, "nothing_wakes": 1}, "first": [], "rearmed": 7, "next_cursor": None}
    api.on("POST", "/recover", (200, first), (200, second))
    told = cli("recover", "--all")
    assert told.exit_code == 0
    assert "507 runs looked at, 4 woken, 506 armed again" in told.stdout
    assert "3 waited longer than they should" in told.stdout
    assert "a defect of Stepwell" in told.stdout
    assert "r1: overdue" in told.stdout
    assert [call.body for call in api.calls] == [{"all": True}, {"all": True, "cursor": "c1"}]


def test_without_all_only_what_is_due_is_looked_at(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/recover", (200, {"looked": 0, "woken": {}, "first": [], "rearmed": 0, "next_cursor": None}))
    assert cli("recover").stdout == "0 runs looked at, 0 woken\n"
    assert api.calls[0].body == {}
    assert '"looked": 0' in cli("recover", "--json").stdout
