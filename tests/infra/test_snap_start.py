"""Functions that start from a snapshot: who they are, and that it is their snapshot that is called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepwell.cdk.errors import BadProperty
from stepwell.cdk.props import EngineProps
from tests.infra.kit import PLAIN, Json, Made, made

SNAPPED: Json = {"snap_start": True, "python": "3.13"}


def aliases(template: Made) -> dict[str, str]:
    """The alias of each function that has one, by what the function is."""
    found = template.of("Lambda::Alias")
    return {
        name: alias
        for name in template.functions()
        for alias, one in found.items()
        if one["FunctionName"] == {"Ref": template.id_of(name)}
    }


def test_whoever_is_waited_for_starts_from_a_snapshot() -> None:
    template = made(SNAPPED)
    snapped = {name for name, one in template.functions().items() if "SnapStart" in one}
    assert snapped == {"api", "webhooks", "worker-default"}
    assert {json.dumps(template.functions()[name]["SnapStart"]) for name in snapped} == {
        '{"ApplyOn": "PublishedVersions"}'
    }
    assert aliases(template).keys() == snapped
    versions = template.of("Lambda::Version")
    for alias in template.of("Lambda::Alias").values():
        version = alias["FunctionVersion"]["Fn::GetAtt"][0]
        assert versions[version]["FunctionName"] == alias["FunctionName"]


def test_it_is_the_snapshot_that_is_called() -> None:
    template = made(SNAPPED)
    alias = aliases(template)
    sources = [json.dumps(one["FunctionName"]) for one in template.of("Lambda::EventSourceMapping").values()]
    assert sum(alias["worker-default"] in one for one in sources) == 1
    assert not any(f'{{"Ref": "{template.id_of("worker-default")}"}}' == one for one in sources)
    uris = json.dumps([one["IntegrationUri"] for one in template.of("ApiGatewayV2::Integration").values()])
    assert all(alias[name] in uris for name in ("api", "webhooks"))
    assert not any(f'"{template.id_of(name)}"' in uris for name in ("api", "webhooks"))


def test_the_api_may_ask_the_workers_snapshot_and_does() -> None:
    template = made(SNAPPED)
    worker = aliases(template)["worker-default"]
    assert worker in json.dumps(template.functions()["api"]["Environment"]["Variables"]["STEPWELL_WORKER"])
    allowed = [
        json.dumps(statement["Resource"])
        for role in template.of("IAM::Role").values()
        for policy in role.get("Policies", ())
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Action"] == "lambda:InvokeFunction"
    ]
    assert [one for one in allowed if worker in one]


def test_without_the_property_there_are_no_versions() -> None:
    template = made(PLAIN)
    assert not template.has("Lambda::Version")
    assert not any("SnapStart" in one for one in template.functions().values())


def test_a_python_without_snapshots_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadProperty, match="snap_start"):
        EngineProps(folder=tmp_path, python="3.11", snap_start=True)
