"""Every mistake a person would make: what is said, on stderr, and the exit status."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
import typer.main

from stepwell import errors
from stepwell.cli.borrowed import BORROWED
from stepwell.cli.completing import WAITS
from stepwell.cli.main import app
from stepwell.client import Client, Unreachable
from stepwell.engine.waits.kind import KINDS
from stepwell.error_hints import HINTS
from tests.api.test_hints import refusals
from tests.docs.errors import every
from tests.docs.options import leaves

from .conftest import Cli, FakeApi, problem


def test_a_server_that_is_down_comes_with_how_to_start_it(cli: Cli) -> None:
    result = cli("runs")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "error: cannot reach http://127.0.0.1:9" in result.stderr
    assert "[unreachable]" in result.stderr
    assert "hint: check --url or STEPWELL_URL; or start it with: stepwell dev --port 9\n" in result.stderr


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("http://127.0.0.1:8787", "start it with: stepwell dev; for another API, check --url or STEPWELL_URL"),
        ("http://localhost", "check --url or STEPWELL_URL; or start it with: stepwell dev"),
        ("http://localhost:9000", "check --url or STEPWELL_URL; or start it with: stepwell dev --port 9000"),
        ("https://api.example.com:8787", "check --url or STEPWELL_URL"),
    ],
)
def test_how_to_start_a_server_that_is_down_names_the_port_of_its_url(url: str, hint: str) -> None:
    """`stepwell dev` alone would start another one."""

    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    down = httpx.MockTransport(refuse)
    with pytest.raises(Unreachable) as raised, Client(url, transport=down, retries=0) as client:
        client.health()
    assert raised.value.hint == hint


@pytest.mark.parametrize("said", ["[SSL: WRONG_VERSION_NUMBER] wrong version number", "[SSL] record layer failure"])
def test_a_url_with_https_for_a_server_without_it_says_so(said: str) -> None:
    """The server is there, so a hint to start it would be wrong."""

    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(f"{said} (_ssl.c:1006)")

    plain = httpx.MockTransport(refuse)
    with pytest.raises(Unreachable) as raised, Client("https://localhost:8787", transport=plain, retries=0) as client:
        client.health()
    assert raised.value.hint == "the server answers without TLS there: write http:// in --url or STEPWELL_URL"


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        ("GET /runs/{id} shows its state", "stepwell show r9 shows its state"),
        ("by its id in GET /runs/{id}/branches", "by its id in stepwell show r9 --branches all"),
        ("GET /runs/{id}/history: the slot of an entry", "stepwell history r9: the slot of an entry"),
    ],
)
def test_a_hint_with_a_route_of_the_api_has_the_command_instead(api: FakeApi, cli: Cli, hint: str, told: str) -> None:
    api.on("GET", "/runs/r9/explain", problem(409, "some_code", "not so", hint=hint))
    assert cli("explain", "r9").stderr.endswith(f"  hint: {told}\n")


def test_choices_are_told_in_one_line(cli: Cli) -> None:
    """typer puts each in a line with a tab."""
    told = cli("batch").stderr
    assert "Choose from: cancel, terminate, pause, unpause, redrive" in told
    assert "\\x09" not in told


@pytest.mark.parametrize(("option", "command"), [("--payload", ["event", "paid"]), ("-i", ["run", "order"])])
def test_the_hint_for_broken_json_names_the_option_that_has_it(cli: Cli, option: str, command: list[str]) -> None:
    assert f"single quotes: {option} '{{" in cli(*command, option, "{broken").stderr


def test_an_unknown_run_is_told_with_its_code(api: FakeApi, cli: Cli) -> None:
    result = cli("show", "run_404")
    assert result.exit_code == 3
    assert result.stderr == (
        "error: Unknown run: there is no /runs/run_404 [unknown_run]\n  hint: stepwell runs lists them\n"
    )


def test_an_input_that_violates_the_schema_lists_each_mistake_with_its_path(api: FakeApi, cli: Cli) -> None:
    found = [{"path": "/input", "message": "lacks amount"}, {"path": "/input/id", "message": "must be string"}]
    api.on("POST", "/workflows/w/runs", problem(422, "invalid_input", "the input is wrong", errors=found))
    result = cli("run", "w", "-i", "{}")
    assert result.exit_code == 3
    assert result.stderr.splitlines() == [
        "error: Invalid input: the input is wrong [invalid_input]",
        "  /input: lacks amount",
        "  /input/id: must be string",
        "  hint: correct the input as the message says",
    ]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("{a: 1}", "-i is not JSON: Expecting property name enclosed in double quotes at line 1, column 2 [bad_json]"),
        ('{"a": NaN}', "-i is not JSON: NaN is not a JSON value; use null [bad_json]"),
        ("order.json", "'order.json' is neither a file nor JSON [bad_json]"),
        ("x" * 5000, "is neither a file nor JSON [bad_json]"),
        ("a\0b", "is neither a file nor JSON [bad_json]"),
    ],
)
def test_an_input_that_is_no_json_is_told_before_anything_is_sent(cli: Cli, given: str, told: str) -> None:
    result = cli("run", "w", "-i", given)
    assert result.exit_code == 2
    assert told in result.stderr


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("run order -i", "-i"),
        ("event paid -i", "--payload"),
        ("update r1 add -i", "--input"),
        ("approve r1 -i", "--data"),
        ("fork r1 --at 1 -i", "--input"),
        ("fork r1 --at 1 --state", "--state"),
        ("fork r1 --at 1 --result", "--result"),
        ("simulate order -i", "-i"),
        ("verify order -i", "-i"),
        ("dev --run order -i", "-i"),
    ],
)
def test_an_empty_input_is_refused(api: FakeApi, cli: Cli, command: str, option: str) -> None:
    """As of a variable that is not set: it was as if none was given."""
    result = cli(*command.split(), "")
    assert (result.exit_code, api.calls) == (2, [])
    assert f"{option} is empty [bad_json]" in result.stderr


def test_a_file_may_begin_with_the_mark_that_windows_writes(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xef\xbb\xbf{}")
    assert "[bad_json]" not in cli("run", "w", "-i", str(tmp_path / "a.json")).stderr


def test_a_file_that_is_no_text_is_told(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xff\xfe")
    result = cli("run", "w", "-i", str(tmp_path / "a.json"))
    assert result.exit_code == 2
    assert "[unreadable]" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["runz"], "No such command 'runz'."),
        (["runs", "--colour"], "No such option"),
        (["show"], "Missing argument"),
        (["runs", "--limit", "0"], "Invalid value for '--limit'"),
        (["run", "w", "--tag", "team"], "error: 'team' is not of the form name=value [bad_pair]"),
        (["run", "w", "--tag", "a=1", "--tag", "a=2"], "error: --tag a is given twice [bad_pair]"),
        (["runs", "--since", "yesterday"], "error: 'yesterday' is neither a duration nor a time [bad_duration]"),
        (["runs", "--url", "localhost:8787"], "error: 'localhost:8787' is not the URL of an API [bad_url]"),
        (["runs", "--url", "localhost:8787"], "hint: did you mean http://localhost:8787?"),
        (["runs", "--url", "api.example.com"], "hint: did you mean https://api.example.com?"),
        (["runs", "--url", "ftp://a"], "hint: use a URL such as http://127.0.0.1:8787, without ? and #"),
        (["--url", "localhost:8787", "runs"], "error: 'localhost:8787' is not the URL of an API [bad_url]"),
        (["--url=localhost:8787", "runs"], "error: 'localhost:8787' is not the URL of an API [bad_url]"),
        (["--url"], "No such option: --url"),
        (["graph"], "give a definition file, a workflow's name, or a run with --run"),
        (["graph", "nofile.yaml"], "error: there is no file or folder 'nofile.yaml' [no_such_file]"),
        (["graph", "shop.py"], "error: shop.py is a module, and a durable function is drawn from the log of its run"),
        (["check", "nofile.yaml"], "'nofile.yaml' [no_such_file]\n  hint: give a definition, or a folder with"),
        (["dev", "nofolder"], "error: there is no folder 'nofolder' [no_such_folder]"),
        (["dev", __file__], "is a file, not a folder [no_such_folder]\n  hint: name the folder that it is in"),
        (["dev", "-i", "{}"], "it is the input of --run WORKFLOW, which is not given"),
        (["replay", "exports/nofile"], "error: there is no export at exports/nofile [no_such_export]"),
    ],
)
def test_wrong_usage_exits_with_2(cli: Cli, arguments: list[str], told: str) -> None:
    result = cli(*arguments)
    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(("status", "body"), [(200, "<html>"), (200, "[]"), (500, "Oops"), (404, "{}")])
def test_something_else_at_the_url_is_told(api: FakeApi, cli: Cli, status: int, body: str) -> None:
    api.on("GET", "/stats", (status, body))
    result = cli("stats")
    assert result.exit_code == 4
    assert f"is not a Stepwell API: it answered {status} to /stats [not_stepwell]" in result.stderr


def test_a_gateway_whose_api_does_not_answer_is_told(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/stats", (502, "<html>"))
    result = cli("stats")
    assert result.exit_code == 4
    assert result.stderr == "error: the API's gateway answered 502: Bad Gateway [unreachable]\n  hint: try again\n"


def test_a_bad_setting_is_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_LOG_LEVEL", "loud")
    result = cli("runs")
    assert result.exit_code == 2
    assert "STEPWELL_LOG_LEVEL is 'loud' [bad_setting]" in result.stderr


def test_a_name_with_a_slash_stays_one_name(api: FakeApi, cli: Cli) -> None:
    cli("show", "../stats")
    cli("show", "..")
    assert [call.path for call in api.calls] == ["/runs/..%2Fstats", "/runs/%2E%2E"]


def test_an_error_is_json_for_a_program_in_the_shape_of_the_apis_problems(api: FakeApi, cli: Cli) -> None:
    refused = cli("show", "run_404", "--json")
    assert (refused.exit_code, refused.stderr) == (3, "")
    assert json.loads(refused.stdout).items() >= {"code": "unknown_run", "hint": "stepwell runs lists them"}.items()
    for arguments, code in ((["run", "w", "-i", "{a", "--json"], "bad_json"), (["show", "--json"], "bad_usage"),
                            (["runs", "--jsn", "--json"], "bad_usage")):  # fmt: skip
        wrong = cli(*arguments)
        assert (wrong.exit_code, wrong.stderr) == (2, "")
        found = json.loads(wrong.stdout)
        assert found["code"] == code
        assert found["detail"]


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_choice_that_there_is_not_is_told_with_those_that_there_are(cli: Cli, more: list[str]) -> None:
    """New versions of typer check choices by pydantic, and have its words in the message."""
    result = cli("init", "shop", "--template", "nope", *more)
    said = result.stdout if more else result.stderr
    assert result.exit_code == 2
    assert "'nope' is not one of 'order', 'agent', 'saga', 'webhook'" in said
    assert "Value error" not in said


def test_every_command_tells_a_program_its_errors() -> None:
    """Also one whose output is JSON anyway: without the option its errors are text on stderr."""
    without = [
        path
        for path, command in leaves(typer.main.get_command(app), "stepwell")
        if "--json" not in [name for one in command.params for name in one.opts]
    ]
    assert without == []


@pytest.mark.parametrize("command", [["dlq", "show", "x"], ["export", "run_404"], ["deploy", "none"], ["dev", "none"]])
def test_commands_without_json_of_their_own_have_json_errors(api: FakeApi, cli: Cli, command: list[str]) -> None:
    result = cli(*command, "--json")
    assert (result.exit_code in {2, 3}, result.stderr) == (True, "")
    assert json.loads(result.stdout)["code"]


def test_a_gateways_own_refusal_is_json_in_that_shape_too(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/stats", (403, {"message": "Forbidden"}))
    result = cli("stats", "--json")
    assert result.exit_code == 3
    document = json.loads(result.stdout)
    assert document.keys() == {"type", "code", "title", "status", "detail", "hint", "errors"}
    assert (document["code"], document["title"], document["status"]) == ("forbidden", "Forbidden", 403)


def test_a_server_that_is_down_is_json_for_a_program(cli: Cli) -> None:
    down = cli("runs", "--json")
    assert (down.exit_code, json.loads(down.stdout)["code"]) == (4, "unreachable")


@pytest.mark.parametrize("key", ["", "café"])
def test_a_key_that_is_none_is_told(api: FakeApi, cli: Cli, key: str) -> None:
    """Nothing is sent: an empty one would list, or start, without a key."""
    for command in (("run", "order"), *([("runs", "--workflow", "order")] if not key else [])):
        result = cli(*command, "--key", key)
        assert (result.exit_code, "[bad_key]" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    "command",
    ["run order --id", "event paid --id", "update r1 pay --id", "rerun r1 --key", "fork r1 --at 3 --key"],
)
def test_an_empty_key_or_id_is_refused_before_anything_is_sent(api: FakeApi, cli: Cli, command: str) -> None:
    """Where a script's variable is empty, each call would count."""
    result = cli(*command.split(), "")
    assert (result.exit_code, "[bad_key]" in result.stderr) == (2, True)
    assert api.calls == []


