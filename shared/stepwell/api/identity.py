"""Who calls, according to the gateway."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwell.limits import KEY_CHARACTERS
from stepwell.values import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """The caller according to the gateway's authorizer: a user's ARN, or a token's email or subject.

    kind: iam | jwt; "" if there is no identity, as with an API key or on this machine.
    """

    name: str = ""
    kind: str = ""
    scopes: frozenset[str] = frozenset()
    account: str = ""  # of AWS, in which the API is; "": on this machine


def identity_of(event: Mapping[str, Any]) -> Identity:
    """Returns the email, or the subject if the email is not verified and could be anything."""
    context = event.get("requestContext") or {}
    authorizer, account = context.get("authorizer") or {}, str(context.get("accountId") or "")
    if iam := authorizer.get("iam"):
        return Identity(str(iam.get("userArn") or "")[:KEY_CHARACTERS], "iam", account=account)
    if not (jwt := authorizer.get("jwt")):
        return Identity(account=account)
    claims = jwt.get("claims") or {}
    is_verified = str(claims.get("email_verified", True)).lower() == "true"
    name = (claims.get("email") if is_verified else "") or claims.get("sub") or ""
    return Identity(str(name)[:KEY_CHARACTERS], "jwt", _scopes(claims), account)


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """Returns the token's scopes: of `scope`, or of `scp`, which some issuers have in its place.

    API Gateway writes a claim that is a list as `[a b]`.
    """
    text = str(claims.get("scope") or claims.get("scp") or "")
    return frozenset(text.removeprefix("[").removesuffix("]").split())
