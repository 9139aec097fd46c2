"""Times and durations as people say them; a run as a terminal shows it."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from stepwell.cli.runs import watch
from stepwell.cli.screen import console
from stepwell.cli.views.render import failures_table, runs_table
from stepwell.cli.views.run_view import run_view
from stepwell.cli.views.telling import history_line
from stepwell.cli.views.words import ago, brief, clock, local_times, next_command, printable, until, when_in
from stepwell.definition.durations import span
from stepwell.errors import UserError
from stepwell.settings import Settings, read_settings

from .conftest import FAILED, HISTORY, RUN, Cli

NOW = datetime(2026, 3, 1, 15, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0 ms"), (0.085, "85 ms"), (1.25, "1.2 s"), (42, "42 s"), (185, "3 min 5 s"), (900, "15 min"),
     (3600, "1 h"), (8100, "2 h 15 min"), (82800, "23 h"), (100 * 3600, "4 d 4 h"), (30 * 86400, "30 d")],
)  # fmt: skip
def test_a_span_has_two_units_where_the_first_is_small(seconds: float, told: str) -> None:
    assert span(seconds) == told


@pytest.mark.usefixtures("cli")  # UTC
@pytest.mark.parametrize(
    ("away", "told"),
    [
        (timedelta(hours=23), "until Mon 14:02 (in 23 h)"),
        (timedelta(hours=8), "until 23:02 (in 8 h)"),
        (timedelta(seconds=30), "until 15:02:30 (in 30 s)"),
        (timedelta(days=30), "until 2026-03-31 15:02 (in 30 d)"),
        (timedelta(minutes=-5), "due since 14:57 (5 min ago)"),
    ],
)
def test_a_deadline_is_told_by_the_clock_and_by_how_far_it_is(away: timedelta, told: str) -> None:
    assert until(NOW + away, NOW) == told


@pytest.mark.usefixtures("cli")  # UTC
def test_the_times_of_a_sentence_are_the_readers_own() -> None:
    """A time of another day has its date."""
    text = "It waits since 2026-03-01T13:00:00.123Z, until 2026-03-02T13:00:00Z."
    assert local_times(text, NOW) == "It waits since 13:00:00, until 2026-03-02 13:00:00."


def test_what_was_is_told_in_its_largest_unit() -> None:
    assert [ago(NOW - timedelta(seconds=seconds), NOW) for seconds in (0, 5, 95, 9000)] == [
        "now",
        "5 s ago",
        "1 min ago",
        "2 h ago",
    ]
    assert ago(NOW + timedelta(hours=3), NOW) == "in 3 h"


@pytest.mark.usefixtures("cli")
def test_the_clock_has_the_day_when_the_hour_does_not_tell_it() -> None:
    assert clock(NOW - timedelta(days=2), NOW) == "2026-02-27 15:02"


@pytest.mark.parametrize(
    ("steps", "command"),
    [
        (["boss"], "stepwell approve r1"),
        (["boss", "bank"], "stepwell approve r1 --step boss"),
        (["boss", "boss"], "stepwell approve r1 --step 0/0.0"),
    ],
)
def test_the_next_command_of_several_approvals_names_the_first(steps: list[str], command: str) -> None:
    tokens = [{"id": f"0/0.{n}", "step": step, "waiting_for": "approval"} for n, step in enumerate(steps)]
    run = {"run_id": "r1", "waiting_for": "approval", "tokens": [*tokens, {"id": "0/0.9", "waiting_for": "event"}]}
    assert next_command(run) == command


def test_the_next_command_of_several_approvals_is_for_the_one_whose_data_are_shown() -> None:
    """The view has the approvers of the wait that is due first."""
    due = {"boss": "2026-03-01T18:00:00.000Z", "bank": "2026-03-01T16:00:00.000Z"}
    tokens = [{"id": step, "step": step, "waiting_for": "approval", "waiting_until": at} for step, at in due.items()]
    run = {"run_id": "r1", "waiting_for": "approval", "waiting_until": due["bank"], "tokens": tokens}
    found = next_command({**run, "waiting_data": {"approvers": ["kim"], "votes": []}}, "ana")
    assert found == "stepwell approve r1 --step bank --by kim"


@pytest.mark.parametrize(
    ("data", "by"),
    [
        ({"approvers": ["ana", "bo"], "votes": []}, ""),  # ana is who types it
        ({"approvers": ["bo", "eva m"], "votes": []}, " --by bo"),
        ({"approvers": ["bo", "eva m"], "votes": [{"decision": "approve", "by": "bo"}]}, " --by 'eva m'"),
        ({"approvers": [], "votes": []}, ""),
        ({"approvals": {"finance": ["bo"]}, "approvers": ["bo"], "votes": []}, " --by bo"),  # the workflow's own data
        ("text", ""),
    ],
)
def test_the_next_command_of_an_approval_names_who_may_answer(data: object, by: str) -> None:
    """Else the API refuses it: not_an_approver."""
    run = {"run_id": "r1", "waiting_for": "approval", "waiting_data": data}
    assert next_command(run, "ana") == f"stepwell approve r1{by}"


@pytest.mark.parametrize(
    ("approvals", "told"),
    [
        ({"approval": ["leo"], "approval_2": ["ana", "bo"]}, "--step sign/approval_2"),  # ana is who types it
        ({"approval": ["leo"], "approval_2": []}, "--step sign/approval_2"),  # anybody may
        ({"approval_2": ["bo", "leo"]}, "--step sign/approval_2 --by bo"),
        ({"approval": ["leo"], "approval_2": ["bo"]}, "--step sign/approval --by leo"),
    ],
)
def test_the_next_command_names_one_of_several_approvals_of_a_wait(approvals: object, told: str) -> None:
    """Else the second answer of a person would be a repetition of the first."""
    tokens = [{"id": "0", "step": "sign", "waiting_for": "approval", "waiting_until": None}]
    data = {"approvers": ["leo", "bo"], "votes": [], "approvals": approvals}
    run = {"run_id": "r1", "waiting_for": "approval", "waiting_until": None, "tokens": tokens, "waiting_data": data}
    assert next_command(run, "ana") == f"stepwell approve r1 {told}"


def test_text_that_a_terminal_would_obey_is_spelled_out() -> None:
    assert printable("a\x1b[31mb\rc\nd") == "a\\x1b[31mb\\x0dc\nd"
    assert brief({"a": "é\n"}) == '{"a": "é\\n"}'
    assert brief("x" * 133_372) == "x" * 500 + "… (132,872 characters more)"
    assert brief({}) == brief(None) == brief("") == ""


def printed(screen: Console) -> str:
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


@pytest.mark.usefixtures("cli")
def test_a_list_of_runs_is_a_table_at_a_fixed_width() -> None:
    out = Console(file=io.StringIO(), width=100, force_terminal=False)
    out.print(runs_table([RUN, FAILED], datetime(2099, 2, 28, 15, 2, tzinfo=UTC)))
    lines = [line.rstrip() for line in printed(out).splitlines()]
    assert lines == [
        "run         workflow      status     at       waits for                            created",
        "run_01JABC  order-review  ◔ waiting  approve  approval, until Sun 14:02 (in 23 h)  26662 d ago",
        "run_01JABC  order-review  ✗ failed                                                 26662 d ago",
    ]


@pytest.mark.usefixtures("cli")
def test_a_list_of_runs_has_the_errors_of_those_that_failed() -> None:
    failure = {"fingerprint": "9f2c61d07b3a", "type": "CardDeclined", "step": "charge"}
    out = Console(file=io.StringIO(), width=120, force_terminal=False)
    out.print(runs_table([RUN, {**FAILED, "current_steps": [], "failure": failure}], NOW, width=120))
    heading, waiting, failed = (line.split() for line in printed(out).splitlines())
    assert heading[:7] == ["run", "workflow", "status", "at", "waits", "for", "error"]
    assert "CardDeclined" not in waiting
    assert failed[:6] == ["run_01JABC", "order-review", "✗", "failed", "charge", "CardDeclined"]


def test_a_list_of_runs_says_that_a_function_waits_for_a_condition() -> None:
    """The run's own page says so in the same words; to the engine it waits for tasks."""
    waits = {**RUN, "waiting_for": "tasks", "waiting_until": None, "current_steps": ["until"]}
    out = Console(file=io.StringIO(), width=100, force_terminal=False)
    out.print(runs_table([waits], NOW))
    assert "until  a condition, without a time limit" in printed(out)


