"""`stepwell deploy`: checks the prerequisites, runs the CDK, and prints the next commands."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli import exits
from stepwell.cli.arguments import OfFolder, OfProfile, OfRegion, option, read_pairs
from stepwell.cli.deploying.alarming import with_address
from stepwell.cli.deploying.cdk import CDK, Cdk, Run, app_words, place_of_app, read_settings, run_command, run_quietly
from stepwell.cli.deploying.endpoints import for_emulator
from stepwell.cli.deploying.samples import sample_of
from stepwell.cli.deploying.synthesis import is_complete, synthesise
from stepwell.cli.folder.checking import check_folder, print_problems
from stepwell.cli.folders import DEFAULT_STACK, chosen_folder, default_folder
from stepwell.cli.screen import console, print_json
from stepwell.errors import DefinitionError, StepwellError, UserError
from stepwell.extras import require
from stepwell.project import project_of, unread_beside
from stepwell.settings import environment
from stepwell.values import dataclass

if TYPE_CHECKING:
    from stepwell.aws.identity import Identity
    from stepwell.definition.graph import Graph

Identify = Callable[[str, str], "Identity"]  # profile, region
Outputs = Callable[[str, str, str], Mapping[str, str]]  # profile, region, stack
OUT = "cdk.out"  # below the project
_OF_OPTIONS = frozenset({"folder", "stack_name"})  # properties that have options of their own


@dataclass(frozen=True, slots=True)
class Order:
    """The folder to deploy, and the target account. Empty values come from the AWS configuration."""

    folder: Path
    properties: Mapping[str, str]  # of the stack
    profile: str = ""
    region: str = ""
    bootstrap: bool = False
    yes: bool = False
    dry_run: bool = False
    gate: bool = False
    alarms_to: str = ""
    as_json: bool = False  # for a program, which cannot be asked


def deploy(
    folder: OfFolder = None,
    stack: Annotated[str, option("--stack", "NAME", "The stack's name; default Stepwell.")] = "",
    profile: OfProfile = "",
    region: OfRegion = "",
    context: Annotated[
        list[str] | None, option("--context -c", "KEY=VALUE", "A property of the stack; repeatable.")
    ] = None,
    alarms_to: Annotated[str, option("--alarms-to", "ADDRESS", "Who gets alarms by mail; none: nobody.")] = "",
    bootstrap: Annotated[bool, typer.Option("--bootstrap", help="Bootstrap the CDK first, if needed.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Ask nothing: add permissions, but stop if an open run could not go on.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write the template without calling AWS.")] = False,
    gate: Annotated[
        bool, typer.Option("--gate/--no-gate", help="Check the open runs first, and ask if one could not go on.")
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the stack's outputs, or an error, as JSON and nothing else.")
    ] = False,
) -> None:
    """Deploy a workflow folder to AWS, with the CDK."""
    chosen = chosen_folder(folder).resolve()
    properties = {**read_pairs(context or (), "-c"), "folder": str(chosen)} | ({"stack_name": stack} if stack else {})
    order = Order(chosen, properties, profile, region, bootstrap, yes, dry_run, gate, alarms_to, as_json)
    if not as_json:
        carry_out(order)
        return
    with redirect_stdout(sys.stderr):  # what is told to a person meanwhile
        made = carry_out(order)
    print_json(made)


def carry_out(
    order: Order, *, identify: Identify | None = None, run: Run | None = None, deployed: Outputs | None = None
) -> Mapping[str, Any]:
    """Deploys. Returns where the template is, and what the stack's outputs are.

    Raises StepwellError if a prerequisite is missing, an open run would stick, or the CDK fails.
    """
    workflows = checked(order.folder, as_json=order.as_json)
    require("deploy", "a deployment")
    place = place_of_app(order.folder, Path.cwd())
    if unread := unread_beside(project_of(order.folder)):
        _tell(f"{', '.join(unread)} beside {order.folder.name} is not packed: there is no [tool.stepwell] in a "
              "pyproject.toml; stepwell init --here adds it")  # fmt: skip
    if order.dry_run:
        for told in synthesise(place, order.properties, place / OUT):
            _tell(told)
        console().print(f"the template is in {place / OUT}", soft_wrap=True)
        return {"template": str(place / OUT)}
    _check_consent(order)
    who = (identify or _identify)(order.profile, order.region or environment().get("AWS_REGION", ""))
    _tell(f"account {who.account}, {who.region}, as {who.arn}")
    order = _changed(order, for_emulator(who.endpoint, order.properties, _contexts(order, place)[1:], place))
    before: Mapping[str, str] = {}
    if order.gate:
        before = (deployed or _outputs)(order.profile, who.region, _stack_of(order, place))
        check_open_runs(order, before.get("ApiUrl", ""))
    order = _changed(order, with_address(order.alarms_to, _contexts(order, place), before, yes=order.yes))
    with tempfile.TemporaryDirectory() as beside:
        if not who.bootstrapped:
            # In a folder without cdk.json; otherwise the CDK would run its app first.
            cdk = Cdk(Path(beside), order.profile, who.region, run or run_quietly)
            _bootstrap(cdk, order, f"aws://{who.account}/{who.region}")
        app = _assembled(order, place, who)
        file = Path(beside) / "outputs.json"
        cdk = Cdk(place, order.profile, who.region, run or (run_quietly if order.yes else run_command))
        _tell(f"deploying the stack {_stack_of(order, place)}; the first time takes a few minutes")
        asked = ("--require-approval", "never" if order.yes else "broadening")
        cdk("deploy", *app, *asked, "--outputs-file", str(file))
        outputs = read_outputs(file)
    print_next(outputs, who.region, workflows[0], order.profile)
    return {"template": str(place / OUT), "account": who.account, "region": who.region, "outputs": dict(outputs)}


def _again(order: Order) -> str:
    """The same command: with the folder, the stack, the account and the properties that it was given."""
    words = ["stepwell", "deploy"]
    if order.folder != default_folder().resolve():
        words.append(os.path.relpath(order.folder))
    stack = order.properties.get("stack_name", "")
    given = {"--stack": stack, "--profile": order.profile, "--region": order.region, "--alarms-to": order.alarms_to}
    for name, value in given.items():
        words += [name, value] if value else []
    for name, value in order.properties.items():
        words += ["-c", f"{name}={value}"] if name not in _OF_OPTIONS else []
    words += ["--bootstrap"] if order.bootstrap else []
    return shlex.join(words if order.gate else [*words, "--no-gate"])


def _check_consent(order: Order) -> None:
    """Raises UserError `needs_yes` where the CDK could not ask; it would fail after the build, which takes a minute."""
    if not order.yes and (order.as_json or not sys.stdin.isatty()):
        message = "a deployment asks before it adds permissions, and here is no terminal to ask in"
        raise UserError(message, code="needs_yes", hint=f"agree beforehand: {_again(order)} --yes")


def _changed(order: Order, found: tuple[Mapping[str, str], str]) -> Order:
    """Returns the order with the found properties, and prints the note on them."""
    properties, said = found
    if said:
        _tell(said)
    return replace(order, properties=properties)


def _assembled(order: Order, place: Path, who: Identity) -> list[str]:
    """Builds the packages and the template. Returns the CDK's options that name them.

    An app that looks something up in the account is run by the CDK, which knows how.
    """
    _tell("building the functions' packages and the template")
    there = {"CDK_DEFAULT_ACCOUNT": who.account, "CDK_DEFAULT_REGION": who.region}
    out = place / OUT
    for told in synthesise(place, order.properties, out, there):
        _tell(told)
    if is_complete(out):
        return ["--app", str(out)]
    context = [part for key, value in order.properties.items() for part in ("-c", f"{key}={value}")]
    return ["--app", shlex.join(app_words(place)), *context]


def _tell(text: str) -> None:
    console().print(text, style="dim", soft_wrap=True)


def check_open_runs(order: Order, url: str) -> None:
    """Checks the open runs of the deployed API, if there is one, against the folder. Asks if some would stick."""
    from stepwell.cli.deploying.gate import MOST_RUNS, asked_of, gate_runs, print_gated  # noqa: PLC0415 - with the compiler

    if not url:
        return
    try:
        found = list(gate_runs(asked_of([url], MOST_RUNS), order.folder))
    except StepwellError as error:
        _ask(f"the open runs could not be checked: {error.message}", order)
        return
    print_gated(found)
    count = sum(one.verdict.would_stick for one in found)
    if count:
        _ask(f"{count} open runs could not go on with this code, and would wait for `code`", order)


def _stack_of(order: Order, place: Path) -> str:
    """Returns the stack's name as the CDK app finds it: by the command, cdk.json, or the project."""
    found = (str(one["stack_name"]) for one in _contexts(order, place) if one.get("stack_name"))
    return next(found, DEFAULT_STACK)


