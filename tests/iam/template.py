"""The synthesised template with names in it: every reference resolved to a made-up name, URL or ARN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.iam.policies import Statement, read
from tests.infra.kit import Made

REGION, ACCOUNT = "us-east-1", "000000000000"
SCHEDULE = "schedule"  # who sends when a schedule fires
QUEUES_URL = f"http://localhost:4566/{ACCOUNT}/"  # the emulator's
_PSEUDO = {"AWS::Region": REGION, "AWS::AccountId": ACCOUNT, "AWS::Partition": "aws", "AWS::URLSuffix": "amazonaws.com"}
_ARNS = {
    "AWS::DynamoDB::Table": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/",
    "AWS::Events::EventBus": f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus/",
    "AWS::IAM::Role": f"arn:aws:iam::{ACCOUNT}:role/",
    "AWS::Lambda::Function": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:",
    "AWS::Logs::LogGroup": f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:",
    "AWS::S3::Bucket": "arn:aws:s3:::",
    "AWS::SQS::Queue": f"arn:aws:sqs:{REGION}:{ACCOUNT}:",
    "AWS::SecretsManager::Secret": f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:",
}
_ENDS = {"AWS::Logs::LogGroup": ":*", "AWS::SecretsManager::Secret": "-Ab12Cd"}  # as the services make them


class Template:
    """A template's roles by who acts in them: the functions by name, and `schedule`."""

    def __init__(self, made: Made) -> None:
        self.made = made
        roles = {name: str(one["Role"]["Fn::GetAtt"][0]) for name, one in made.functions().items()}
        (sender,) = {str(one["Environment"]["Variables"]["STEPWELL_SCHEDULE_ROLE"]["Fn::GetAtt"][0])
                     for one in made.functions().values()}  # fmt: skip
        self.statements: Mapping[str, tuple[Statement, ...]] = {
            name: tuple(read(self._resolved(one)) for one in made.statements_of(role))
            for name, role in {**roles, SCHEDULE: sender}.items()
        }

    def environment(self, function: str) -> dict[str, str]:
        """The function's variables, as it would find them."""
        variables = self.made.functions()[function]["Environment"]["Variables"]
        return {name: self.text(value) for name, value in variables.items()}

    # -- references

    def name(self, id_: str) -> str:
        """A resource's name: its logical id, in small letters for a bucket, as S3 has them."""
        return id_.lower() if self._kind(id_) == "AWS::S3::Bucket" else id_

    def ref(self, id_: str) -> str:
        """What `Ref` gives."""
        match self._kind(id_):
            case "AWS::SQS::Queue":
                return QUEUES_URL + self.name(id_)
            case "AWS::SecretsManager::Secret":
                return self.attribute(id_, "Arn")
            case _:
                return self.name(id_)

    def attribute(self, id_: str, attribute: str) -> str:
        """What `Fn::GetAtt` gives."""
        kind = self._kind(id_)
        match attribute:
            case "Arn":
                return f"{_ARNS[kind]}{self.name(id_)}{_ENDS.get(kind, '')}"
            case "StreamArn":
                return f"{_ARNS[kind]}{self.name(id_)}/stream/2026-11-20T00:00:00.000"
            case "ApiEndpoint":
                return f"https://{self.name(id_)}.execute-api.{REGION}.amazonaws.com"
            case _:
                raise ValueError(f"not understood: {attribute} of {id_}")

    def text(self, value: Any) -> str:
        """A value of the template. Raises ValueError for what is not understood."""
        match value:
            case str():
                return value
            case {"Ref": str(id_)}:
                return _PSEUDO.get(id_) or self.ref(id_)
            case {"Fn::GetAtt": [str(id_), str(attribute)]}:
                return self.attribute(id_, attribute)
            case {"Fn::Join": [str(separator), list(parts)]}:
                return separator.join(self.text(part) for part in parts)
            case _:
                raise ValueError(f"not understood: {value}")

    def _kind(self, id_: str) -> str:
        return str(self.made.resources[id_]["Type"])

    def _resolved(self, statement: Mapping[str, Any]) -> dict[str, Any]:
        resources = statement["Resource"]
        return {**statement, "Resource": [self.text(one) for one in _listed(resources)]}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
