"""What the steps of a folder call, so that the workers may call that and nothing else: by pool, as ARNs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from infra import bundling
from infra.props import EngineProps
from infra.references import lambda_arn, parameter_arn, secret_arn

Calls = Mapping[str, Mapping[str, Sequence[str]]]  # by pool and kind: `lambda`, `http`, `secret`


def calls_of(props: EngineProps, packed: Path | None) -> Calls:
    """`packed`: what bundling has packed; without it the folder is packed for this alone. Raises BundlingError."""
    return _read(packed) if packed else _packed(props.folder, tuple(props.pools), tuple(props.http_hosts))


def arns_of(calls: Mapping[str, Sequence[str]], stack: cdk.Stack) -> Mapping[str, list[str]]:
    """Of one pool, by their names in the table of permissions."""
    named = [reference.partition("#")[0].partition(":") for reference in calls.get("secret", ())]
    secrets = sorted({name for kind, _, name in named if kind == "secretsmanager"})
    parameters = sorted({name for kind, _, name in named if kind == "ssm"})
    return {
        "lambdas": [lambda_arn(name, stack) for name in calls.get("lambda", ())],
        "step_secrets": [secret_arn(name, stack) for name in secrets],
        "step_parameters": [parameter_arn(name, stack) for name in parameters],
    }


def _read(packed: Path) -> Calls:
    found: Mapping[str, Any] = json.loads(packed.read_text(encoding="utf-8"))
    calls: Calls = found["calls"]
    return calls


@cache
def _packed(folder: Path, pools: tuple[str, ...], hosts: tuple[str, ...]) -> Calls:
    with tempfile.TemporaryDirectory() as into:
        packed = Path(into) / "workflows.json"
        bundling.pack(folder, packed, pools, hosts)
        return _read(packed)
