"""The webhook sources of the dev server, from the folder, with secrets from the environment."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from stepwell.api.webhooks.sources import Source, sources_of
from stepwell.definition.graph import Json
from stepwell.errors import PortError
from stepwell.runtime.steps.secrets import EnvironmentSecrets, SecretsByKind

log = logging.getLogger("stepwell.dev")


class LocalWebhooks:
    """The current sources."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._secrets = SecretsByKind({"env": EnvironmentSecrets(environ)})
        self.sources: Mapping[str, Source] = {}

    def replace(self, document: Mapping[str, Json] | None) -> None:
        """Serves these sources from now on, and warns about those without a secret that can be read here."""
        self.sources = sources_of(document, self._secrets)
        for name, source in self.sources.items():
            missing = [error for one in source.references if (error := self._missing(one)) is not None]
            if len(missing) == len(source.references):  # one that can be read will do
                for error in missing:
                    log.warning("webhook %s: %s", name, error)

    def _missing(self, reference: str) -> PortError | None:
        try:
            self._secrets.get(reference)
        except PortError as error:
            return error
        return None
