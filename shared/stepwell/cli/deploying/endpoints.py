"""Where a deployment goes, if AWS_ENDPOINT_URL or the profile names an emulator: its functions run on this machine."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stepwell.cli.deploying.cdk import APP, read_settings

_CHOICES = ("emulator", "platform")  # the properties that say what a package is built for


def is_local(endpoint: str) -> bool:
    """Whether an endpoint is on this machine, so that it is no AWS."""
    host = urlsplit(endpoint).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".localstack.cloud"))


def for_emulator(
    endpoint: str, properties: Mapping[str, str], others: Sequence[Mapping[str, Any]], place: Path
) -> tuple[Mapping[str, str], str]:
    """Returns the properties for this endpoint, and a note to print. What somebody has chosen stays.

    An emulator runs the functions on this machine, most of them without Docker, where packages for arm64 may not run.
    """
    if not is_local(endpoint) or any(
        one.get(key) not in (None, "") for one in (properties, *others) for key in _CHOICES
    ):
        return properties, ""
    said = f"{endpoint} is an emulator: the packages are built for this machine"
    if APP in str(read_settings(place).get("app") or APP):
        return {**properties, "emulator": "true"}, f"{said} (as -c emulator=true does; -c emulator=false: for Lambda)"
    said = f"{endpoint} is an emulator, and your CDK app decides what the packages are built for: for this machine with"
    return properties, f'{said} EngineProps(platform="local")'