def test_a_narrow_list_of_runs_has_the_ends_of_their_ids_in_one_piece() -> None:
    made, own = {**RUN, "run_id": "run_3943590aabb1fa3cb2d7c18386"}, {**RUN, "run_id": "order-B-1"}
    out = Console(file=io.StringIO(), width=80, force_terminal=False)
    out.print(runs_table([made, own], datetime(2099, 2, 28, 15, 2, tzinfo=UTC), width=80))
    assert [line.split("  ")[0] for line in printed(out).splitlines() if line[0] != " "] == [
        "run",
        "c18386",
        "order-B-1",
    ]


def test_a_narrow_list_of_runs_has_one_line_for_each() -> None:
    """It says how long a wait has, and cuts long names: broken into lines, a waiting run took six."""
    waits = {**RUN, "workflow": "invoice-collection-service", "current_steps": ["wait_for_the_payment"]}
    failure = {"type": "PaymentProviderUnavailable", "step": "charge"}
    out = Console(file=io.StringIO(), width=80, force_terminal=False)
    items = [waits, {**FAILED, "current_steps": [], "failure": failure}]
    out.print(runs_table(items, datetime(2099, 2, 28, 15, 2, tzinfo=UTC), width=80))
    _, waiting, failed = printed(out).splitlines()
    assert "approval, in 23 h" in waiting
    assert "invoice-c" in waiting
    assert "PaymentProviderUnav…" in failed


