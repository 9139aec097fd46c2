"""The external calls of a deployed worker: Lambda functions, services of AWS, and HTTP with secrets kept by AWS."""

from __future__ import annotations

from stepwell.aws.clients import Clients
from stepwell.aws.invoker import LambdaInvoker
from stepwell.aws.secrets import secrets_of
from stepwell.aws.services.calls import ServiceCalls
from stepwell.definition.targets import parse_hosts
from stepwell.runtime.ports import Clock
from stepwell.runtime.steps.calls import Calls
from stepwell.runtime.steps.http_step import HttpSteps
from stepwell.runtime.steps.lambdas import LambdaSteps
from stepwell.runtime.steps.services import ServiceSteps
from stepwell.settings import Deployment


def calls_of(deployment: Deployment, clients: Clients, clock: Clock) -> Calls:
    """Builds the callers. Raises BadUrlError for a bad entry of the host list."""
    http = HttpSteps(parse_hosts(deployment.http_hosts), secrets_of(clients, clock))
    return Calls(http, LambdaSteps(LambdaInvoker(clients.lambda_)), ServiceSteps(ServiceCalls(clients.service)))