def test_every_error_has_a_hint() -> None:
    """Where the code that raises it says none, the table of the command line does."""
    kinds = {kind.code for kind in vars(errors).values() if hasattr(kind, "code") and isinstance(kind.code, str)}
    without = {one.code for one in every() if one.place == "call" and not one.hint}
    assert (without | kinds) - HINTS.keys() == set()
    ends = {"run_cancelled", "run_compensated", "run_failed", "run_timed_out"}
    of_engine = {code for code, has_hint in refusals() if not has_hint}
    of_api = {"bad_usage", "approval_expired", "callback_expired", *ends, *of_engine}
    shown = {one.code for one in every() if one.place != "file" and not one.hint} | kinds | of_api
    assert HINTS.keys() - shown == set(), "a hint that is never shown"
    assert [code for code, hint in HINTS.items() if not hint.strip() or hint.endswith(".")] == []


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_an_error_of_the_api_without_a_hint_gets_one(api: FakeApi, cli: Cli, more: list[str]) -> None:
    """Also one with a code of a newer API."""
    for code, hint in (("not_idle", "only an idle run can be started"), ("brand_new", "stepwell doctor")):
        api.on("POST", "/runs/run_01JABC/start", problem(409, code, "no"))
        result = cli("start", "run_01JABC", *more)
        assert hint in (result.stdout if more else result.stderr)


