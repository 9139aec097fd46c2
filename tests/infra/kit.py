"""A synthesised template, and what its tests ask of it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from infra.app import build

Json = dict[str, Any]
ROOT = Path(__file__).parent.parent.parent
ORDER = "examples/order"
KEY_ARN = "arn:aws:kms:eu-west-1:123456789012:key/11111111-1111-1111-1111-111111111111"
FORMER_KEY_ARN = "arn:aws:kms:eu-west-1:123456789012:key/22222222-2222-2222-2222-222222222222"
VPC = {"id": "vpc-12345678", "availability_zones": ["eu-west-1a"], "subnet_ids": ["subnet-12345678"]}
MAIL = "someone@example.org"

# Every property is off its default in one of these.
PLAIN: Json = {}
EMULATOR: Json = {"emulator": True}
KEYED: Json = {
    "auth": "api_key",
    "alarm_email": MAIL,
    "tracing": True,
    "events": "all",
    "public_url": "https://flows.example.org/api",
    "coordinator_concurrency": 10,
    "rate_per_second": "2000",
    "open_rate_per_second": "20",
    "pools": {
        "default": {"concurrency": 5},
        "big": {
            "memory_mb": 4096,
            "timeout_seconds": 60,
            "concurrency": 2,
            "steps_per_invocation": 4,
            "environment": {"MODEL": "large"},
            "permissions": [
                {"actions": ["bedrock:InvokeModel"], "resources": ["arn:aws:bedrock:*::foundation-model/*"]}
            ],
        },
    },
}
GUARDED: Json = {
    "auth": "jwt",
    "jwt_issuer": "https://issuer.example.org/",
    "jwt_audience": ["stepwell"],
    "console_client_id": "the-console",
    "console_login_urls": ["https://login.example.org"],
    "removal_policy": "destroy",
    "kms_key_arn": KEY_ARN,
    "former_kms_key_arns": [FORMER_KEY_ARN],
    "alarm_email": MAIL,
    "vpc": VPC,
    "log_retention_days": 7,
    "aws_client": "boto3",
    "compress": True,
    "lanes": False,
}
SENDING: Json = {
    "folder": str(Path(__file__).parent / "sending"),
    "http_hosts": ["*.example.com"],
    "kms_key_arn": KEY_ARN,
}  # webhooks go out, and none come in
WATCHED: Json = {"live": True, "kms_key_arn": KEY_ARN}
VARIANTS = {
    "plain": PLAIN,
    "emulator": EMULATOR,
    "keyed": KEYED,
    "guarded": GUARDED,
    "sending": SENDING,
    "watched": WATCHED,
}


@dataclass(frozen=True, slots=True)
class Made:
    """A template, as a file and as what it holds."""

    file: Path
    resources: Mapping[str, Json]
    outputs: Mapping[str, Json]

    def of(self, kind: str) -> dict[str, Json]:
        """The properties of all resources of a type, by logical id."""
        found = {id_: one.get("Properties", {}) for id_, one in self.resources.items() if one["Type"] == f"AWS::{kind}"}
        assert found, f"there is no AWS::{kind}: a test over nothing proves nothing"
        return found

    def only(self, kind: str) -> Json:
        """The properties of the one resource of a type."""
        (one,) = self.of(kind).values()
        return one

    def has(self, kind: str) -> bool:
        return any(one["Type"] == f"AWS::{kind}" for one in self.resources.values())

    def functions(self) -> dict[str, Json]:
        """The engine's functions by what they are: `api`, `worker-default`."""
        return {
            str(one["Description"]).removeprefix("Stepwell: "): one
            for one in self.of("Lambda::Function").values()
            if str(one.get("Description", "")).startswith("Stepwell: ")
        }

    def id_of(self, name: str) -> str:
        """The logical id of a function."""
        wanted = self.functions()[name]
        return next(id_ for id_, one in self.of("Lambda::Function").items() if one is wanted)

    def mappings(self, name: str) -> list[Json]:
        """The event sources of a function."""
        id_ = self.id_of(name)
        return [one for one in self.of("Lambda::EventSourceMapping").values() if one["FunctionName"] == {"Ref": id_}]

    def queue(self, name: str) -> str:
        """A queue's logical id, by the beginning of its name: `Resume`, `Workdefault`, `WorkDeaddefault`, `Dead`."""
        prefix = f"StepwellQueues{name}"
        (found,) = [id_ for id_ in self.of("SQS::Queue") if id_.startswith(prefix) and len(id_) == len(prefix) + 8]
        return found

    def statements(self, name: str) -> list[Json]:
        """What a function's role allows."""
        return self.statements_of(self.functions()[name]["Role"]["Fn::GetAtt"][0])

    def statements_of(self, role: str) -> list[Json]:
        """What a role allows, in itself and in policies of their own."""
        documents = [policy["PolicyDocument"] for policy in self.of("IAM::Role")[role].get("Policies", ())]
        if self.has("IAM::Policy"):
            documents += [one["PolicyDocument"] for one in self.of("IAM::Policy").values()
                          if {"Ref": role} in one["Roles"]]  # fmt: skip
        return [statement for document in documents for statement in document["Statement"]]

    def all_statements(self) -> Iterator[tuple[str, Json]]:
        """(role, statement) of every role."""
        for role in self.of("IAM::Role"):
            for statement in self.statements_of(role):
                yield role, statement


def listed(value: Any) -> Sequence[Any]:
    """IAM writes one as itself, several as a list."""
    return value if isinstance(value, list) else [value]


def plain(value: Any) -> str:
    """A value of the template as text: what is another resource's in angle brackets."""
    match value:
        case str():
            return value
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(plain(part) for part in parts)
        case _:
            raise AssertionError(f"not text: {value}")


def made(context: Mapping[str, Any]) -> Made:
    """The template of this context, without code, checked by cdk-nag; once for each context."""
    return _made(json.dumps({"folder": str(ROOT / ORDER), "bundle": False, **context}, sort_keys=True))


@cache
def _made(context: str) -> Made:
    out = Path(tempfile.mkdtemp(prefix="stepwell-test-"))
    app = cdk.App(context=json.loads(context), outdir=str(out))
    build(app)
    app.synth()
    (file,) = out.glob("*.template.json")
    template = json.loads(file.read_text(encoding="utf-8"))
    return Made(file, template["Resources"], template["Outputs"])
