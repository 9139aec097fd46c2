"""What others find in the template: cdk-nag's AWS Solutions rules, and cfn-lint."""

from __future__ import annotations

import tempfile

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3 as s3
from cdk_nag import AwsSolutionsChecks
from cfnlint.api import lint_file  # type: ignore[import-untyped]

from tests.infra.kit import VARIANTS, made

# The CDK names a role in DependsOn where the function names it anyway.
LEFT = {"W3005"}


@pytest.mark.parametrize("variant", VARIANTS)
def test_cdk_nag_finds_nothing_that_is_not_acknowledged(variant: str) -> None:
    """A finding fails the synthesis."""
    assert made(VARIANTS[variant]).resources


def test_a_finding_does_fail_the_synthesis() -> None:
    app = cdk.App(outdir=tempfile.mkdtemp())
    s3.Bucket(cdk.Stack(app, "Careless"), "Open")
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()


@pytest.mark.parametrize("variant", ["keyed", "guarded"])
def test_cfn_lint_finds_nothing(variant: str) -> None:
    found = lint_file(made(VARIANTS[variant]).file)
    assert not [str(one) for one in found if one.rule.id not in LEFT]