@pytest.mark.parametrize("width", range(80, 201, 5))
def test_each_run_is_one_line_at_any_width_of_a_terminal(width: int) -> None:
    """From 100 columns on, long names were broken into lines."""
    made, parent = "run_3943590aabb1fa3cb2d7c18386", "run_6f85500b44683cdcfe43fe9389"
    long = {"run_id": made, "workflow": "invoice-collection-service-of-the-north", "parent": parent}
    waits = {**RUN, **long, "current_steps": ["wait_for_the_payment_of_the_customer"]}
    failure = {"type": "PaymentProviderUnavailableForTheMoment", "step": "charge_the_card_of_the_customer"}
    out = Console(file=io.StringIO(), width=width, force_terminal=False)
    items = [waits, {**FAILED, **long, "current_steps": [], "failure": failure}]
    out.print(runs_table(items, datetime(2099, 2, 28, 15, 2, tzinfo=UTC), width=width))
    _, *lines = printed(out).splitlines()
    assert len(lines) == len(items)
    shown = made if width >= 100 else "c18386"
    assert all(line.startswith(f"{shown}  invo") and "26662 d ago" in line for line in lines), lines
    assert "in 23 h" in lines[0]
    assert "PaymentProviderUnav" in lines[1]


def test_a_narrow_list_of_runs_has_no_parents_and_no_empty_columns() -> None:
    """Of sixty columns, these left so few that names were broken into letters."""
    parent = "run_3943590aabb1fa3cb2d7c18386"
    child = {**FAILED, "run_id": "run_6f85500b44683cdcfe43fe9389", "parent": parent, "current_steps": []}
    out = Console(file=io.StringIO(), width=60, force_terminal=False)
    out.print(runs_table([child], datetime(2099, 2, 28, 15, 2, tzinfo=UTC), width=60))
    assert [line.rstrip() for line in printed(out).splitlines()] == [
        "run     workflow      status    created",
        "fe9389  order-review  ✗ failed  26662 d ago",
    ]


