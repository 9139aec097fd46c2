"""Runs the CDK: its command line on the Node that is installed with Stepwell, and the project's app."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stepwell.cdk.node import installed_node, installed_npx
from stepwell.errors import StepwellError, UserError
from stepwell.project import find_project
from stepwell.settings import environment
from stepwell.values import dataclass

CDK = "aws-cdk@2.1148.1"  # not the latest: 3.0.0 cannot read what aws-cdk-lib 2 writes
APP = "stepwell.cdk"
SETTINGS = "cdk.json"
# npm says nothing but errors, and the CDK neither looks for a newer one nor shows notices and its telemetry's banner.
_QUIET = {"npm_config_loglevel": "error", "npm_config_update_notifier": "false", "npm_config_fund": "false",
          "CDK_DISABLE_VERSION_CHECK": "1", "CDK_DISABLE_CLI_TELEMETRY": "1", "CDK_NOTICES": "false"}  # fmt: skip

Run = Callable[[Sequence[str], Path, Mapping[str, str]], int]  # command, directory, variables: exit status


def run_command(command: Sequence[str], directory: Path, variables: Mapping[str, str]) -> int:
    """Runs a command in this terminal, where it can ask questions. Returns its exit status."""
    return subprocess.call(command, cwd=directory, env=dict(variables))  # noqa: S603 - our own words


def run_quietly(command: Sequence[str], directory: Path, variables: Mapping[str, str]) -> int:
    """Runs a command, and prints its output on stderr only if it fails. Returns its exit status."""
    with tempfile.TemporaryFile() as said:
        status = subprocess.call(  # noqa: S603 - our own words
            command, cwd=directory, env=dict(variables), stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        if status:
            said.seek(0)
            sys.stderr.write(said.read().decode(errors="replace"))
    return status


def place_of_app(folder: Path, start: Path) -> Path:
    """Returns where the CDK runs: the folder's project, else the nearest cdk.json at or above `start`, else `start`."""
    project = find_project(folder)
    if project:
        return project.root
    return next((place for place in (start, *start.parents) if (place / SETTINGS).is_file()), start)


def app_words(place: Path) -> list[str]:
    """Returns the command of the CDK app: that of cdk.json, under the current Python if it is a program in Python."""
    words = shlex.split(str(read_settings(place).get("app") or f"python -m {APP}"))
    for at, word in enumerate(words):
        if re.fullmatch(r"python[\d.]*", word):
            return [sys.executable, *words[at + 1 :]]
    return words


def read_settings(place: Path) -> Mapping[str, Any]:
    """Reads cdk.json; nothing if there is none. Raises UserError `bad_project`."""
    file = place / SETTINGS
    try:
        found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    except ValueError as error:
        raise UserError(f"{file} is not JSON: {error}", code="bad_project") from error
    if not isinstance(found, dict) or not isinstance(found.get("context", {}), dict):
        raise UserError(f"{file} is not a JSON object with the object `context`", code="bad_project")
    return found


@dataclass(frozen=True, slots=True)
class Cdk:
    """The CDK in a folder, for an account and region. Empty values leave the choice to the CDK."""

    place: Path
    profile: str = ""
    region: str = ""
    run: Run = run_command

    def __call__(self, command: str, *arguments: str) -> None:
        """Runs a CDK command. Raises StepwellError `not_installed`, `cdk_failed`; the CDK has printed the reason."""
        npx, path = _npx(environment())
        place = [("--profile", self.profile), ("--region", self.region)]
        chosen = [part for option, value in place if value for part in (option, value)]
        words = [*npx, "--yes", CDK, command, *arguments, *chosen]
        status = self.run(words, self.place, {**environment(), **_QUIET, "PATH": path})
        if status:
            message = f"cdk {command} ended with status {status}"
            raise StepwellError(message, code="cdk_failed", hint="its output above has the reason")


def _npx(variables: Mapping[str, str]) -> tuple[list[str], str]:
    """Finds npx and the PATH for its node: the ones installed with Stepwell, else the system's."""
    path = variables.get("PATH", os.defpath)
    node, script = installed_node(), installed_npx()
    if node and script:
        return [str(node), str(script)], f"{node.parent}{os.pathsep}{path}"
    npx = shutil.which("npx", path=path)
    if npx is None:
        hint = 'pip install "stepwell[deploy]", or install Node 22 or later'
        raise StepwellError("the CDK needs Node, which is not installed", code="not_installed", hint=hint)
    return [npx], path
