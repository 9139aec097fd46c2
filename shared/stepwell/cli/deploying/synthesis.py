"""Runs a project's CDK app in a subprocess, which writes the cloud assembly.

This equals `cdk synth`, without the CDK's command line and its downloads.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepwell.cli.deploying.cdk import app_words, read_settings
from stepwell.errors import StepwellError
from stepwell.os_errors import full_disk
from stepwell.reports import reported
from stepwell.settings import environment


def synthesise(
    place: Path, context: Mapping[str, Any], out: Path, variables: Mapping[str, str] | None = None
) -> list[str]:
    """Writes the assembly to `out`, replacing its content. `context` overrides the context of cdk.json.

    `variables` are added to the app's environment.

    Returns what the app says about its stacks. Raises the app's own error, UserError `bad_project` or `disk_full`, or
    StepwellError `synth_failed` with its output.
    """
    given = {
        **environment(),
        **(variables or {}),
        "CDK_OUTDIR": str(out.resolve()),
        "CDK_CONTEXT_JSON": json.dumps({**read_settings(place).get("context", {}), **context}),
    }
    shutil.rmtree(out, ignore_errors=True)
    done = subprocess.run(app_words(place), cwd=place, env=given, capture_output=True, text=True, check=False)  # noqa: S603 - the project's own app
    if done.returncode:
        said = "\n".join(text.strip() for text in (done.stdout, done.stderr) if text.strip())
        if known := full_disk(said) or reported(done.stderr):
            raise known
        raise StepwellError(f"the CDK app failed: {said or done.returncode}", code="synth_failed")
    return _messages(out / "manifest.json")


def is_complete(out: Path) -> bool:
    """Whether the app has found all it looked for: an account's zones or networks are looked up by the CDK."""
    return not json.loads((out / "manifest.json").read_text(encoding="utf-8")).get("missing")


def _messages(manifest: Path) -> list[str]:
    """Returns the annotations of the stacks."""
    artifacts: Mapping[str, Any] = json.loads(manifest.read_text(encoding="utf-8"))["artifacts"]
    found = [entry for artifact in artifacts.values() for entries in _metadata(artifact, manifest) for entry in entries]
    return [str(entry["data"]) for entry in found if entry["type"] in ("aws:cdk:info", "aws:cdk:warning")]


def _metadata(artifact: Mapping[str, Any], manifest: Path) -> list[Any]:
    """Returns an artifact's metadata by construct, from the manifest or a file beside it."""
    beside = artifact.get("additionalMetadataFile")
    more = json.loads((manifest.parent / beside).read_text(encoding="utf-8")) if beside else {}
    return [*artifact.get("metadata", {}).values(), *more.values()]
