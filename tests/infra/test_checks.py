"""What others find in the template: cdk-nag's AWS Solutions rules, and cfn-lint."""

from __future__ import annotations

import ast
import tempfile
import tomllib
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3 as s3
from cdk_nag import AwsSolutionsChecks

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
    from cfnlint.api import lint_file  # type: ignore[import-untyped]  # noqa: PLC0415 - slow, and for one worker

    found = lint_file(made(VARIANTS[variant]).file)
    assert not [str(one) for one in found if one.rule.id not in LEFT]


def test_types_are_read_of_every_module_of_the_cdk_that_is_used() -> None:
    """Of others every name would pass for anything."""
    root = Path(__file__).parents[2]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (root / "shared/stepwell/cdk").rglob("*.py")]
    imports = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    used = {
        f"aws_cdk.{alias.name}"
        for node in imports
        for alias in node.names
        if node.module == "aws_cdk" and alias.name.startswith("aws_")
    } | {node.module for node in imports if node.module and node.module.startswith("aws_cdk.")}
    rules = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]["overrides"]
    read = next(rule["module"] for rule in rules if "aws_cdk" in rule["module"])
    assert used <= set(read)
    assert used
