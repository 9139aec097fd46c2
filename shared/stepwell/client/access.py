"""The caller's credentials: the key, token or signature of each call, and hints for API Gateway's refusals."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Generator
from dataclasses import field
from enum import StrEnum
from urllib.parse import SplitResult, urlsplit

import httpx

from stepwell.client.errors import AccessProblem, Unreachable
from stepwell.errors import StepwellError, UserError
from stepwell.extras import BOTO3
from stepwell.settings import environment
from stepwell.values import dataclass

# Of AWS, of its partitions in China and of the EU's, or of an emulator.
_GATEWAY = re.compile(r"[^.]+\.execute-api\.(?:([a-z0-9-]+)\.amazonaws\.(?:com|com\.cn|eu)|localhost)")

Token = str | Callable[[], str]  # a function is called before each request, so that it can renew the token


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
# IAM answers 403; 401 is the answer of an API that looks for a token or a key.
UNSIGNED = "this API takes no signatures: set STEPWELL_TOKEN or STEPWELL_API_KEY, as its `auth` says"

# A start without a key would have another key the second time, and start a second run.
LOOK = "the API may have taken the call: look at the run, or at stepwell runs, before you repeat it"


class Header(httpx.Auth):
    """Adds one header to each call."""

    def __init__(self, name: str, value: Callable[[], str]) -> None:
        self._name, self._value = name, value

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers[self._name] = self._value()
        yield request


@dataclass(frozen=True, slots=True)
class Access:
    """The credentials of every call. The repr hides the secrets."""

    kind: Kind = Kind.OPEN
    auth: httpx.Auth | None = field(default=None, repr=False)


def parts_of(url: str) -> SplitResult:
    """Splits the URL of an API. Raises UserError."""
    try:
        httpx.URL(url)
        parts = urlsplit(url)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        is_whole = not set(url) & set("?# ")  # routes are appended to it
    except (AttributeError, TypeError, ValueError, httpx.InvalidURL):  # such as of an IPv6 address that does not end
        is_one = is_whole = False
    if not (is_one and is_whole):
        hint = "use a URL such as http://127.0.0.1:8787, without ? and #"
        raise UserError(f"{url!r} is not the URL of an API", code="bad_url", hint=_with_scheme(url) or hint)
    return parts


def _with_scheme(url: object) -> str:
    """A hint: `localhost:8787` lacks only its scheme. Empty for anything else."""
    if not isinstance(url, str) or not re.fullmatch(r"[A-Za-z0-9.-]+(:\d{1,5})?/?", url):
        return ""
    is_here = url.split(":")[0] in {"localhost", "127.0.0.1"}
    return f"did you mean {'http' if is_here else 'https'}://{url}?"


def access_to(url: str, *, token: Token = "", api_key: str = "", region: str = "") -> Access:
    """Chooses the token, else the key, else a signature for API Gateway or for the given region. Raises UserError."""
    if token:
        read: Callable[[], object] = token if callable(token) else lambda: token
        bearer = Header("Authorization", lambda: f"Bearer {_checked('STEPWELL_TOKEN', _text_of(read))}")
        return Access(Kind.TOKEN, bearer)
    if api_key:
        key = _checked("STEPWELL_API_KEY", api_key)
        return Access(Kind.KEY, Header("x-api-key", lambda: key))
    found = _GATEWAY.fullmatch(parts_of(url).hostname or "")
    if not found and not region:
        return Access()
    chosen = region or (found[1] if found else "") or environment().get("AWS_REGION", "")
    return Access(Kind.SIGNED, _signature(chosen))


def _text_of(token: Callable[[], object]) -> str:
    """Calls the function for a token. Raises UserError if it gives something else, such as an async one does."""
    given = token()
    if isinstance(given, str):
        return given
    if isinstance(given, Coroutine):
        given.close()
    raise UserError(f"the function of token= gave a {type(given).__name__}, not text", code="bad_value",
                    hint="give a plain function that returns the token, also to an AsyncClient")  # fmt: skip


def region_of(url: str) -> str:
    """The region in the URL of an API Gateway; empty for another URL, or none."""
    found = _GATEWAY.fullmatch((parts_of(url).hostname or "") if url else "")
    return (found[1] or "") if found else ""


def gateway_refusal(status: int, said: str, kind: Kind, *, acts: bool) -> StepwellError:
    """The error for a gateway's own answer, which reached no Stepwell function. `acts`: the call is no mere read."""
    if status in {401, 403}:
        expired = "expired" in said
        code = "credentials_expired" if expired else "unauthorized" if status == 401 else "forbidden"
        hint = REFUSALS[kind]
        if kind is Kind.SIGNED and (expired or status == 401):
            hint = "run aws sso login, or get new keys" if expired else UNSIGNED
        return AccessProblem(status, {"code": code, "detail": f"the API refused the call: {said}", "hint": hint})
    again = LOOK if acts and status != 429 else "try again"
    hint = f"read the log of the api function; {again}" if status == 500 else again
    return Unreachable(f"the API's gateway answered {status}: {said}", hint=hint)


def _checked(variable: str, value: str) -> str:
    if not isinstance(value, str) or not value.isascii() or not value.isprintable():
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
        raise StepwellError(message, code="not_installed", hint=BOTO3) from error
    return signature(region)
