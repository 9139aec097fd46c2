"""`stepwell doctor`: each finding has a state, and what to do unless it is ok."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepwell import extras
from stepwell.aws import identity
from stepwell.errors import UserError
from stepwell.project import this_python

from .conftest import Cli

WHO = identity.Identity("123456789012", "eu-west-1", "arn:aws:iam::123456789012:user/ana", True)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "shop"\n[tool.stepwell]\n')
    (tmp_path / "workflows").mkdir()
    return tmp_path


def found(cli: Cli, *arguments: str, status: int = 0) -> dict[str, dict[str, Any]]:
    result = cli("doctor", "--json", *arguments)
    assert result.exit_code == status, result.output
    findings = {one["what"]: one for one in json.loads(result.stdout)}
    assert all(bool(one["hint"]) == (one["state"] != "ok") for one in findings.values())
    return findings


def test_a_machine_with_everything_is_ok(cli: Cli) -> None:
    findings = found(cli, "--no-aws")
    assert {one["state"] for one in findings.values()} == {"ok"}
    assert findings["Python"]["found"] == this_python()
    assert {"stepwell[dev]", "stepwell[deploy]", "stepwell[emulator]", "workflows", "Node"} <= findings.keys()


def test_what_a_project_lacks_is_told_with_what_to_do(cli: Cli, project: Path) -> None:
    (project / "workflows").rmdir()
    other = next(version for version in ("3.11", "3.12") if version != this_python())
    (project / "pyproject.toml").write_text(
        f'[project]\nname = "shop"\ndependencies = ["not-installed-here"]\n[tool.stepwell]\npython = "{other}"\n'
    )
    findings = found(cli, "--no-aws", status=1)
    assert findings["workflows"]["state"] == "error"
    assert "not-installed-here" in findings["dependencies"]["found"]
    assert findings["Lambda's Python"]["found"].startswith(other)


@pytest.mark.parametrize("module", ["not_installed_here", "not_installed_here.sdk"])
def test_an_extra_that_is_missing_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setattr(extras, "MODULES", {**extras.MODULES, "emulator": (module,)})
    assert found(cli, "--no-aws")["stepwell[emulator]"]["hint"].startswith('pip install "stepwell[emulator]"')


@pytest.mark.parametrize(("most", "state"), [(10, "warning"), (1000, "ok")])
def test_an_account_with_too_few_concurrent_functions_is_told(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, most: int, state: str
) -> None:
    monkeypatch.setattr(identity, "identity", lambda profile, region: WHO)
    monkeypatch.setattr(identity, "concurrent_functions", lambda profile, region: most)
    findings = found(cli)
    assert findings["AWS"]["found"].startswith("account 123456789012, eu-west-1")
    assert findings["concurrent functions"]["state"] == state


def test_credentials_that_are_missing_fail_and_the_rest_is_checked(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(profile: str, region: str) -> Any:
        raise UserError("there are no AWS credentials", code="no_credentials", hint="run aws sso login")

    monkeypatch.setattr(identity, "identity", none)
    findings = found(cli, status=1)
    assert findings.pop("AWS") == {"what": "AWS", "state": "error", "found": "there are no AWS credentials",
                                   "hint": "run aws sso login"}  # fmt: skip
    assert {one["state"] for one in findings.values()} == {"ok"}


def test_an_account_that_is_not_bootstrapped_fails(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "identity", lambda profile, region: replace(WHO, bootstrapped=False))
    monkeypatch.setattr(identity, "concurrent_functions", lambda profile, region: 1000)
    bootstrap = found(cli, status=1)["CDK bootstrap"]
    assert bootstrap["hint"] == "stepwell deploy --bootstrap, once for 123456789012 in eu-west-1"


def test_without_boto3_aws_is_not_checked_and_nothing_fails(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "boto3" else find(name))
    assert found(cli)["AWS"]["state"] == "warning"
