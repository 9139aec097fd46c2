"""The CDK app, `python -m infra.app`, which `cdk` runs according to cdk.json."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks

from infra import context
from infra.bundling import ROOT, BundlingError
from infra.props import BadProperty
from infra.stack import StepwellStack


def build(app: cdk.App) -> StepwellStack:
    """Builds the stack of the app's context. Raises BadProperty, BundlingError."""
    asked = app.node.get_all_context()
    stack = StepwellStack(app, context.stack_name(asked), asked)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return stack


def main() -> int:
    app = cdk.App(outdir=os.environ.get("CDK_OUTDIR", "cdk.out"), context=_context())
    try:
        build(app)
    except (BadProperty, BundlingError) as error:
        print(error, file=sys.stderr)
        return 1
    app.synth()
    return 0


def _context() -> Mapping[str, Any]:
    """Returns the context of the CDK's command line, or else that of cdk.json."""
    if "CDK_CONTEXT_JSON" in os.environ:
        context: Mapping[str, Any] = json.loads(os.environ["CDK_CONTEXT_JSON"])
    else:
        context = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    return context


if __name__ == "__main__":
    sys.exit(main())
