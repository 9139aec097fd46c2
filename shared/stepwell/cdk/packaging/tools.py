"""Runs uv for the platform that packages are built for."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepwell.cdk.errors import BundlingError

_NO_WHEEL = re.compile(r"no wheels with a matching|no usable wheels|has no binary distribution|doesn't have a source"
                       r"|Building source distributions .* is disabled")  # fmt: skip
_WITHOUT = re.compile(r"\b([A-Za-z0-9][\w.-]*?)(?:==([\w.!+-]+))? has no (?:usable )?wheels")


@dataclass(frozen=True, slots=True)
class Target:
    """The platform of the packages: `options` are uv's, `name` is for people."""

    name: str
    options: tuple[str, ...]
    is_this_machine: bool = False


def run(command: Sequence[str], what: str, target: Target, **options: Any) -> str:
    """Runs a tool and returns its output. Raises BundlingError, `no_wheel` if the platform lacks one."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # noqa: S603 - fixed words
    if done.returncode:
        said = "\n".join(text.strip() for text in (done.stdout, done.stderr) if text.strip())
        if _NO_WHEEL.search(" ".join(said.split())):
            found = _WITHOUT.search(" ".join(said.split()))
            name = " ".join(part for part in found.groups() if part) if found else "a package"
            message = f"{what}: {name} has no wheel for {target.name}\n{said}"
            hint = "choose a version that has one, or another package (nothing is compiled here)"
            hint += "; then: stepwell deploy --dry-run"
            raise BundlingError(message, code="no_wheel", hint=hint)
        raise BundlingError(f"{what}: {Path(command[0]).name} ended with {done.returncode}\n{said}")
    return str(done.stdout)