def _contexts(order: Order, place: Path) -> tuple[Mapping[str, Any], ...]:
    """Returns the properties of the stack by where they come from, the ones that win first."""
    return (order.properties, read_settings(place).get("context", {}), project_of(order.folder).properties)


def _ask(why: str, order: Order) -> None:
    if order.yes:
        raise UserError(why, code="would_stick", hint="--no-gate deploys all the same")
    typer.confirm(f"{why}. Deploy all the same?", abort=True)


def checked(folder: Path, *, as_json: bool = False) -> Sequence[Graph]:
    """Returns the folder's workflows; exits with 1, like `stepwell check`, if they or their code have errors."""
    loaded, problems = check_folder(folder)
    print_problems(problems, stderr=True)
    wrong = tuple(one for one in problems if one.severity == "error")
    if wrong:
        if as_json:
            hint = "mend them, then: stepwell check"
            message = f"the workflows in {folder} have errors"
            raise DefinitionError(message, code="bad_definitions", hint=hint, problems=wrong)
        raise typer.Exit(exits.FAILED)
    if not loaded.graphs:
        hint = "give the folder with your definitions, or create one: stepwell init DIR"
        raise UserError(f"there are no workflows in {folder}", code="no_workflows", hint=hint)
    return loaded.graphs


def read_outputs(file: Path) -> Mapping[str, str]:
    """Reads the outputs of all stacks from the CDK's file. Without outputs there is no file."""
    stacks = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return {name: value for outputs in stacks.values() for name, value in outputs.items()}


