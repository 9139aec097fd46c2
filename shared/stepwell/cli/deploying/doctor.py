"""`stepwell doctor`: checks what a project needs on this machine and on AWS, and says what to do about the rest."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from stepwell.cdk.node import installed_node
from stepwell.cli import exits
from stepwell.cli.arguments import OfProfile, OfRegion
from stepwell.cli.screen import console, print_json
from stepwell.cli.views.words import printable
from stepwell.errors import StepwellError
from stepwell.extras import MODULES, missing
from stepwell.project import PYTHONS, find_project, this_python
from stepwell.settings import environment
from stepwell.values import dataclass

CONCURRENT = 100  # a new account has 10, which one wide fork takes up
OK, WARNING, ERROR = "ok", "warning", "error"
_LOOKS = {OK: ("✓", "green"), WARNING: ("!", "yellow"), ERROR: ("✗", "red")}


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found. `hint`: what to do, if it is not ok."""

    what: str
    state: str
    found: str
    hint: str = ""


def doctor(
    aws: Annotated[bool, typer.Option("--aws/--no-aws", help="Also check credentials, region and quotas.")] = True,
    profile: OfProfile = "",
    region: OfRegion = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check this machine and the AWS account, and say what to do. Exit status 1: something does not work (✗)."""
    findings = [*on_this_machine(Path()), *(on_aws(profile, region) if aws else ())]
    if as_json:
        print_json([asdict(one) for one in findings])
    else:
        _show(findings)
    if any(one.state == ERROR for one in findings):
        raise typer.Exit(exits.FAILED)


def on_this_machine(place: Path) -> Iterator[Finding]:
    """Checks Python, the extras, the project, its dependencies, and Node."""
    python = this_python()
    known = python in PYTHONS
    yield Finding("Python", OK if known else ERROR, python, "" if known else f"use one of {', '.join(PYTHONS)}")
    for extra in MODULES:
        lacks = missing(extra)
        hint = f'pip install "stepwell[{extra}]", if you need it' if lacks else ""
        found = f"without {', '.join(lacks)}" if lacks else "installed"
        yield Finding(f"stepwell[{extra}]", WARNING if lacks else OK, found, hint)
    yield from _of_project(place)
    node = installed_node() or shutil.which("node", path=environment().get("PATH"))
    hint = "" if node else 'pip install "stepwell[deploy]" brings one; the CDK needs it'
    yield Finding("Node", OK if node else WARNING, str(node or "none"), hint)


def _of_project(place: Path) -> Iterator[Finding]:
    project = find_project(place)
    if project is None:
        yield Finding(
            "project", WARNING, "no [tool.stepwell] here or above", "stepwell init DIR, or stepwell init --here"
        )
        return
    there = project.folder.is_dir()
    hint = "" if there else "create it, or name another one in [tool.stepwell]: workflows"
    yield Finding("workflows", OK if there else ERROR, str(project.folder), hint)
    if lacks := project.not_installed():
        yield Finding("dependencies", WARNING, f"not installed: {', '.join(lacks)}", "install the project")
    if project.python != this_python():
        hint = "run your tests with it, or change `python` in [tool.stepwell]"
        yield Finding("Lambda's Python", WARNING, f"{project.python}, but this is {this_python()}", hint)


def on_aws(profile: str, region: str) -> Iterator[Finding]:
    """Checks credentials, region, the CDK's bootstrap, and the quota of concurrent functions."""
    if importlib.util.find_spec("boto3") is None:
        yield Finding("AWS", WARNING, "not checked: boto3 is not installed", 'pip install "stepwell[deploy]"')
        return
    from stepwell.aws.identity import concurrent_functions, identity  # noqa: PLC0415 - boto3

    try:
        who = identity(profile, region or environment().get("AWS_REGION", ""))
        yield Finding("AWS", OK, f"account {who.account}, {who.region}, as {who.arn}")
        given = "".join(f" {option} {shlex.quote(value)}" for option, value in
                        (("--profile", profile), ("--region", region)) if value)  # fmt: skip
        once = f"stepwell deploy --bootstrap{given}, once for {who.account} in {who.region}"
        hint = "" if who.bootstrapped else once
        yield Finding("CDK bootstrap", OK if who.bootstrapped else ERROR, _said(who.bootstrapped), hint)
        yield _of_quota(lambda: concurrent_functions(profile, who.region))
    except StepwellError as error:
        yield Finding("AWS", ERROR, error.message, error.hint or "")


def _of_quota(ask: Callable[[], int]) -> Finding:
    most = ask()
    hint = "" if most >= CONCURRENT else "ask for more in Service Quotas: Lambda, concurrent executions"
    return Finding("concurrent functions", OK if most >= CONCURRENT else WARNING, str(most), hint)


def _said(is_there: bool) -> str:
    return "there" if is_there else "missing"


def _show(findings: list[Finding]) -> None:
    out = console()
    for one in findings:
        mark, style = _LOOKS[one.state]
        out.print(printable(f"{mark} {one.what:<20} {one.found}"), style=style, soft_wrap=True)
        if one.hint:
            out.print(printable(f"  {'':<20} {one.hint}"), soft_wrap=True)
