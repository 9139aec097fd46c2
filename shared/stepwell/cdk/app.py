"""The CDK app of a project, `python -m stepwell.cdk`: a stack with one engine, as pyproject.toml and cdk.json say."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from stepwell.cdk import context
from stepwell.cdk.stack import StepwellStack
from stepwell.errors import StepwellError
from stepwell.project import find_project
from stepwell.reports import report
from stepwell.settings import environment


def build(app: cdk.App) -> StepwellStack:
    """Builds the stack of the app's context. Raises BadProperty, BundlingError, UserError `bad_project`."""
    given = app.node.get_all_context()
    project = find_project(Path.cwd())
    asked = {**project.properties, "folder": str(project.folder), **given} if project else given
    return StepwellStack(app, context.stack_name(asked), asked)


def main(make: Callable[[cdk.App], object] = build) -> int:
    """Synthesises the app that `make` fills. Returns the exit status."""
    app = cdk.App(outdir=environment().get("CDK_OUTDIR", "cdk.out"), context=_context())
    try:
        make(app)
    except StepwellError as error:
        print(report(error), file=sys.stderr)
        return 1
    app.synth()
    return 0


def _context() -> Mapping[str, Any]:
    """Returns the context of the CDK's command line, or else that of cdk.json."""
    if given := environment().get("CDK_CONTEXT_JSON"):
        context: Mapping[str, Any] = json.loads(given)
    else:
        file = Path("cdk.json")
        context = json.loads(file.read_text(encoding="utf-8")).get("context", {}) if file.is_file() else {}
    return context