def test_a_list_of_runs_at_forty_columns_says_where_each_stands() -> None:
    out = Console(file=io.StringIO(), width=40, force_terminal=False)
    out.print(runs_table([{**RUN, "run_id": "run_3943590aabb1fa3cb2d7c18386"}], NOW, width=40))
    assert [line.rstrip() for line in printed(out).splitlines()] == [
        "run     workflow      status     at",
        "c18386  order-review  ◔ waiting  approve",
    ]


@pytest.mark.usefixtures("cli")
def test_a_link_is_a_line_of_its_own_at_any_width() -> None:
    link = f"https://abc123.execute-api.eu-west-1.amazonaws.com/approvals/{'x' * 150}"
    out = Console(file=io.StringIO(), width=80, force_terminal=False)
    out.print(run_view({**RUN, "waiting_data": {"approval_links": {"ana": link}}}, NOW), soft_wrap=True)
    lines = [line.rstrip() for line in printed(out).splitlines()]
    assert f"link for ana  {link}" in lines
    assert "next       stepwell approve run_01JABC" in lines


def test_a_terminal_gets_colours() -> None:
    out = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="standard", no_color=False)
    out.print(run_view(FAILED, NOW))
    out.print(history_line({**HISTORY[1], "by": "eva", "attempt": 2}, NOW))
    text = printed(out)
    assert "\x1b[31m✗ failed" in text
    assert "by eva" in text
    assert "try 2" in text


@pytest.mark.usefixtures("cli")
def test_the_live_view_ends_with_the_last_lines_of_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_changes", lambda client, run_id: iter([(RUN, HISTORY), (FAILED, [])]))
    out = Console(file=io.StringIO(), width=80, force_terminal=True, no_color=True, color_system=None)
    assert watch.follow(None, "r1", out) == FAILED  # type: ignore[arg-type]  # no client: nothing is asked
    text = printed(out)
    assert "2/6" in text
    assert "step.completed" in text
    assert "phase.changed" not in text


def test_settings_come_from_the_environment_and_have_defaults() -> None:
    assert read_settings({}) == Settings(
        url="http://127.0.0.1:8787", no_color=False, log_level="info", data_dir=None, user="", lane=10
    )
    given = {"STEPWELL_URL": "https://x", "NO_COLOR": "1", "STEPWELL_LOG_LEVEL": "DEBUG", "STEPWELL_DATA": "/d"}
    assert read_settings({**given, "USERNAME": "eva"}) == Settings(
        "https://x", True, "debug", Path("/d"), "eva", lane=10
    )
    with pytest.raises(UserError, match="LOG_LEVEL"):
        read_settings({"STEPWELL_LOG_LEVEL": "loud"})


