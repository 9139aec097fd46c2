"""The app, `python -m infra.app`, which `cdk` runs according to cdk.json."""

from __future__ import annotations

import sys

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks

from stepwell.cdk import app as project_app
from stepwell.cdk.stack import StepwellStack


def build(app: cdk.App) -> StepwellStack:
    """Builds the stack; findings of cdk-nag fail the synthesis. Raises BadProperty, BundlingError."""
    stack = project_app.build(app)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return stack


def main() -> int:
    return project_app.main(build)


if __name__ == "__main__":
    sys.exit(main())
