"""Runs the project's CDK app in a subprocess, which writes the cloud assembly.

This equals `cdk synth`, without the CDK's command line and its downloads.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepwell.errors import StepwellError, UserError
from stepwell.settings import environment


def synthesise(project: Path, context: Mapping[str, Any], out: Path) -> None:
    """Writes the assembly to `out`, replacing its content. `context` overrides the context of cdk.json.

    Raises UserError `bad_project`, and StepwellError `synth_failed` with the app's output.
    """
    variables = {
        **environment(),
        "CDK_OUTDIR": str(out.resolve()),
        "CDK_CONTEXT_JSON": json.dumps({**_context(project / "cdk.json"), **context}),
    }
    shutil.rmtree(out, ignore_errors=True)
    # The current Python, because the emulator runs the functions with its packages.
    app = [sys.executable, "-m", "infra.app"]
    done = subprocess.run(app, cwd=project, env=variables, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        said = "\n".join(text.strip() for text in (done.stdout, done.stderr) if text.strip())
        raise StepwellError(f"the CDK app failed: {said or done.returncode}", code="synth_failed")


def _context(file: Path) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8")).get("context", {})
    except (ValueError, AttributeError) as error:
        raise UserError(f"{file} is not a JSON object: {error}", code="bad_project") from error
    return found
