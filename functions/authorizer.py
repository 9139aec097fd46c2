"""The authorizer handler: checks the API key in the header `x-api-key`, or in place of an access key's id.

boto3 sends the id in the signature, for the API of Step Functions: there it is the only text that a caller can choose.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any

from stepwell.aws.clients import open_clients
from stepwell.aws.observing import Observing
from stepwell.aws.secrets import AwsSecrets
from stepwell.credentials import credential_of
from stepwell.errors import UserError
from stepwell.runtime.stores.clocks import RealClock
from stepwell.settings import read_deployment

if TYPE_CHECKING:
    from stepwell.aws.entry import Context  # imports the whole engine

deployment = read_deployment()
if not deployment.api_key_secret:
    raise UserError("STEPWELL_API_KEY_SECRET is not set", code="bad_setting", hint="the stack sets it: deploy again")
observing = Observing(deployment.log_level, {})
clients = open_clients()
clients.secretsmanager()  # created now, while the function has a full CPU
secrets = AwsSecrets(clients.secretsmanager, clients.ssm, RealClock())


@observing.invocation
def handler(event: dict[str, Any], context: Context) -> dict[str, bool]:
    """Authorizes a call. Raises PortError if the secret is unavailable: API Gateway answers 500, without caching."""
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    signed = None if "x-api-key" in headers else credential_of(headers.get("authorization", ""))
    shown = (signed.key_id if signed else headers.get("x-api-key", "")).encode(errors="surrogatepass")
    key = secrets.get(f"secretsmanager:{deployment.api_key_secret}").encode()
    return {"isAuthorized": hmac.compare_digest(shown, key)}
