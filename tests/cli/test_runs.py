"""Starting runs and looking at them."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from stepwell.client import Client
from stepwell.client.errors import Unreachable

from .conftest import COMPLETED, FAILED, HISTORY, RUN, Cli, FakeApi, problem

START = "/workflows/order-review/runs"
ID = RUN["run_id"]


def test_run_sends_input_id_key_and_tags_and_tells_the_id(api: FakeApi, cli: Cli) -> None:
    api.on("POST", START, (201, RUN))
    result = cli("run", "order-review", "-i", '{"a": 1}', "--id", "r1", "--key", "k", "--tag", "a=b=c", "--tag", "d=")
    assert result.exit_code == 0
    assert f"started {ID} (order-review), waiting" in result.stdout
    (call,) = api.calls
    assert call.body == {"input": {"a": 1}, "run_id": "r1", "tags": {"a": "b=c", "d": ""}}
    assert call.headers["idempotency-key"] == "k"


@pytest.mark.parametrize("options", [[], ["--json"], ["--wait"]])
def test_run_prints_the_warnings_of_a_start_on_stderr(api: FakeApi, cli: Cli, options: list[str]) -> None:
    api.on("POST", START, (201, {**RUN, "warnings": ["order has no parameter `skuu`, so it was left out."]}))
    api.on("GET", f"/runs/{ID}", (200, COMPLETED))
    result = cli("run", "order-review", *options)
    assert result.stderr.startswith("warning: order has no parameter `skuu`, so it was left out.\n")
    assert "skuu" not in result.stdout or options == ["--json"]


def test_run_has_a_priority_if_it_is_given(api: FakeApi, cli: Cli) -> None:
    api.on("POST", START, (201, RUN))
    assert cli("run", "order-review", "--priority", "0").exit_code == 0
    assert cli("run", "order-review").exit_code == 0
    assert [call.body.get("priority") for call in api.calls] == [0, None]


def test_run_starts_later_by_a_time_or_a_delay(api: FakeApi, cli: Cli) -> None:
    api.on("POST", START, (201, RUN))
    before = datetime.now(UTC)
    assert cli("run", "order-review", "--start-at", "2027-01-01T09:00:00+01:00").exit_code == 0
    assert cli("run", "order-review", "--delay", "2h").exit_code == 0
    first, second = (call.body["start_at"] for call in api.calls)
    assert first == "2027-01-01T09:00:00+01:00"
    assert timedelta(hours=2) <= datetime.fromisoformat(second) - before < timedelta(hours=2, minutes=5)


def test_a_time_that_the_change_to_summer_time_leaves_out_is_refused(
    api: FakeApi, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour earlier was taken without a word. The hour that comes twice in autumn is there."""
    api.on("POST", START, (201, RUN))
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    result = cli("run", "order-review", "--start-at", "2027-03-28T02:30")
    assert (result.exit_code, api.calls) == (2, [])
    assert "2027-03-28T02:30:00 is no time here: the clocks are put forward over it [bad_time]" in result.stderr
    assert "hint: write 2027-03-28T03:30:00, or a time with its zone" in result.stderr
    for there in ("2027-03-28T01:59", "2027-03-28T03:00", "2027-03-28T02:30Z", "2027-10-31T02:30"):
        assert cli("run", "order-review", "--start-at", there).exit_code == 0, there


@pytest.mark.parametrize("wrong", ["--start-at soon", "--delay soon", "--delay 2h --start-at 2027-01-01"])
def test_run_refuses_a_start_that_is_no_time(api: FakeApi, cli: Cli, wrong: str) -> None:
    assert cli("run", "order-review", *wrong.split()).exit_code == 2
    assert api.calls == []


def test_runs_leaves_out_those_of_stepwells_own_workflows_unless_they_are_asked_for(api: FakeApi, cli: Cli) -> None:
    own = {**RUN, "run_id": "run_b", "workflow": "stepwell:batch"}
    api.on("GET", "/runs", (200, {"items": [own, RUN], "next_cursor": None}))
    assert "run_b" not in (told := cli("runs").stdout)
    assert ID in told
    assert "run_b" in cli("runs", "--workflow", "stepwell:batch").stdout
    assert len(json.loads(cli("runs", "--json").stdout)["items"]) == 2


def test_show_has_the_input_and_the_next_command_of_a_run_that_failed(api: FakeApi, cli: Cli) -> None:
    step = {**FAILED["steps"]["charge"], "branches": {"total": 3, "completed": 2, "failed": 1}}
    api.on("GET", f"/runs/{ID}", (200, FAILED), (200, {**FAILED, "steps": {"charge": step}}),
           (200, {**FAILED, "outcome": "partial_rollback"}))  # fmt: skip
    first, forked, undone = (" ".join(cli("show", ID).stdout.split()) for _ in range(3))
    assert 'input {"order_id": "A-1"}' in first
    assert f"next stepwell redrive {ID}" in first
    assert f"next stepwell redrive {ID} stepwell show {ID} --branches failed" in forked
    assert "redrive" not in undone


def test_runs_tells_when_a_run_starts(api: FakeApi, cli: Cli) -> None:
    later = (datetime.now(UTC) + timedelta(days=31)).isoformat()
    pending = {**RUN, "status": "pending", "waiting_for": None, "start_at": later}
    api.on("GET", "/runs", (200, {"items": [pending], "next_cursor": None}))
    assert re.search(r"  starts at \d{4}-\d\d-\d\d \d\d:\d\d \(in 3[01] d\)", cli("runs").stdout)


def test_run_says_when_the_key_was_used_before(api: FakeApi, cli: Cli) -> None:
    api.on("POST", START, (200, RUN))
    assert f"already started: {ID}" in cli("run", "order-review").stdout


