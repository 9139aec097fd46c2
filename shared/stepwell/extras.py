"""The optional parts of an installation: which modules each needs, and what to install without them."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from stepwell.errors import StepwellError

# By extra, as in pyproject.toml: the modules that its commands import. An error names the first that is missing.
_DEPLOY = ("aws_cdk", "boto3", "uv")
MODULES: Mapping[str, tuple[str, ...]] = {
    "dev": ("uvicorn", "httptools", "watchfiles", "wsproto"),
    "deploy": _DEPLOY,
    "asl": ("jsonatapy",),
    "otel": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "emulator": ("ministack", "cryptography", "uvicorn", "httptools", "watchfiles", "wsproto", *_DEPLOY),
}
# What calls AWS needs beside `stepwell`, and how to get it.
OF_AWS = frozenset({"boto3", "botocore"})
BOTO3 = 'pip install boto3, or "stepwell[deploy]", which has it'


def require(extra: str, what: str) -> None:
    """Checks that an extra is installed. Raises StepwellError `not_installed`."""
    for module in missing(extra):
        raise not_installed(extra, what, module)


def missing(extra: str) -> list[str]:
    """Returns the modules of an extra that are not installed. Imports none of them, only packages that have them."""
    return [module for module in MODULES[extra] if not _is_installed(module)]


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package that would have it is not there
        return False


def not_installed(extra: str, what: str, module: str) -> StepwellError:
    """Returns the error for a command whose extra is missing."""
    message = f"{what} needs {module}, which is not installed"
    return StepwellError(message, code="not_installed", hint=f'pip install "stepwell[{extra}]"')
