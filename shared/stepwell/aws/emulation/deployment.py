"""Deploys a synthesised cloud assembly (a `cdk.out`) to the emulator: uploads assets, creates stacks.

This equals `cdk bootstrap` and `cdk deploy`, without Node and in a second.
"""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from stepwell.aws.emulation.emulator import ACCOUNT, REGION, Emulator
from stepwell.definition.graph import Json
from stepwell.errors import StepwellError
from stepwell.values import dataclass

BOOTSTRAP_PARAMETER = "/cdk-bootstrap/hnb659fds/version"
BOOTSTRAP_VERSION = "99"
POLL_SECONDS = 0.1
DEPLOY_SECONDS = 120.0
ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # the same content makes the same file


@dataclass(frozen=True, slots=True)
class Stack:
    """A deployed stack: its outputs, and the physical ids of its resources by type and logical id."""

    name: str
    outputs: Mapping[str, str]
    resources: Mapping[tuple[str, str], str]

    def of_type(self, kind: str) -> Mapping[str, str]:
        """Returns physical ids by logical id."""
        return {logical: physical for (found, logical), physical in self.resources.items() if found == kind}


@dataclass(frozen=True, slots=True)
class _Planned:
    """A stack of the assembly."""

    name: str
    template: Path
    assets: Path
    parameters: Mapping[str, str]


def deploy(emulator: Emulator, assembly: Path) -> tuple[Stack, ...]:
    """Creates or updates the assembly's stacks in order. Raises StepwellError `deploy_failed` with the reasons."""
    try:
        return _deploy(emulator, assembly)
    except (BotoCoreError, ClientError) as error:
        raise StepwellError(f"the emulator refused: {error}", code="deploy_failed") from error


def _deploy(emulator: Emulator, assembly: Path) -> tuple[Stack, ...]:
    emulator.client("ssm").put_parameter(
        Name=BOOTSTRAP_PARAMETER, Value=BOOTSTRAP_VERSION, Type="String", Overwrite=True
    )
    stacks, kept = [], set()
    for planned in _stacks(assembly):
        places = _upload(emulator, assembly, _read(planned.assets))
        url = f"{emulator.url}/{places[planned.template.name]}"
        stacks.append(_stand(emulator.client("cloudformation"), planned, url))
        kept |= set(places.values())
    _forget_others(emulator, kept)
    return tuple(stacks)


def _stacks(assembly: Path) -> Iterator[_Planned]:
    """Returns the stacks in the assembly's order, which follows their dependencies."""
    artifacts: Mapping[str, Json] = _read(assembly / "manifest.json")["artifacts"]
    manifests = {
        name: assembly / artifact["properties"]["file"]
        for name, artifact in artifacts.items()
        if artifact["type"] == "cdk:asset-manifest"
    }
    for name, artifact in artifacts.items():
        if artifact["type"] == "aws:cloudformation:stack":
            properties = artifact["properties"]
            yield _Planned(
                properties.get("stackName", name),
                assembly / properties["templateFile"],
                next(manifests[one] for one in artifact["dependencies"] if one in manifests),
                properties.get("parameters", {}),
            )


def _upload(emulator: Emulator, assembly: Path, manifest: Json) -> Mapping[str, str]:
    """Uploads missing file assets to their buckets. Returns bucket/key by the asset's file name."""
    store = emulator.client("s3")
    buckets = {bucket["Name"] for bucket in store.list_buckets()["Buckets"]}
    places = {}
    for asset in manifest["files"].values():
        for destination in asset["destinations"].values():
            bucket, key = (_filled(destination[name]) for name in ("bucketName", "objectKey"))
            if bucket not in buckets:
                store.create_bucket(Bucket=bucket)
                buckets.add(bucket)
            if not store.list_objects_v2(Bucket=bucket, Prefix=key).get("KeyCount"):
                store.put_object(Bucket=bucket, Key=key, Body=_packed(assembly, asset["source"]))
            places[asset["source"]["path"]] = f"{bucket}/{key}"
    return places


def _forget_others(emulator: Emulator, kept: Collection[str]) -> None:
    """Deletes uploaded assets after a deployment, to free the emulator's memory."""
    store = emulator.client("s3")
    for bucket in {place.partition("/")[0] for place in kept}:
        for found in store.list_objects_v2(Bucket=bucket).get("Contents", ()):
            if f"{bucket}/{found['Key']}" not in kept:
                store.delete_object(Bucket=bucket, Key=found["Key"])


def _filled(text: str) -> str:
    return text.replace("${AWS::AccountId}", ACCOUNT).replace("${AWS::Region}", REGION)


def _packed(assembly: Path, source: Mapping[str, str]) -> bytes:
    path = assembly / source["path"]
    if source["packaging"] != "zip":
        return path.read_bytes()
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(found for found in path.rglob("*") if found.is_file()):
            entry = zipfile.ZipInfo(file.relative_to(path).as_posix(), ZIP_TIME)
            entry.external_attr = file.stat().st_mode << 16
            archive.writestr(entry, file.read_bytes())
    return content.getvalue()


def _stand(formation: Any, planned: _Planned, template_url: str) -> Stack:
    wanted = {
        "StackName": planned.name,
        "TemplateURL": template_url,
        "Parameters": [{"ParameterKey": key, "ParameterValue": value} for key, value in planned.parameters.items()],
        "Capabilities": ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
    }
    try:
        formation.create_stack(**wanted)
    except formation.exceptions.AlreadyExistsException:
        _update(formation, wanted)
    found = _settle(formation, planned.name)
    outputs = {output["OutputKey"]: output["OutputValue"] for output in found.get("Outputs", ())}
    listed = formation.describe_stack_resources(StackName=planned.name)["StackResources"]
    resources = {(one["ResourceType"], one["LogicalResourceId"]): one["PhysicalResourceId"] for one in listed}
    return Stack(planned.name, outputs, resources)


def _update(formation: Any, wanted: Mapping[str, Any]) -> None:
    try:
        formation.update_stack(**wanted)
    except ClientError as error:
        if "No updates" not in str(error):
            raise


def _settle(formation: Any, name: str) -> Mapping[str, Any]:
    """Waits until the stack is stable, and returns it."""
    until = time.monotonic() + DEPLOY_SECONDS
    while time.monotonic() < until:
        stack: Mapping[str, Any] = formation.describe_stacks(StackName=name)["Stacks"][0]
        status = str(stack["StackStatus"])
        if status in {"CREATE_COMPLETE", "UPDATE_COMPLETE"}:
            return stack
        if not status.endswith("_IN_PROGRESS"):
            raise _failed(formation, name, status)
        time.sleep(POLL_SECONDS)
    raise _failed(formation, name, f"not done in {DEPLOY_SECONDS:.0f} seconds")


def _failed(formation: Any, name: str, status: str) -> StepwellError:
    events = formation.describe_stack_events(StackName=name)["StackEvents"]
    reasons = [
        f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason', 'no reason given')}"
        for event in reversed(events)
        if event["ResourceStatus"].endswith("_FAILED")
    ]
    return StepwellError(f"stack {name}: {status}; {'; '.join(reasons) or 'no reason given'}", code="deploy_failed")


def _read(path: Path) -> Json:
    return json.loads(path.read_text(encoding="utf-8"))