def test_run_takes_its_input_from_a_file_and_from_standard_input(api: FakeApi, cli: Cli, tmp_path: Path) -> None:
    api.on("POST", START, (201, RUN))
    file = tmp_path / "order.json"
    file.write_text('{"from": "file"}')
    assert cli("run", "order-review", "-i", str(file)).exit_code == 0
    assert cli("run", "order-review", "-i", "-", stdin='{"from": "stdin"}').exit_code == 0
    assert cli("run", "order-review", "-i", "null").exit_code == 0
    assert [call.body["input"] for call in api.calls] == [{"from": "file"}, {"from": "stdin"}, None]


def test_standard_input_is_utf_8_with_the_mark_of_windows_or_without(api: FakeApi, cli: Cli) -> None:
    api.on("POST", START, (201, RUN))
    assert cli("run", "order-review", "-i", "-", stdin=b'\xef\xbb\xbf{"from": "Z\xc3\xbcrich"}').exit_code == 0
    assert [call.body["input"] for call in api.calls] == [{"from": "Zürich"}]
    result = cli("run", "order-review", "-i", "-", stdin=b'{"from": "Z\xfcrich"}')
    assert result.exit_code == 2
    assert "cannot read standard input: 'utf-8' codec can't decode byte 0xfc" in result.stderr
    assert "[unreadable]" in result.stderr


@pytest.mark.parametrize(("ended", "status"), [(COMPLETED, 0), (FAILED, 1)])
@pytest.mark.parametrize("option", ["--wait", "--watch"])
def test_run_to_the_end_exits_by_how_it_ended(
    api: FakeApi, cli: Cli, ended: dict[str, Any], status: int, option: str
) -> None:
    api.on("POST", START, (201, RUN))
    api.has_run(RUN, ended)
    result = cli("run", "order-review", option)
    assert result.exit_code == status
    assert ended["status"] in result.stdout


def test_watch_prints_each_history_entry_once_and_then_the_run(api: FakeApi, cli: Cli) -> None:
    api.has_run(RUN, RUN, COMPLETED)
    result = cli("watch", ID)
    assert result.exit_code == 0
    assert result.stdout.count("step.completed") == 1
    assert "13:00:01" in result.stdout
    assert '{"confirmation": "A-1 confirmed"}' in result.stdout
    histories = [call for call in api.calls if call.path.endswith("/history")]
    assert histories[-1].query["after"] == ["0-2"]
    assert result.stdout.count('step.output           validate  {"word": "checking"}') == 1


@pytest.mark.parametrize(
    ("between", "marks"),
    [
        (None, 1),  # its worker died
        ({"type": "step.failed", "attempt": 1}, 1),  # and is tried again
        ({"type": "step.completed", "attempt": 1}, 0),  # a loop came to it again
    ],
)
def test_what_a_step_emits_in_a_further_try_begins_with_a_mark(
    api: FakeApi, cli: Cli, between: dict[str, Any] | None, marks: int
) -> None:
    """And what it emits when its node is visited again does not."""
    api.has_run(RUN, RUN, COMPLETED)
    place = {"at": "2026-03-01T13:00:01.000Z", "token": "0", "step": "say"}
    entries = [{**HISTORY[0], **place, **between}] if between else []
    api.on("GET", f"/runs/{ID}/history", (200, {"items": entries, "next_cursor": None}))
    piece = {"cursor": "c1", "token": "0", "step": "say", "attempt": 1, "first": True}
    pieces = [{**piece, "at": f"2026-03-01T13:00:0{second}.000Z", "data": f"word {second}"} for second in (0, 2)]
    api.on("GET", f"/runs/{ID}/output", (200, {"items": pieces[:1], "next_cursor": "c1"}),
           (200, {"items": pieces[1:], "next_cursor": "c2"}), (200, {"items": [], "next_cursor": "c2"}))  # fmt: skip
    told = cli("watch", ID).stdout
    assert told.count("step.output_void") == marks
    assert told.index("word 0") < (told.index("is void") if marks else told.index("word 2")) <= told.index("word 2")


def test_watch_tells_what_a_step_emits_before_what_came_later(api: FakeApi, cli: Cli) -> None:
    """It told all that steps had emitted since its last look behind the history of that time."""
    api.has_run(RUN, RUN, COMPLETED)
    piece = {"cursor": "c1", "token": "0", "step": "say", "attempt": 1, "first": True}
    pieces = [{**piece, "at": f"2026-03-01T13:00:0{at}.500Z", "data": f"word {at}"} for at in (0, 2)]
    entries = [
        {**HISTORY[0], "at": f"2026-03-01T13:00:0{at}.000Z", "id": f"0@{at}.0", "type": f"entry{at}"} for at in (0, 1)
    ]
    api.on("GET", f"/runs/{ID}/history", (200, {"items": entries, "next_cursor": None}))
    api.on("GET", f"/runs/{ID}/output", (200, {"items": pieces, "next_cursor": "c1"}))
    told = cli("watch", ID).stdout
    places = [told.index(word) for word in ("entry0", "word 0", "entry1", "word 2")]
    assert places == sorted(places)


