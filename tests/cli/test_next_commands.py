"""The commands that are printed to be typed next: they reach the same API, and are not refused."""

from __future__ import annotations

import json

import pytest

from stepwell.client import clients
from stepwell.client.access import Access, Kind
from stepwell.client.exchange import Api

from .conftest import COMPLETED, RUN, Cli, FakeApi, problem

LINKS = {"eva": "http://127.0.0.1:8787/approvals/of-eva"}
NAMED = {**RUN, "waiting_data": {"approvers": ["eva"], "votes": [], "approval_links": LINKS}}
STARTED = {"run_id": RUN["run_id"], "status": "pending"}


@pytest.fixture
def elsewhere(api: FakeApi, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> str:
    """The API's URL, which is not that of the settings."""
    monkeypatch.setenv("STEPWELL_URL", "http://127.0.0.1:9")
    api.has_run(NAMED, COMPLETED)
    api.on("POST", "/workflows/order-review/runs", (201, STARTED))
    return api.url


@pytest.mark.parametrize(
    ("command", "next_one"),
    [
        (["run", "order-review"], "follow it: stepwell watch run_01JABC --url URL"),
        (["show", "run_01JABC"], "stepwell approve run_01JABC --by eva --url URL"),
        (["watch", "run_01JABC"], "stepwell approve run_01JABC --by eva --url URL"),
        (["run", "order-review", "--watch"], "stepwell approve run_01JABC --by eva --url URL"),
        (["run", "order-review", "--wait"], "stepwell approve run_01JABC --by eva --url URL"),
    ],
)
def test_a_next_command_keeps_the_url(cli: Cli, elsewhere: str, command: list[str], next_one: str) -> None:
    result = cli(*command, "--url", elsewhere)
    assert result.exit_code == 0, result.output
    assert next_one.replace("URL", elsewhere) in result.output


@pytest.mark.parametrize(
    ("kind", "is_local", "by"),
    [
        (Kind.SIGNED, False, ""),
        (Kind.SIGNED, True, ""),  # an emulator of AWS
        (Kind.TOKEN, False, ""),
        (Kind.TOKEN, True, " --by eva"),  # `stepwell dev` reads no token
        (Kind.KEY, False, " --by eva"),
        (Kind.OPEN, True, " --by eva"),
    ],
)
def test_where_credentials_say_who_calls_the_next_command_names_nobody(
    api: FakeApi, cli: Cli, monkeypatch: pytest.MonkeyPatch, kind: Kind, is_local: bool, by: str
) -> None:
    """There the API takes no name from `--by`."""
    api.has_run(NAMED, COMPLETED)

    def connected(*_: object) -> Api:
        found = Api(api.url, Access(kind), 0)
        found.local = is_local
        return found

    monkeypatch.setattr(clients, "api_at", connected)
    lines = [line.rstrip() for line in cli("show", "run_01JABC").stdout.splitlines()]
    assert [line for line in lines if line.endswith(f"stepwell approve run_01JABC{by}")]


@pytest.mark.parametrize(
    ("approvers", "tokens", "told"),
    [
        (["eva"], 1, "curl -X POST URL/runs/run_01JABC/links answers with the link of eva"),
        (["eva", "ana"], 1, "curl -X POST URL/runs/run_01JABC/links answers with the link of ana"),  # who types it
        (["eva"], 2, """curl -X POST URL/runs/run_01JABC/links -d '{"wait": "0/0.0"}' answers with the link of eva"""),
        ([], 1, "stepwell approve run_01JABC --url URL"),  # anybody may answer
        (["arn:aws:iam::1:role/boss"], 1, "stepwell approve run_01JABC --by arn:aws:iam::1:role/boss --url URL"),
    ],
)
def test_who_is_let_in_by_a_link_alone_is_told_where_to_get_it(
    api: FakeApi, cli: Cli, elsewhere: str, approvers: list[str], tokens: int, told: str
) -> None:
    """An API that knows its callers, like that of `stepwell dev --aws`, shows no links and takes no `--by`."""
    asking = [{"id": f"0/0.{n}", "step": "boss", "waiting_for": "approval"} for n in range(tokens)]
    api.has_run({**RUN, "tokens": asking, "waiting_data": {"approvers": approvers, "votes": []}})
    shown = " ".join(cli("show", "run_01JABC", "--url", elsewhere).stdout.split())
    assert f" next {told.replace('URL', elsewhere)} " in shown


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        ("stepwell runs lists them", "stepwell runs --url URL lists them"),
        ("listed by: stepwell limits", "listed by: stepwell limits --url URL"),
        (
            "stepwell dlq list shows; or stepwell stats",
            "stepwell dlq list --url URL shows; or stepwell stats --url URL",
        ),
        ("stepwell export RUN > run.jsonl", "stepwell export --url URL r9 > run.jsonl"),
        ("stepwell check lists the errors of the folder", "stepwell check lists the errors of the folder"),
        ("give it as stepwell show --help says", "give it as stepwell show --help says"),
        ("stepwell runs-on has none", "stepwell runs-on has none"),
    ],
)
def test_a_hint_of_the_api_keeps_the_url(api: FakeApi, cli: Cli, elsewhere: str, hint: str, told: str) -> None:
    api.on("GET", "/runs/r9", problem(404, "not_here", "there is no run 'r9'", hint=hint))
    assert f"  hint: {told.replace('URL', elsewhere)}\n" in cli("show", "r9", "--url", elsewhere).stderr
    as_json = json.loads(cli("show", "r9", "--json", "--url", elsewhere).stdout)
    assert as_json["hint"] == told.replace("URL", elsewhere)


def test_the_hint_of_an_error_without_its_own_keeps_the_url(api: FakeApi, cli: Cli, elsewhere: str) -> None:
    api.on("POST", "/runs/r9/cancel", problem(409, "run_ended", "the run has ended"))
    told = cli("cancel", "r9", "--url", elsewhere).stderr
    assert f"hint: stepwell show --url {elsewhere} r9 shows how it ended; stepwell rerun --url {elsewhere} r9" in told


def test_without_the_option_a_hint_has_none(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/runs/r9", problem(404, "not_here", "there is no run 'r9'", hint="stepwell runs lists them"))
    assert "hint: stepwell runs lists them\n" in cli("show", "r9").stderr
    assert "hint: stepwell runs lists them\n" in cli("show", "r9", "--url", api.url).stderr


def test_without_the_option_a_next_command_has_none(api: FakeApi, cli: Cli) -> None:
    api.has_run(RUN, COMPLETED)
    assert "--url" not in cli("show", "run_01JABC").stdout
    assert "--url" not in cli("watch", "run_01JABC", "--url", api.url).stdout


def test_a_watch_says_what_to_do_at_each_wait_once(api: FakeApi, cli: Cli) -> None:
    event = {**RUN, "waiting_for": "event", "current_steps": ["paid"]}
    api.has_run(RUN, RUN, event, event, COMPLETED)
    told = cli("watch", "run_01JABC").stdout
    assert told.count("stepwell approve run_01JABC") == 1
    assert told.count("run_01JABC waits at paid for event") == 1
    assert told.count(": stepwell explain run_01JABC") == 1
