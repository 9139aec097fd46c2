"""A webhook whose secret is in a variable alone: no deploy sets it, so that each call would be answered with 503."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
import pytest

from stepwell.cdk.engine import StepwellEngine
from stepwell.cdk.props import EngineProps

SOURCES = """
sources:
  carrier: {{scheme: github, secret: {0}, event: "'delivered'"}}
  sensor: {{scheme: none, secret: none, event: "'reading'"}}
"""


@pytest.mark.parametrize(
    ("secret", "told"),
    [
        ("env:CARRIER", "env:CARRIER"),
        ('["env:NEW", "env:OLD"]', "env:NEW or env:OLD"),
        ('["env:CARRIER", "ssm:/carrier"]', ""),
        ("secretsmanager:carrier", ""),
    ],
)
def test_a_deploy_tells_of_a_secret_that_no_function_has(tmp_path: Path, secret: str, told: str) -> None:
    (tmp_path / "webhooks.yaml").write_text(SOURCES.format(secret))
    stack = cdk.Stack(cdk.App(), "Shop")
    StepwellEngine(stack, "Stepwell", EngineProps(folder=tmp_path, bundle=False))
    pattern = cdk.assertions.Match.string_like_regexp("webhooks.yaml: .*")
    found = [str(one.entry.data) for one in cdk.assertions.Annotations.from_stack(stack).find_info("*", pattern)]
    assert len(found) == bool(told)
    assert all(f"the secret of carrier, {told}:" in one for one in found)
