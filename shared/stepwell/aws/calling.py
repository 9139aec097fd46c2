"""What a deployed worker calls beside its Python functions: Lambda functions, and HTTP with secrets that AWS keeps."""

from __future__ import annotations

from stepwell.aws.clients import Clients
from stepwell.aws.invoker import LambdaInvoker
from stepwell.aws.secrets import secrets_of
from stepwell.definition.targets import parse_hosts
from stepwell.runtime.ports import Clock
from stepwell.runtime.steps.calls import Calls
from stepwell.runtime.steps.http_step import HttpSteps
from stepwell.runtime.steps.lambdas import LambdaSteps
from stepwell.settings import Deployment


def calls_of(deployment: Deployment, clients: Clients, clock: Clock) -> Calls:
    """Raises BadUrlError for an allowed host that is none."""
    http = HttpSteps(parse_hosts(deployment.http_hosts), secrets_of(clients, clock))
    return Calls(http, LambdaSteps(LambdaInvoker(clients.lambda_)))