def test_watch_as_json_prints_the_ended_run_and_nothing_else(api: FakeApi, cli: Cli) -> None:
    api.has_run(RUN, FAILED)
    result = cli("watch", ID, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == FAILED


def test_watch_goes_on_when_the_server_was_away_for_a_moment(
    api: FakeApi, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.has_run(RUN, COMPLETED)
    send, sent = Client.send, []

    def cut_once(self: Client, request: Any) -> object:
        sent.append(request)
        if len(sent) == 4:
            raise Unreachable("no server answers")
        return send(self, request)

    monkeypatch.setattr(Client, "send", cut_once)
    assert cli("watch", ID).exit_code == 0
    assert len(sent) == 7


def test_show_tells_where_a_run_stands_in_words(api: FakeApi, cli: Cli) -> None:
    api.on("GET", f"/runs/{ID}", (200, RUN))
    result = cli("show", ID)
    assert result.exit_code == 0
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[:3] == [f"run        {ID}", "workflow   order-review  7a2a67bc", "status     ◔ waiting"]
    assert "progress   ━━━━━━━───────────── 2/6" in lines
    assert "at         approve, waiting for approval" in lines
    assert any(line.startswith("waits for  approval, until 2099-03-01 14:02 (in ") for line in lines)
    assert 'with       {"order_id": "A-1"}' in lines
    assert " ✓  validate      1  85 ms" in lines
    assert " ✗  charge        3  3.0 s  CardDeclined: no funds (3 tries)" in lines


def test_a_run_shows_the_number_of_its_function_behind_its_version(api: FakeApi, cli: Cli) -> None:
    api.on("GET", f"/runs/{ID}", (200, {**RUN, "version_number": 2, "pinned": True}))
    assert "workflow   order-review  7a2a67bc (2), pinned" in cli("show", ID).stdout


def test_a_run_whose_branches_wait_for_permits_shows_no_time_limit_of_theirs(api: FakeApi, cli: Cli) -> None:
    """The only limit is that of the run: it told of a permit that comes in a second that it waits until tomorrow."""
    run = {**RUN, "phase": "waiting_at_fan_in", "current_steps": ["process"], "waiting_for": "limit"}
    api.on("GET", f"/runs/{ID}", (200, {**run, "waiting_data": None}))
    lines = [line.rstrip() for line in cli("show", ID).stdout.splitlines()]
    assert "at         process, waiting at its join" in lines
    assert "waits for  limit" in lines


@pytest.mark.parametrize(
    ("kind", "due", "words"),
    [
        ("sleep", "2099-03-01T14:02:00Z", "waits for  a condition, until 2099-03-01 14:02 (in "),
        ("tasks", None, "waits for  a condition, without a time limit"),
    ],
)
def test_a_function_that_waits_until_something_holds_shows_no_sleep_and_no_join(
    api: FakeApi, cli: Cli, kind: str, due: str | None, words: str
) -> None:
    tokens = [{"id": "0", "step": "until", "phase": "waiting_at_fan_in"}]
    run = {**RUN, "phase": "waiting_at_fan_in", "current_steps": ["until"], "tokens": tokens, "waiting_data": None}
    api.on("GET", f"/runs/{ID}", (200, {**run, "waiting_for": kind, "waiting_until": due}))
    lines = [line.rstrip() for line in cli("show", ID).stdout.splitlines()]
    assert "at         until, waiting for a condition" in lines
    assert any(line.startswith(words) for line in lines)


def test_a_run_that_waits_for_events_shows_their_names_and_keys(api: FakeApi, cli: Cli) -> None:
    paid, shipped = {"name": "paid", "key": "A-1"}, {"name": "shipped", "key": ""}
    waiting = {**RUN, "waiting_for": "event", "waiting_data": None}
    api.has_run({**waiting, "waiting_events": [paid]}, {**waiting, "waiting_events": [paid, shipped]})
    one, several = (cli("show", "run_01JABC").stdout.splitlines() for _ in range(2))
    assert "event      paid with key A-1" in [line.rstrip() for line in one]
    assert "events     paid with key A-1, shipped" in [line.rstrip() for line in several]
    api.has_run({**waiting, "waiting_events": [paid, shipped]}, COMPLETED)
    assert "waits at approve for event paid with key A-1, shipped, until" in cli("watch", "run_01JABC").stdout


def test_show_says_callback_of_a_run_that_waits_for_one(api: FakeApi, cli: Cli) -> None:
    run = {**RUN, "phase": "waiting_for_event", "current_steps": ["scan"], "waiting_for": "callback"}
    api.on("GET", f"/runs/{ID}", (200, run))
    told = " ".join(cli("show", ID).stdout.split())
    assert "at scan, waiting for callback waits for callback" in told
    assert "waiting for event" not in told


def test_show_tells_of_the_state_what_no_step_gave(api: FakeApi, cli: Cli) -> None:
    state = {"validate": {"total": 121}, "plan": "pro"}
    api.on("GET", f"/runs/{ID}", (200, {**RUN, "state": state, "progress": "0/0"}))
    lines = [line.rstrip() for line in cli("show", ID).stdout.splitlines()]
    assert 'state      {"plan": "pro"}' in lines
    assert not any(line.startswith("progress") for line in lines)


@pytest.mark.parametrize("message", ["too much", "another"])
def test_show_tells_the_error_of_a_run_once(api: FakeApi, cli: Cli, message: str) -> None:
    error = {"type": "CardDeclined", "message": "too much", "step": "charge"}
    state = {"_last_error": {**error, "message": message}}
    api.on("GET", f"/runs/{ID}", (200, {**RUN, "status": "failed", "error": error, "state": state}))
    assert ("_last_error" in cli("show", ID).stdout) == (message == "another")


def test_show_exits_with_0_for_a_run_that_failed(api: FakeApi, cli: Cli) -> None:
    api.on("GET", f"/runs/{ID}", (200, FAILED))
    result = cli("show", ID)
    assert result.exit_code == 0
    assert "error     ValueError: no amount (step charge)" in result.stdout
    assert "after 9.0 s" in result.stdout


def test_show_tells_which_lines_of_code_led_to_the_error(api: FakeApi, cli: Cli) -> None:
    trace = '  File "shop.py", line 7, in charge\n    raise ValueError("no amount")'
    api.on("GET", f"/runs/{ID}", (200, {**FAILED, "error": {**FAILED["error"], "traceback": trace}}))
    lines = [line.rstrip() for line in cli("show", ID).stdout.splitlines()]
    at = lines.index('traceback    File "shop.py", line 7, in charge')
    assert lines[at + 1].endswith('    raise ValueError("no amount")')


def test_output_that_goes_to_a_program_has_no_colours(api: FakeApi, cli: Cli) -> None:
    api.on("GET", f"/runs/{ID}", (200, FAILED))
    assert "\x1b" not in cli("show", ID).stdout


def test_data_of_a_run_cannot_steer_the_terminal(api: FakeApi, cli: Cli) -> None:
    api.on("GET", f"/runs/{ID}", (200, {**RUN, "tags": {"a": "\x1b[2J[red]"}}))
    assert "a=\\x1b[2J[red]" in cli("show", ID).stdout


@pytest.mark.parametrize(
    ("command", "path"),
    [
        (["show", ID], f"/runs/{ID}"),
        (["runs"], "/runs"),
        (["explain", ID], f"/runs/{ID}/explain"),
        (["stats"], "/stats"),
    ],
)
def test_json_is_what_the_api_said(api: FakeApi, cli: Cli, command: list[str], path: str) -> None:
    said = {"items": [], "name": "ünïcode \ud800", "next_cursor": "c"}
    api.on("GET", path, (200, said))
    result = cli(*command, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == said
    assert result.stderr == ""


def test_no_runs_of_a_workflow_that_is_not_there_is_a_mistake(api: FakeApi, cli: Cli) -> None:
    missing = problem(404, "unknown_workflow", "there is no workflow 'nope'", hint="did you mean `note`?")
    api.on("GET", "/runs", (200, {"items": [], "next_cursor": None}))
    api.on("GET", "/workflows/nope", missing)
    told = cli("runs", "--workflow", "nope", "--status", "failed")
    assert (told.exit_code, told.stdout) == (3, "")
    assert told.stderr.endswith("there is no workflow 'nope' [unknown_workflow]\n  hint: did you mean `note`?\n")
    assert [call.query for call in api.calls if call.path == "/runs"][-1] == {"workflow": ["nope"], "limit": ["1"]}


def test_no_runs_of_a_deployed_workflow_or_of_one_with_other_runs_is_none(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/runs", (200, {"items": [], "next_cursor": None}))
    api.on("GET", "/workflows/order", (200, {"name": "order"}))
    assert (cli("runs", "--workflow", "order").stderr, len(api.calls)) == ("no runs\n", 2)
    api.on("GET", "/workflows/old", problem(404, "unknown_workflow", "there is no workflow 'old'"))
    api.on("GET", "/runs", (200, {"items": [], "next_cursor": None}), (200, {"items": [RUN], "next_cursor": None}))
    assert cli("runs", "--workflow", "old", "--status", "failed").stderr == "no runs\n"


def test_runs_sends_its_filters_and_shows_a_table(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/runs", (200, {"items": [RUN, COMPLETED], "next_cursor": "c2"}))
    result = cli(
        *("runs", "--workflow", "order-review", "--status", "waiting", "--status", "failed", "--tag", "team=a"),
        *(
            "--since",
            "2h",
            "--before",
            "1h",
            "--waiting-for",
            "approval",
            "--overdue",
            "--limit",
            "2",
            "--cursor",
            "c1",
        ),
        *("--sort", "waiting-until"),
    )
    assert result.exit_code == 0
    query = api.calls[0].query
    since = query.pop("since")
    assert since[0].endswith("+00:00")
    assert query.pop("before") > since
    assert query == {
        "workflow": ["order-review"],
        "status": ["waiting", "failed"],
        "tag": ["team=a"],
        "waiting_for": ["approval"],
        "overdue": ["true"],
        "sort": ["waiting_until"],
        "limit": ["2"],
        "cursor": ["c1"],
    }
    heading, first, *_ = result.stdout.splitlines()
    assert heading.split() == ["run", "workflow", "status", "at", "why", "created"]
    assert first.startswith(f"{ID}  order-review  ◔ waiting")
    assert "there are more: --cursor c2" in result.stderr


def test_an_empty_list_says_so_on_stderr(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/runs", (200, {"items": [], "next_cursor": None}))
    result = cli("runs")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no runs\n")


def test_history_reads_all_pages(api: FakeApi, cli: Cli) -> None:
    path = f"/runs/{ID}/history"
    pages = [(200, {"items": HISTORY[:2], "next_cursor": "0-1"}), (200, {"items": HISTORY[2:], "next_cursor": None})]
    api.on("GET", path, *pages)
    lines = [line.rstrip() for line in cli("history", ID).stdout.splitlines()]
    assert lines == [
        "2026-03-01 13:00:00  run.started                             0-0",
        '2026-03-01 13:00:01  step.completed        validate          0-1      {"output": {"total": 121}}',
        "2026-03-01 13:00:02  phase.changed         approve           0-2      executing step → waiting for approval",
    ]
    api.on("GET", path, *pages)
    assert json.loads(cli("history", ID, "--json").stdout) == {"items": HISTORY, "next_cursor": None}
    assert api.calls[-1].query["cursor"] == ["0-1"]
    assert "phases" not in api.calls[-1].query


def test_history_has_columns_that_take_the_ids_of_branches(api: FakeApi, cli: Cli) -> None:
    ids = ["0@-1.0", "0/0.0@0.1", "0/12.117/3.4@10.2"]
    kinds = ["run.created", "step.with_a_long_type_of_entry", "step.started"]
    at = ["2026-03-01T23:59:59.000Z", f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}.000Z", "2026-03-01T23:59:59.000Z"]
    entries = [
        {**HISTORY[1], "id": one, "type": kind, "at": when} for one, kind, when in zip(ids, kinds, at, strict=True)
    ]
    api.has_run(RUN, history=entries)
    lines = cli("history", "run_01JABC").stdout.splitlines()
    assert [line.index(kind) for line, kind in zip(lines, kinds, strict=True)] == [21] * 3
    assert len({line.index("validate") for line in lines}) == 1
    assert [line.index(one) for line, one in zip(lines, ids, strict=True)] == [lines[0].index(ids[0])] * 3
    assert len({line.index('{"output"') for line in lines}) == 1


def in_branches(status: str, run_status: str) -> dict[str, Any]:
    """A run whose step `read` ran in three branches, of which one failed."""
    error = {"type": "Broken", "category": "step", "message": "no luck"}
    step = {"status": status, "output": None, "error": error, "attempts": 3, "started_at": None, "ended_at": None}
    counts = {"total": 3, "completed": 2, "failed": 1}
    return {**COMPLETED, "status": run_status, "steps": {"read": {**step, "branches": counts}}}


@pytest.mark.parametrize(
    ("run_status", "mark", "words"),
    [
        ("completed", "!", "2 completed, 1 failed, tolerated: Broken: no luck"),
        ("failed", "✗", "2 completed, 1 failed: Broken: no luck"),
        ("waiting", "!", "2 completed, 1 failed, the run goes on: Broken: no luck"),
        ("compensating", "✗", "2 completed, 1 failed: Broken: no luck"),
    ],
)
def test_show_says_that_failures_of_branches_were_tolerated_or_that_the_run_goes_on(
    api: FakeApi, cli: Cli, monkeypatch: pytest.MonkeyPatch, run_status: str, mark: str, words: str
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    api.on("GET", f"/runs/{ID}", (200, in_branches("failed", run_status)))
    (row,) = [line.split() for line in cli("show", ID).stdout.splitlines() if " read x 3 " in line]
    assert row[0] == mark
    assert words in " ".join(row)


@pytest.mark.parametrize(("end", "told"), [("run.completed", " ! tolerated"), ("run.failed", "")])
def test_history_says_of_a_completed_run_that_the_failures_of_its_branches_were_tolerated(
    api: FakeApi, cli: Cli, end: str, told: str
) -> None:
    failed: dict[str, Any] = {
        "type": "step.failed",
        "token": "0/3.1",
        "id": "0/3.1@0.2",
        "data": {"error": {"type": "Broken"}},
    }
    entries = [{**HISTORY[1], **failed}, {**HISTORY[1], **failed, "token": "0"}, {**HISTORY[1], "type": end}]
    api.has_run(RUN, history=entries)
    in_branch, own, last = (" ".join(line.split()) for line in cli("history", ID).stdout.splitlines())
    assert in_branch.endswith(f" 0/3.1@0.2{told} Broken")
    assert "tolerated" not in own + last


def test_history_asks_for_the_changes_of_phase_on_every_page(api: FakeApi, cli: Cli) -> None:
    path = f"/runs/{ID}/history"
    api.on("GET", path, (200, {"items": HISTORY[:2], "next_cursor": "0-1"}), (200, {"items": [], "next_cursor": None}))
    assert cli("history", ID, "--phases").exit_code == 0
    assert [call.query["phases"] for call in api.calls] == [["true"], ["true"]]


def test_explain_tells_what_can_wake_the_run(api: FakeApi, cli: Cli) -> None:
    explanation = {
        "run_id": ID,
        "status": "waiting",
        "why": "It waits at approve for approval.",
        "waiting_since": "2026-03-01T13:00:00.000Z",
        "wakers": [
            {"what": "call", "at": None, "detail": "a POST to the callback's URL"},
            {"what": "timer", "at": "2099-03-01T14:02:00.000Z", "detail": "the wait times out then"},
        ],
        "last_entry": HISTORY[2],
        "nothing_can_wake_it": False,
    }
    api.on("GET", f"/runs/{ID}/explain", (200, explanation))
    lines = [line.rstrip() for line in cli("explain", ID).stdout.splitlines()]
    assert "why       It waits at approve for approval." in lines
    assert "wakes it  call: a POST to the callback's URL" in lines
    assert any(line.startswith("          timer at 2099-03-01 14:02 (in ") for line in lines)
    assert not any("defect" in line for line in lines)


@pytest.mark.parametrize(
    ("detail", "told"),
    [
        (
            "POST /runs/r1/approve or /reject by the approver",
            "stepwell approve r1, or stepwell reject r1, by the approver",
        ),
        (
            'POST /runs/r1/approve or /reject with "wait": "0/3.1" by the approver',
            "stepwell approve r1 --step 0/3.1, or stepwell reject r1 --step 0/3.1, by the approver",
        ),
        ("an event paid sent to this run (POST /runs/r1/events)", "stepwell event paid --run r1"),
        ("an update (POST /runs/r1/updates/NAME)", "an update (stepwell update r1 NAME)"),
        ("POST /runs/r1/start starts it, /cancel ends it", "stepwell start r1 starts it, stepwell cancel r1 ends it"),
        ("POST /runs/r1/unpause has it go on", "stepwell unpause r1 has it go on"),
        ("POST /workflows/fan/unpause has it go on", "stepwell unpause fan has it go on"),
        ("POST /workflows:unpause has it go on", "stepwell unpause --all has it go on"),
        ("GET /limits/ocr shows who has its permits", "stepwell limits ocr shows who has its permits"),
        ("GET /runs/r1/branches lists the branches", "stepwell show r1 --branches all lists the branches"),
        (
            "GET /runs/r1/branches?status=waiting lists the branches that wait",
            "stepwell show r1 --branches waiting lists the branches that wait",
        ),
        (
            "GET /runs/r1/branches?fork=0/3 lists the branches of ocr",
            "stepwell show r1 --branches all --fork 0/3 lists the branches of ocr",
        ),
    ],
)
def test_explain_names_the_commands_for_the_calls_of_the_api(api: FakeApi, cli: Cli, detail: str, told: str) -> None:
    wakers = [{"what": "call", "at": None, "detail": detail}]
    api.on("GET", f"/runs/{ID}/explain", (200, {"run_id": ID, "status": "waiting", "why": "", "wakers": wakers}))
    assert f"wakes it  call: {told}" in " ".join(cli("explain", ID).stdout.split()).replace("wakes it ", "wakes it  ")


@pytest.mark.parametrize("columns", ["80", "160"])
def test_runs_says_what_a_pending_run_may_wait_for(
    api: FakeApi, cli: Cli, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    run = {**RUN, "status": "pending", "waiting_for": None, "waiting_until": None, "current_steps": []}
    api.on("GET", "/runs", (200, {"items": [{**run, "pending_reason": "queued or limited"}], "next_cursor": None}))
    assert "queued or limited" in cli("runs").stdout


def test_stats_are_tables(api: FakeApi, cli: Cli) -> None:
    numbers = {"count": 3, "average_age_seconds": 90.0, "oldest_age_seconds": 7200.0}
    said = {
        "total": 3,
        "statuses": {"waiting": numbers},
        "workflows": {"order-review": {"waiting": 3}},
        "waits": {"approval": 3},
        "overdue": 1,
    }
    api.on("GET", "/stats", (200, said))
    output = cli("stats").stdout
    assert "◔ waiting  3     1 min 30 s   2 h" in output
    assert "order-review  3     3 waiting" in output
    assert "overdue: 1" in output


def test_stats_count_stepwells_own_runs_apart_as_lists_leave_them_out(api: FakeApi, cli: Cli) -> None:
    numbers = {"count": 3, "average_age_seconds": 90.0, "oldest_age_seconds": 7200.0}
    alone = {"count": 1, "average_age_seconds": 1.0, "oldest_age_seconds": 1.0}
    own = {"stepwell:batch": {"completed": 1, "failed": 1}}
    said = {
        "total": 4,
        "statuses": {"completed": numbers, "failed": alone},
        "workflows": {"order": {"completed": 2}, **own},
        "waits": {},
        "overdue": 0,
    }
    api.on("GET", "/stats", (200, said), (200, {**said, "statuses": {"failed": alone}, "workflows": own}))
    lines = cli("stats").stdout.splitlines()
    assert "✓ completed  2     1 min 30 s   2 h" in [line.rstrip() for line in lines]
    assert not any(line.startswith("✗ failed") for line in lines)
    assert lines[-1] == "not counted: stepwell:batch, 1 completed, 1 failed"
    assert cli("stats").stdout.startswith("no runs\n")


def test_stats_without_runs_say_so(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/stats", (200, {"statuses": {}, "overdue": 500}))  # the API counts so many at most
    assert "overdue: ≥ 500" in cli("stats").stdout
    api.on("GET", "/stats", (200, {"total": 0, "statuses": {}, "workflows": {}, "waits": {}, "overdue": 0}))
    assert cli("stats").stdout == "no runs\n"


def test_schedules_are_a_table_with_the_next_time_of_each(
    api: FakeApi, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    said = {"name": "nightly:1", "workflow": "nightly", "schedule": "cron(30 2 * * ? *)", "timezone": "Europe/Madrid"}
    over = {**said, "name": "over", "next": []}
    lost = {**said, "name": "lost", "next": ["2126-03-31T01:30:00.000Z"], "error": "no version 'x'"}
    held = {**lost, "name": "held", "paused": {"since": "2026-03-31T01:30:00.000Z", "by": "ana", "reason": "the move"}}
    first = {**said, "next": ["2126-03-30T01:30:00.000Z"], "workflow_paused": None}
    page = {"items": [first, over, lost, held], "next_cursor": None}
    api.on("GET", "/schedules", (200, page), (200, page), (200, {"items": [], "next_cursor": None}))
    lines = cli("schedules").stdout.splitlines()
    assert lines[0].split() == ["name", "workflow", "schedule", "timezone", "next"]
    assert lines[1].startswith(
        "nightly:1  nightly   cron(30 2 * * ? *)  Europe/Madrid  2126-03-30 02:30 CET, 01:30 here (in "
    )
    assert lines[3].rstrip().endswith("starts nothing: no version 'x'")
    assert lines[4].rstrip().endswith("paused by ana: the move")
    assert json.loads(cli("schedules", "--json").stdout) == page
    none = cli("schedules")
    assert (none.exit_code, none.stdout, none.stderr) == (0, "", "no schedules\n")


def test_a_schedule_whose_workflow_is_paused_says_that_its_runs_will_rest(
    api: FakeApi, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    pause = {"workflow": "nightly", "since": "2026-03-31T01:30:00.000Z", "by": "ana", "reason": None}
    said = {"name": "n", "workflow": "nightly", "schedule": "rate(1 day)", "timezone": "UTC", "workflow_paused": pause}
    soon, never = {**said, "next": ["2126-03-30T01:30:00.000Z"]}, {**said, "next": []}
    api.on("GET", "/schedules", (200, {"items": [soon, never], "next_cursor": None}))
    _, first, last = (line.rstrip() for line in cli("schedules").stdout.splitlines())
    assert "2126-03-30 01:30 UTC" in first
    assert first.endswith("); its workflow is paused: its runs start, and rest")
    assert last.endswith("UTC       its workflow is paused: its runs start, and rest")


def test_a_schedule_is_paused_unpaused_and_fired(api: FakeApi, cli: Cli) -> None:
    schedule = {"name": "nightly:1", "timezone": "Asia/Tokyo", "next": ["2126-03-30T17:30:00.000Z"]}
    for act, found in (("pause", schedule), ("unpause", schedule), ("fire", {"run_id": "run_1", "status": "running"})):
        api.on("POST", f"/schedules/nightly%3A1/{act}", (200, found))
    assert cli("schedule", "pause", "nightly:1", "--reason", "the move", "--by", "ana").stdout == (
        "paused nightly:1: it starts no runs\n"
    )
    told = cli("schedule", "unpause", "nightly:1", "--by", "ana").stdout
    assert told.startswith("nightly:1 fires again, next at 2126-03-31 02:30 JST, 2126-03-30 17:30 here (in ")
    assert cli("schedule", "fire", "nightly:1").stdout == "run_1 is running\n"
    for at in ("2026-03-31T01:30:00Z", "2026-03-31T01:30"):
        told = cli("schedule", "fire", "nightly:1", "--at", at).stdout
        assert told == "run_1 is running, for 2026-03-31T01:30:00+00:00\n"
    assert [call.body for call in api.calls] == [
        {"reason": "the move", "by": "ana"}, {"by": "ana"}, {}, *[{"at": "2026-03-31T01:30:00+00:00"}] * 2,
    ]  # fmt: skip


def test_a_time_to_fire_a_schedule_for_that_is_none_is_told_before_any_call(api: FakeApi, cli: Cli) -> None:
    result = cli("schedule", "fire", "nightly:1", "--at", "yesterday")
    assert (result.exit_code, api.calls) == (2, [])
    assert "--at 'yesterday' is no time" in result.stderr
    assert "this machine's time" in result.stderr


def test_limits_are_a_table_and_one_shows_who_holds_it_and_who_waits(api: FakeApi, cli: Cli) -> None:
    stripe = {"name": "stripe", "of": "steps", "concurrency": 5, "rate_limit": {"limit": 100, "per": 60.0, "burst": 1},
              "key": None, "under_way": 2, "waiting": 7, "next_turn_at": None}  # fmt: skip
    keyed = {**stripe, "name": "flow", "of": "runs", "rate_limit": None, "key": "{{ input.who }}"}
    api.on("GET", "/limits", (200, {"items": [stripe, keyed], "next_cursor": None}))
    lines = cli("limits").stdout.splitlines()
    assert lines[1].split() == ["stripe", "steps", "5", "100", "in", "60", "s", "2", "7"]
    assert lines[2].split() == ["flow", "runs", "5", "by", "key", "by", "key"]
    line = {"under_way": [{"run_id": "run_1", "token": "0", "place": None}],
            "items": [{"run_id": "run_2", "token": "0/3.1", "place": 0}]}  # fmt: skip
    api.on("GET", "/limits/stripe", (200, line), (200, stripe | {"under_way": [], "items": []}))
    assert [one.split() for one in cli("limits", "stripe", "--key", "ana").stdout.splitlines()[1:]] == [
        ["under", "way", "run_1", "0"], ["next", "run_2", "0/3.1"]]  # fmt: skip
    told = cli("limits", "stripe").stderr
    assert told.startswith("nobody holds stripe, and nobody waits for it")
    assert "stepwell limits stripe --key KEY" in " ".join(told.split())  # a step may name a key


def test_of_a_long_line_a_page_is_shown_and_where_the_next_one_begins(api: FakeApi, cli: Cli) -> None:
    page = {"under_way": [], "items": [{"run_id": "run_2", "token": "0", "place": 0}], "next_cursor": "50"}
    api.on("GET", "/limits/stripe", (200, page), (200, {**page, "next_cursor": None}))
    assert cli("limits", "stripe").stderr == "there are more: --cursor 50\n"
    assert cli("limits", "stripe", "--cursor", "50").stderr == ""
    assert api.calls[1].query == {"cursor": ["50"]}


@pytest.mark.parametrize("option", ["--key", "--cursor"])
def test_the_line_of_a_limit_that_is_not_named_is_refused(api: FakeApi, cli: Cli, option: str) -> None:
    """The list has neither lines nor pages, so it would ignore the option."""
    result = cli("limits", option, "50")
    assert (result.exit_code, api.calls) == (2, [])
    assert "name the limit whose line you mean" in result.stderr


def test_a_limit_of_a_rate_alone_does_not_say_that_nobody_waits(api: FakeApi, cli: Cli) -> None:
    """Each that waits has the time of its turn, and stands in no line."""
    per_second = {"limit": 20, "per": 1.0, "burst": 1}
    rate: dict[str, Any] = {"name": "mail", "of": "steps", "concurrency": None, "rate_limit": per_second,
                            "key": None, "next_turn_at": None, "under_way": [], "items": []}  # fmt: skip
    turn = {**rate, "next_turn_at": "2026-11-20T09:00:00.000Z"}
    api.on("GET", "/limits/mail", (200, rate), (200, turn))
    told = " ".join(cli("limits", "mail").stderr.split())
    assert told.startswith(
        "mail is a rate alone, so nobody holds it, and no line shows who waits; `stepwell explain RUN`"
    )
    assert "; its next turn is at " in " ".join(cli("limits", "mail").stderr.split())


def test_an_empty_line_of_a_key_is_named_with_it(api: FakeApi, cli: Cli) -> None:
    empty = {"name": "flow", "of": "runs", "key": "ana", "under_way": [], "items": []}
    api.on("GET", "/limits/flow", (200, empty))
    assert cli("limits", "flow", "--key", "ana").stderr == "nobody holds flow for ana, and nobody waits for it\n"


BRANCH = {
    "id": "0/3.7", "index": 7, "item": {"sku": "a"}, "status": "failed", "current_step": None, "waiting_for": None,
    "error": {"type": "OutOfStock", "message": "none left", "step": "pick", "attempts": 1},
}  # fmt: skip


def test_branches_of_a_status_are_shown_of_the_last_fork(cli: Cli, api: FakeApi) -> None:
    path = f"/runs/{RUN['run_id']}"
    forked = {**HISTORY[0], "id": "0@3.0", "type": "fork.opened"}
    api.on("GET", f"{path}/history", (200, {"items": [HISTORY[0], forked], "next_cursor": None}))
    api.on("GET", f"{path}/branches", (200, {"items": [], "next_cursor": "500"}),
           (200, {"items": [BRANCH], "next_cursor": None}))  # fmt: skip
    api.on("GET", path, (200, FAILED))
    shown = cli("show", RUN["run_id"], "--branches", "failed")
    assert shown.exit_code == 0
    for text in ("0/3.7", "sku", "failed", "OutOfStock", "none left"):
        assert text in shown.stdout
    first, second = (call.query for call in api.calls if call.path.endswith("/branches"))
    assert first == {"limit": ["500"], "status": ["failed"], "fork": ["0/3"]}
    assert second == {**first, "cursor": ["500"]}


def test_where_the_last_fork_has_no_such_branch_the_others_are_named(cli: Cli, api: FakeApi) -> None:
    path = f"/runs/{RUN['run_id']}"
    forks = [{**HISTORY[0], "id": f"0@{slot}.0", "type": "fork.opened", "step": f"list{slot}"} for slot in (0, 3)]
    api.on("GET", f"{path}/history", (200, {"items": forks, "next_cursor": None}))
    api.on("GET", f"{path}/branches", (200, {"items": [], "next_cursor": None}))
    words = ("show", RUN["run_id"], "--branches", "failed")
    told = "no matching branches of the fork 0/3, which is the last; there are more: --fork 0/0 of list0\n"
    assert cli(*words).stderr == told
    assert cli(*words, "--fork", "0/0").stderr == "no matching branches of the fork 0/0\n"


@pytest.mark.parametrize(("run", "told"), [(COMPLETED, "! tolerated"), (FAILED, "✗ failed"), (RUN, "✗ failed")])
def test_branches_whose_failures_a_completed_run_tolerated_are_marked_so(
    cli: Cli, api: FakeApi, run: dict[str, Any], told: str
) -> None:
    """`show` and `history` mark them so too. Programs read the status that the API has."""
    path = f"/runs/{RUN['run_id']}"
    api.on("GET", f"{path}/branches", (200, {"items": [BRANCH], "next_cursor": None}))
    api.on("GET", path, (200, run))
    words = ("show", RUN["run_id"], "--branches", "failed", "--fork", "0/3")
    assert told in " ".join(cli(*words).stdout.split())
    assert json.loads(cli(*words, "--json").stdout)["items"] == [BRANCH]


def test_branches_of_a_redriven_run_are_those_of_the_fork_that_it_reopened(cli: Cli, api: FakeApi) -> None:
    path = f"/runs/{RUN['run_id']}"
    forks = [
        {**HISTORY[0], "id": "0@0.7", "type": "fork.opened"},
        {**HISTORY[0], "id": "0@2.1", "type": "fork.reopened"},
    ]
    api.on("GET", f"{path}/history", (200, {"items": forks, "next_cursor": None}))
    api.on("GET", f"{path}/branches", (200, {"items": [BRANCH], "next_cursor": None}))
    api.on("GET", path, (200, FAILED))
    assert "OutOfStock" in cli("show", RUN["run_id"], "--branches", "failed").stdout
    (asked,) = (call.query for call in api.calls if call.path.endswith("/branches"))
    assert asked["fork"] == ["0/2"]


def test_a_branch_that_waits_shows_what_it_asks_for(cli: Cli, api: FakeApi) -> None:
    waits = {"status": "waiting", "error": None, "waiting_for": "approval", "waiting_data": {"order": "A-1"}}
    api.on("GET", f"/runs/{RUN['run_id']}/branches", (200, {"items": [{**BRANCH, **waits}], "next_cursor": None}))
    shown = cli("show", RUN["run_id"], "--branches", "all", "--fork", "0/1")
    assert 'waits for approval: {"order": "A-1"}' in " ".join(shown.stdout.split())


def test_all_branches_of_a_fork_are_json(cli: Cli, api: FakeApi) -> None:
    api.on("GET", f"/runs/{RUN['run_id']}/branches", (200, {"items": [BRANCH], "next_cursor": None}))
    shown = cli("show", RUN["run_id"], "--branches", "all", "--fork", "0/1", "--json")
    assert json.loads(shown.stdout)["items"] == [BRANCH]
    assert api.calls[0].query == {"limit": ["500"], "fork": ["0/1"]}
    assert cli("show", RUN["run_id"], "--branches", "all,failed", "--fork", "0/1", "--json").exit_code == 0
    assert api.calls[1].query == {"limit": ["500"], "fork": ["0/1"]}


def test_query_prints_what_the_function_answers(api: FakeApi, cli: Cli) -> None:
    api.on("GET", f"/runs/{ID}/queries/progress", (200, {"run_id": ID, "name": "progress", "value": {"done": 2}}))
    assert json.loads(cli("query", ID, "progress").stdout) == {"done": 2}
    assert json.loads(cli("query", ID, "progress", "--json").stdout)["name"] == "progress"


def test_an_answer_too_large_to_be_sent_is_read_from_its_link(
    api: FakeApi, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link is signed: the credentials of the API do not go there."""
    api.on("GET", "/blobs/page", (200, {"items": [RUN], "next_cursor": None}))
    refusal = {"title": "Answer too large", "large": {"bytes": 9, "link": f"{api.url}/blobs/page"}}
    api.on("GET", "/runs", (413, refusal))
    monkeypatch.setenv("STEPWELL_TOKEN", "secret")
    result = cli("runs", "--json")
    assert json.loads(result.stdout)["items"] == [RUN]
    asked, fetched = api.calls
    assert "authorization" in asked.headers
    assert "authorization" not in fetched.headers


def test_since_when_a_run_is_paused_is_told_in_the_readers_time(api: FakeApi, cli: Cli) -> None:
    api.has_run({**RUN, "status": "paused", "pending_reason": "paused by ana since 2026-01-31T09:00:00.000Z: why"})
    assert "paused by ana since 2026-01-31 09:00:00: why" in cli("show", RUN["run_id"]).stdout