def test_no_color_takes_the_colours_away(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert console().no_color


@pytest.mark.usefixtures("cli")
def test_a_dag_is_shown_with_every_step_and_a_fork_in_one_line() -> None:
    step = {"output": None, "error": None, "attempts": 0, "started_at": None, "ended_at": None}
    steps = {"ask": {**step, "status": "waiting"}, "ship": {**step, "status": "pending"}}
    dag = {"id": "0/0", "node": "", "width": 2, "join": None}
    assert shown({**RUN, "steps": steps, "forked": dag})[-2:] == [" ◔  ask                waiting",
                                                                  " ○  ship               pending"]  # fmt: skip
    assert not [line for line in shown({**RUN, "forked": dag}) if line.startswith("forked")]
    fork = {"id": "0/3", "node": "score", "width": 3, "join": "gather"}
    assert "forked     3 branches of score, join gather" in shown({**RUN, "forked": fork})
    assert "forked     1 branch of score, join at the end" in shown(
        {**RUN, "forked": {**fork, "width": 1, "join": None}}
    )


def shown(run: dict[str, Any]) -> list[str]:
    """The lines of `stepwell show`."""
    out = Console(file=io.StringIO(), width=100, force_terminal=False)
    out.print(run_view(run, NOW))
    return [line.rstrip() for line in printed(out).splitlines()]


@pytest.mark.usefixtures("cli")
def test_failures_are_dated_by_how_long_ago_they_were() -> None:
    group = {"count": 2, "fingerprint": "9ee9", "workflow": "refund", "step": "check", "type": "Broken",
             "first_at": "2026-03-01T13:02:00.000Z", "last_at": "2026-03-01T15:01:00.000Z", "run_id": "r2"}  # fmt: skip
    screen = Console(file=io.StringIO(), width=120)
    screen.print(failures_table([group], NOW))
    shown = printed(screen).splitlines()[-1].split()
    assert shown == ["2", "9ee9", "refund", "check", "Broken", "2", "h", "ago", "1", "min", "ago", "r2"]


@pytest.mark.usefixtures("cli")
@pytest.mark.parametrize(
    ("width", "headings"),
    [
        (110, "runs fingerprint workflow step error first last such as"),
        (80, "runs fingerprint workflow step error last such as"),
        (60, "runs fingerprint workflow step error such as"),
    ],
)
def test_failures_have_whole_words_in_a_narrow_window(width: int, headings: str) -> None:
    group = {"count": 2, "fingerprint": "483921e3c253", "workflow": "refund", "step": "check", "type": "CardDeclined",
             "first_at": "2026-03-01T13:02:00.000Z", "last_at": "2026-03-01T15:01:00.000Z",
             "run_id": "run_32f251782156a5b681063d7a43"}  # fmt: skip
    screen = Console(file=io.StringIO(), width=width)
    screen.print(failures_table([group], NOW, width))
    heading, row = printed(screen).splitlines()
    assert " ".join(heading.split()) == headings
    assert {"483921e3c253", "refund", "check", "CardDeclined"} <= set(row.split())
    assert row.split()[-1].endswith("3d7a43")


@pytest.mark.usefixtures("cli")
def test_failures_have_no_first_times_where_these_would_break_a_name() -> None:
    group = {"count": 1, "fingerprint": "c6a7085fbc34", "workflow": "nightly-etl", "step": "list", "type": "step_input",
             "first_at": "2026-03-01T14:27:30.000Z", "last_at": "2026-03-01T14:27:30.000Z",
             "run_id": "run_5bd9773228f343ffdb17fb0050"}  # fmt: skip
    for width, headings in ((100, "runs fingerprint workflow step error last such as"),
                            (120, "runs fingerprint workflow step error first last such as")):  # fmt: skip
        screen = Console(file=io.StringIO(), width=width)
        screen.print(failures_table([group], NOW, width))
        heading, row = printed(screen).splitlines()
        assert " ".join(heading.split()) == headings
        assert "nightly-etl" in row.split()


@pytest.mark.usefixtures("cli")
def test_a_run_says_what_it_has_cost_where_the_server_knows() -> None:
    cost = {"usd": 0.0000162, "write_units": 13, "read_units": 12, "invocations": 4, "schedules": 1}
    for said, told in (
        (cost, "0.0000162 USD on AWS: 13 write units, 12 read units, 4 messages, 1 schedule"),
        ({}, ""),
    ):
        out = Console(file=io.StringIO(), width=120, force_terminal=False)
        out.print(run_view({**FAILED, "cost": said}, NOW))
        assert told in printed(out)
        assert ("USD" in printed(out)) is bool(told)


@pytest.mark.usefixtures("cli")
@pytest.mark.parametrize(
    ("zone", "told"),
    [
        ("UTC", "Mon 08:00 UTC (in 16 h)"),
        ("Europe/London", "Mon 08:00 GMT (in 16 h)"),
        ("Europe/Berlin", "Mon 09:00 CET, 08:00 here (in 16 h)"),
        ("Asia/Kathmandu", "Mon 13:45 +0545, 08:00 here (in 16 h)"),
        ("Pacific/Honolulu", "22:00 HST, Mon 08:00 here (in 16 h)"),
        ("Mars/Base", "Mon 08:00 (in 16 h)"),
        (None, "Mon 08:00 (in 16 h)"),
    ],
)
def test_a_time_of_a_schedule_is_told_in_its_own_zone_and_in_the_readers(zone: str | None, told: str) -> None:
    assert when_in(zone, "2026-03-02T08:00:00.000Z", NOW) == told