@pytest.mark.parametrize(
    ("arguments", "said", "command"),
    [
        (["runs", "--jsn"], "No such option: --jsn", "stepwell runs"),
        (["--jsn"], "No such option: --jsn", "stepwell"),
        (["shwo"], "No such command 'shwo'", "stepwell"),
        (["webhook", "send"], "No such command 'send'", "stepwell webhook"),
        (["show"], "Missing argument 'RUN'", "stepwell show"),
        (["dlq", "show"], "Missing argument 'ID'", "stepwell dlq show"),
        (["runs", "--tag"], "Option '--tag' requires an argument", "stepwell runs"),
        (["webhook", "test", "--file"], "Option '--file' requires an argument", "stepwell webhook test"),
    ],
)
def test_wrong_usage_is_an_error_as_all_others(cli: Cli, arguments: list[str], said: str, command: str) -> None:
    result = cli(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {said}")
    assert result.stderr.endswith(f" [bad_usage]\n  hint: {command} --help shows the arguments and options\n")


def test_a_group_without_a_command_shows_its_help(cli: Cli) -> None:
    assert "Usage: stepwell webhook" in cli("webhook").output


@pytest.mark.parametrize("more", [[], ["--json"]])
@pytest.mark.parametrize(
    ("command", "said", "hint"),
    [
        ("runs --status faild", "there is no status 'faild'", "did you mean `failed`? known: idle, pending, running, "),
        ("runs --status waiting,Failed", "there is no status 'Failed'", "did you mean `failed`? known: idle, "),
        ("runs --status xyz", "there is no status 'xyz'", "known: idle, pending, running, waiting, "),
        ("batch cancel --status runing", "there is no status 'runing'", "did you mean `running`? known: idle, "),
        ("show r1 --branches faild", "there is no status 'faild'", "did you mean `failed`? known: idle, "),
        ("runs --waiting-for aproval", "there is no wait 'aproval'", "did you mean `approval`? known: approval, "),
    ],
)
def test_a_status_or_a_wait_that_there_is_not_is_told_without_a_call(
    api: FakeApi, cli: Cli, command: str, said: str, hint: str, more: list[str]
) -> None:
    result = cli(*command.split(), *more)
    assert (result.exit_code, api.calls) == (2, [])
    told = result.stdout if more else result.stderr
    assert said in told
    assert hint in told


def test_all_waits_that_the_engine_knows_can_be_asked_for() -> None:
    """The command line has their names without the engine, which takes long to import."""
    assert set(WAITS) == set(KINDS)


def test_a_time_that_is_none_is_told_with_both_ways_to_write_one(cli: Cli) -> None:
    assert cli("runs", "--since", "yesterday").stderr == (
        "error: 'yesterday' is neither a duration nor a time [bad_duration]\n"
        "  hint: write how long ago, such as 2h or 7d, or a time such as 2027-01-01T09:00\n"
    )


@pytest.mark.parametrize("command", ["failures", "runs"])
@pytest.mark.parametrize("number", ["1", "1.5"])
def test_a_time_that_is_a_number_alone_is_refused(cli: Cli, command: str, number: str) -> None:
    """Taken as seconds, it would leave out nearly all runs, and the answer would be that none failed."""
    refused = cli(command, "--since", number)
    assert refused.exit_code == 2
    assert refused.stderr == (
        f"error: '{number}' has no unit [bad_duration]\n"
        f"  hint: write {number}h for hours, {number}d for days, or a time such as 2027-01-01T09:00\n"
    )


def test_a_single_mistake_with_a_name_in_it_is_told_once(api: FakeApi, cli: Cli) -> None:
    detail = "`key` fails for this delivery: no such key `order`"
    refused = problem(400, "unmappable", detail, errors=[{"path": "", "message": detail}])
    api.on("GET", "/runs/r1", refused)
    assert cli("show", "r1").stderr.count("fails for this delivery") == 1


@pytest.mark.parametrize(
    ("word", "command"),
    [("list", "runs"), ("ls", "runs"), ("status", "show RUN"), ("signal", "event NAME"), ("resume", "unpause RUN")],
)
def test_a_command_of_another_tool_is_answered_with_the_one_that_is_meant(cli: Cli, word: str, command: str) -> None:
    result = cli(word)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: No such command '{word}' [bad_usage]\n  hint: write stepwell {command}")


def test_borrowed_words_are_no_commands_and_lead_to_one() -> None:
    commands = {*typer.main.get_command(app).commands}  # type: ignore[attr-defined]  # it is a group
    assert not BORROWED.keys() & commands
    assert {meant.partition(" ")[0].strip(",") for meant in BORROWED.values()} <= commands