def print_next(outputs: Mapping[str, str], region: str, workflow: Graph, profile: str = "") -> None:
    """Prints the URLs of the deployment and the next commands."""
    out = console()
    url = outputs.get("ApiUrl", "")
    out.print(f"\nAPI        {url}", soft_wrap=True)
    if name := outputs.get("DashboardName"):
        place = f"https://{region}.console.aws.amazon.com/cloudwatch/home?region={region}#dashboards/dashboard/{name}"
        out.print(f"dashboard  {place}", soft_wrap=True)
    commands = [f"export STEPWELL_URL={shlex.quote(url)}"]
    if profile:  # it signs the calls too
        commands.append(f"export AWS_PROFILE={shlex.quote(profile)}")
    if secret := outputs.get("ApiKeySecret"):
        read = f"aws secretsmanager get-secret-value --secret-id {secret} --query SecretString --output text"
        commands.append(f'export STEPWELL_API_KEY="$({read} --region {region})"')
    given = json.dumps(sample_of(workflow.document.get("input_schema")))
    commands.append(f"stepwell run {workflow.name} -i {shlex.quote(given)} --watch")
    out.print("\nnext:")
    for command in commands:
        out.print(f"  {command}", style="bold", soft_wrap=True)


def _bootstrap(cdk: Cdk, order: Order, place: str) -> None:
    if not order.bootstrap:
        profile = f" --profile {shlex.quote(order.profile)}" if order.profile else ""
        ours, theirs = f"{_again(order)} --bootstrap", f"npx {CDK} bootstrap {place}{profile}"
        hint = f"once for each account and region: {ours}, or {theirs}"
        raise UserError(f"the CDK is not bootstrapped in {place}", code="not_bootstrapped", hint=hint)
    _tell(f"bootstrapping the CDK in {place}")
    cdk("bootstrap", place)


def _outputs(profile: str, region: str, stack: str) -> Mapping[str, str]:
    from stepwell.aws.identity import stack_outputs  # noqa: PLC0415 - boto3

    return stack_outputs(profile, region, stack)


def _identify(profile: str, region: str) -> Identity:
    from stepwell.aws.identity import identity  # noqa: PLC0415 - boto3: half a second, only for this command

    return identity(profile, region)
