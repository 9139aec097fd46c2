"""The stack on an emulator that checks every call: its signature, the caller's role, the resource's policy, TLS.

What ministack denies and AWS allows:
- a secret of the stack: `Ref` gives its name and not its ARN, so the role names nothing. `name_the_secret` mends that.
- schedules in a group other than `default`: the context's `emulator` has none.
- SQS in batches: nothing of ours sends any.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from stepwell.aws.emulation.deployment import Stack, deploy
from stepwell.aws.emulation.emulator import ANY_SECRET, Emulator
from stepwell.cli.deploying.synthesis import synthesise
from tests.contract.live_socket import Socket
from tests.emulator.kit import DEADLINE_SECONDS
from tests.functions.kit import POOLS, ROOT
from tests.iam.stack import HTTP_HOSTS, SECRET, WORKFLOWS

POOL = {"timeout_seconds": 30, "memory_mb": 256}
CONTEXT = {
    "emulator": True,
    "live": True,
    "folder": str(WORKFLOWS),
    "auth": "api_key",
    "pools": {"default": POOL, "heavy": POOL},
    "http_hosts": HTTP_HOSTS,
}
DENIED = "is not authorized to perform"


class GuardedEmulator(Emulator):
    """An emulator that enforces IAM. Whoever has no role is its account itself, which may do everything."""

    def __init__(self, folder: Path, log: Any) -> None:
        super().__init__(folder, log, {"AUTH": "true", "USE_SSL": "1", "AWS_SECRET_ACCESS_KEY": ANY_SECRET})
        self.url = self.url.replace("http:", "https:", 1)


@dataclass(frozen=True, slots=True)
class Guarded:
    """The deployed stack, as a caller of its API and as its owner."""

    emulator: Emulator
    stack: Stack
    api: httpx.Client
    log: Path
    certificate: Path

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """With the API's key. The answer must be one."""
        answer = self.api.request(method, path, json=body)
        assert answer.is_success, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def hook(self, source: str, body: Any) -> httpx.Response:
        """A delivery as GitHub signs one, without the API's key."""
        content = json.dumps(body).encode()
        signature = hmac.new(SECRET.encode(), content, hashlib.sha256).hexdigest()
        headers = {
            "x-api-key": "",
            "x-github-delivery": hashlib.sha256(content).hexdigest(),
            "x-hub-signature-256": f"sha256={signature}",
        }
        return self.api.post(f"/webhooks/{source}", content=content, headers=headers)

    def watch(self, run_id: str) -> Socket:
        """The live feed of a run, by the ticket that the API gave for it."""
        url = urlsplit(self.ask("GET", f"/stream?run={run_id}")["url"])
        place = f"{url.path}?{url.query}"
        return Socket(f"localhost:{self.emulator.port}", place, tls=ssl.create_default_context(cafile=self.certificate))

    def watchers(self) -> int:
        """How many connections the feed's own table has."""
        (table,) = [name for id_, name in self.stack.of_type("AWS::DynamoDB::Table").items() if "Live" in id_]
        return int(self.emulator.client("dynamodb").scan(TableName=table, Select="COUNT")["Count"])

    def invoke(self, handler: str) -> Any:
        """The handler's own answer to an empty event."""
        name = _one(self.stack, "AWS::Lambda::Function", f"{handler}Function")
        answer = self.emulator.client("lambda").invoke(FunctionName=name, Payload=b"{}")
        return json.loads(answer["Payload"].read())

    def denials(self) -> list[str]:
        """The lines of all functions' logs that tell of one."""
        return [line for line in self.log.read_text().splitlines() if DENIED in line]


@contextmanager
def guarded(data: Path, patch: pytest.MonkeyPatch) -> Iterator[Guarded]:
    """Deployed, until the end of the block."""
    certificate = data / "tmp" / "ministack-tls" / "server.crt"
    patch.setattr(
        "stepwell.aws.emulation.emulator.STOP_SECONDS", 1
    )  # it would wait for the functions' connections, which stay
    synthesise(ROOT, CONTEXT, data / "cdk.out")
    for variable in ("AWS_CA_BUNDLE", "SSL_CERT_FILE"):
        patch.setenv(variable, str(certificate))
    with (data / "log").open("w") as log, GuardedEmulator(data / "tmp", log) as emulator:
        emulator.client("secretsmanager").create_secret(Name="stepwell/till", SecretString=SECRET)
        emulator.client("ssm").put_parameter(Name="/stepwell/form", Value=SECRET, Type="SecureString")
        (stack,) = deploy(emulator, data / "cdk.out")
        name_the_secrets(emulator, stack)
        with _connected(emulator, stack, certificate) as api:
            yield Guarded(emulator, stack, api, data / "log", certificate)


def name_the_secrets(emulator: Emulator, stack: Stack) -> None:
    """The policies as AWS would have them: a secret's ARN where its name is."""
    secrets, roles = emulator.client("secretsmanager"), emulator.client("iam")
    arns = {name: secrets.describe_secret(SecretId=name)["ARN"]
            for name in stack.of_type("AWS::SecretsManager::Secret").values()}  # fmt: skip
    for handler in ("authorizer", "api", "live", *(f"worker{pool}" for pool in POOLS)):
        place = {"RoleName": role_of(stack, handler), "PolicyName": "engine"}
        document = json.dumps(roles.get_role_policy(**place)["PolicyDocument"])
        assert any(f'"{name}"' in document for name in arns), "ministack resolves it now: this can go"
        for name, arn in arns.items():
            document = document.replace(f'"{name}"', f'"{arn}"')
        roles.put_role_policy(**place, PolicyDocument=document)


def role_of(stack: Stack, handler: str) -> str:
    """The name of the handler's role."""
    return _one(stack, "AWS::IAM::Role", f"{handler}Role")


def _one(stack: Stack, kind: str, logical: str) -> str:
    (found,) = [name for id_, name in stack.of_type(kind).items() if id_.startswith(f"StepwellFunctions{logical}")]
    return found


@contextmanager
def _connected(emulator: Emulator, stack: Stack, certificate: Path) -> Iterator[httpx.Client]:
    (api_id,) = [name for id_, name in stack.of_type("AWS::ApiGatewayV2::Api").items() if "Live" not in id_]
    key = emulator.client("secretsmanager").get_secret_value(SecretId=stack.outputs["ApiKeySecret"])["SecretString"]
    with httpx.Client(
        base_url=emulator.url,
        headers={"host": f"{api_id}.execute-api.localhost:{emulator.port}", "x-api-key": key},
        verify=ssl.create_default_context(cafile=certificate),
        trust_env=False,
        timeout=DEADLINE_SECONDS,
    ) as client:
        yield client
