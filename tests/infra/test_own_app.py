"""A CDK app of a user's own, with the construct in it beside functions and tables of its own."""

from __future__ import annotations

import json
from pathlib import Path

import aws_cdk as cdk
import pytest

import stepwell.cdk
from stepwell.cdk import app
from tests.emulator.shop.app import Shop
from tests.infra.kit import Made, listed, plain


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The template of the app that tests/emulator deploys, without the packages."""
    out = tmp_path_factory.mktemp("own")
    own = cdk.App(outdir=str(out))
    Shop(own, "Shop", bundle=False)
    own.synth()
    file = out / "Shop.template.json"
    template = json.loads(file.read_text())
    return Made(file, template["Resources"], template.get("Outputs", {}))


def test_a_function_of_their_own_may_start_runs_and_no_more(shop: Made) -> None:
    (role,) = [id_ for id_ in shop.of("IAM::Role") if id_.startswith("OrdersServiceRole")]
    (statement,) = shop.statements_of(role)
    assert statement["Action"] == "execute-api:Invoke"
    paths = {plain(one).rpartition("$default")[2] for one in listed(statement["Resource"])}
    assert paths == {"/POST/workflows/*/runs", "/POST/runs/*/start"}


def test_steps_may_read_a_table_of_their_own(shop: Made) -> None:
    (table,) = [id_ for id_ in shop.of("DynamoDB::Table") if id_.startswith("Prices")]
    granted = [
        one for one in shop.statements("worker-default") if f"<{table}.Arn>" in map(plain, listed(one["Resource"]))
    ]
    assert {action for one in granted for action in listed(one["Action"])} >= {"dynamodb:GetItem", "dynamodb:Query"}


def test_the_construct_has_the_properties_it_was_given(shop: Made) -> None:
    assert shop.functions()["worker-default"]["MemorySize"] == 512


@pytest.mark.parametrize("name", stepwell.cdk.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(stepwell.cdk, name).__doc__


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Engine'"):
        _ = stepwell.cdk.Engine  # type: ignore[attr-defined]  # there is none


# -- the app of a project


def test_the_app_takes_the_properties_of_the_project_and_the_command_line_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.stepwell]\nworkflows = "flows"\npython = "3.12"\nstack_name = "Shop"\nbundle = false\n'
        'log_level = "debug"\n'
    )
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "a.yaml").write_text("workflow: a\ntimeline: [{name: a, run: python:m.a, timeout: 9s}]\n")
    monkeypatch.chdir(tmp_path)
    stack = app.build(cdk.App(context={"log_level": "error"}))
    assert stack.stack_name == "Shop"
    functions = cdk.assertions.Template.from_stack(stack).find_resources("AWS::Lambda::Function").values()
    ours = [one["Properties"] for one in functions if "Stepwell: " in one["Properties"].get("Description", "")]
    assert {one["Runtime"] for one in ours} == {"python3.12"}
    assert {one["Environment"]["Variables"]["STEPWELL_LOG_LEVEL"] for one in ours} == {"error"}


def test_a_property_of_the_project_that_there_is_not_ends_the_app_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.stepwell]\nlog_levle = 'debug'\n")
    monkeypatch.chdir(tmp_path)
    assert app.main() == 1
    assert capsys.readouterr().err == "error: context: unknown property log_levle; is it log_level? [bad_property]\n"
