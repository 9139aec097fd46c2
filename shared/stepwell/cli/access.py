"""The caller's credentials: the key, token or signature of each call, and hints for API Gateway's refusals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

import httpx

from stepwell.cli.refusals import JsonObject, Unreachable
from stepwell.errors import StepwellError, UserError
from stepwell.settings import Settings, environment

_GATEWAY = re.compile(r"[^.]+\.execute-api\.(?:([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?|localhost)")  # or an emulator's


class Kind(StrEnum):
    """How the caller authenticates."""

    OPEN = "open"
    KEY = "key"
    TOKEN = "token"  # noqa: S105 - the word, not one
    SIGNED = "signed"


REFUSALS = {  # what to do when API Gateway refuses the caller
    Kind.OPEN: "the call had no credentials: set STEPWELL_API_KEY or STEPWELL_TOKEN; "
    "stepwell signs only calls to https://….execute-api.REGION.amazonaws.com",
    Kind.KEY: "STEPWELL_API_KEY is not the key of this API",
    Kind.TOKEN: "STEPWELL_TOKEN is wrong or has expired",
    Kind.SIGNED: "aws sts get-caller-identity shows your identity and whether your credentials have expired; "
    "the identity needs execute-api:Invoke on this API",
}


@dataclass(frozen=True, slots=True)
class Access:
    """The credentials of every call. The repr hides the secrets."""

    kind: Kind = Kind.OPEN
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    auth: httpx.Auth | None = field(default=None, repr=False)


def access_to(url: str, settings: Settings) -> Access:
    """Chooses the token, else the key, else a signature for API Gateway. Raises UserError."""
    if settings.token:
        return Access(Kind.TOKEN, {"Authorization": f"Bearer {_header('STEPWELL_TOKEN', settings.token)}"})
    if settings.api_key:
        return Access(Kind.KEY, {"x-api-key": _header("STEPWELL_API_KEY", settings.api_key)})
    found = _GATEWAY.fullmatch(urlsplit(url).hostname or "")
    if not found:
        return Access()
    return Access(Kind.SIGNED, auth=_signature(found[1] or environment().get("AWS_REGION", "")))


def gateway_refusal(status: int, answer: JsonObject, kind: Kind) -> StepwellError:
    """The error for API Gateway's own answer, `{"message": …}`, which reached no Stepwell function."""
    said = str(answer.get("message") or status)
    if "expired" in said:
        hint = "run aws sso login, or get new keys" if kind is Kind.SIGNED else REFUSALS[kind]
        return StepwellError(f"the API refused the call: {said}", code="credentials_expired", hint=hint)
    if status in {401, 403}:
        code = "unauthorized" if status == 401 else "forbidden"
        return StepwellError(f"the API refused the call: {said}", code=code, hint=REFUSALS[kind])
    hint = "try again" if status in {429, 503, 504} else "read the log of the api function"
    return Unreachable(f"API Gateway answered {status}: {said}", hint=hint)


def _header(variable: str, value: str) -> str:
    if not value.isascii() or not value.isprintable():
        message = f"{variable} has characters that an HTTP header cannot contain"
        raise UserError(message, code="bad_setting", hint="copy it again, without quotes or line breaks")
    return value


def _signature(region: str) -> httpx.Auth:
    try:
        from stepwell.aws.signing import signature  # noqa: PLC0415 - botocore: only for a deployed API
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("stepwell"):
            raise
        message = f"a deployed API needs {error.name}, which is not installed"
        hint = 'pip install boto3, or "stepwell[deploy]", which has it'
        raise StepwellError(message, code="not_installed", hint=hint) from error
    return signature(region)
