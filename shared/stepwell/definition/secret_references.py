"""References to secrets in `webhooks.yaml`: `env:NAME`, `ssm:NAME`, `secretsmanager:NAME#field`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stepwell.definition.formats.common import Context
from stepwell.definition.graph import Json
from stepwell.definition.patterns import lazy

REFERENCE = lazy(r"env:[A-Za-z_]\w*|ssm:[^\s#]+|secretsmanager:[^\s#]+(#[^\s#]+)?", re.ASCII)
REFERENCE_HINT = "write env:NAME, ssm:NAME or secretsmanager:NAME#field, and keep the secret itself out of the file"


def check_secrets(context: Context, what: str, given: Mapping[str, Json], path: str) -> list[Json]:
    """Returns the references under `secret`. A message never quotes a bad one, which may be the secret itself."""
    value = given.get("secret")
    references = value if isinstance(value, list) else [value]
    if "secret" not in given or not references:
        context.add("missing_key", f"{what} has no `secret`", path, REFERENCE_HINT)
    elif not all(isinstance(one, str) and REFERENCE.fullmatch(one) for one in references):
        context.add("bad_secret", f"a `secret` of {what} does not say where it is kept", f"{path}/secret",
                    REFERENCE_HINT)  # fmt: skip
    return references
