"""The names of services and of their members: in the SDK for Java, as Step Functions has them, and in botocore."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache

# Where botocore's name is not the service's id without spaces. The rest: its name without hyphens.
OTHERS = {
    "applicationdiscovery": "discovery",
    "applicationdiscoveryservice": "discovery",
    "cloudwatchlogs": "logs",
    "cognitoidentityprovider": "cognito-idp",
    "configservice": "config",
    "costandusagereport": "cur",
    "costandusagereportservice": "cur",
    "costexplorer": "ce",
    "databasemigration": "dms",
    "databasemigrationservice": "dms",
    "directory": "ds",
    "directoryservice": "ds",
    "directoryservicedata": "ds-data",
    "elasticloadbalancing": "elb",
    "elasticloadbalancingv2": "elbv2",
    "elasticsearch": "es",
    "elasticsearchservice": "es",
    "eventbridge": "events",
    "iotdataplane": "iot-data",
    "iotjobsdataplane": "iot-jobs-data",
    "lexmodelbuilding": "lex-models",
    "lexmodelbuildingservice": "lex-models",
    "lexmodelsv2": "lexv2-models",
    "lexruntime": "lex-runtime",
    "lexruntimeservice": "lex-runtime",
    "lexruntimev2": "lexv2-runtime",
    "marketplaceentitlement": "marketplace-entitlement",
    "marketplaceentitlementservice": "marketplace-entitlement",
    "marketplacemetering": "meteringmarketplace",
    "migrationhub": "mgh",
    "pinpointsmsvoice": "sms-voice",
    "serverlessapplicationrepository": "serverlessrepo",
    "sfn": "stepfunctions",
    "simpledb": "sdb",
}
_WORDS = (
    (re.compile(r"[^A-Za-z0-9]+"), " "),
    (re.compile(r"([^a-z]{2,})v([0-9]+)"), r"\1 v\2 "),
    (re.compile(r"([^A-Z]{2,})V([0-9]+)"), r"\1 V\2 "),
    (re.compile(r"(?<=[a-z])(?=[A-Z][a-zA-Z0-9])"), " "),
    (re.compile(r"([A-Z]+)([A-Z][a-z])"), r"\1 \2"),
    (re.compile(r"([0-9])([a-zA-Z])"), r"\1 \2"),
)


def botocore_service(service: str, known: Collection[str]) -> str | None:
    """Returns botocore's name of a service; None if it has none."""
    if service in OTHERS:
        return OTHERS[service]
    return next((name for name in known if name.replace("-", "") == service), None)


def operation(action: str) -> str:
    """Returns the operation's name in the service's model."""
    return action[:1].upper() + action[1:]


@cache
def java_name(name: str) -> str:
    """Returns the name as the SDK for Java writes it: `DynamoDB` is DynamoDb, `DBInstances` is DbInstances."""
    if name == "NULL":  # of DynamoDB's values; `null` is a word of Java
        return "Nul"
    for pattern, spaced in _WORDS:
        name = pattern.sub(spaced, name)
    return "".join(word[0].upper() + word[1:].lower() for word in name.split())
