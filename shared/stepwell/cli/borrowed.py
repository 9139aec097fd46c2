"""Names of commands that people bring from other tools, and the commands that do that here."""

from __future__ import annotations

from collections.abc import Mapping

_GO_ON = "unpause RUN for a paused run, stepwell redrive RUN for a failed one"
_MEANT = {
    "list ls ps executions": "runs",
    "status get describe inspect info": "show RUN, or stepwell runs for all",
    "signal send emit publish": "event NAME --run RUN, or --key KEY for all that wait with this key",
    "workflows flows definitions": "check, which names the workflows of the folder",
    "resume continue": _GO_ON,
    "retry": "redrive RUN",
    "stop kill abort": "cancel RUN, or stepwell terminate RUN to end it at once",
    "trigger invoke execute": "run WORKFLOW",
    "serve server up": "dev",
    "validate lint": "check",
    "new create": "init",
    "restart": "rerun RUN",
    "tail": "watch RUN, or stepwell logs RUN",
    "test": "verify WORKFLOW, or run pytest",
}
BORROWED: Mapping[str, str] = {word: meant for words, meant in _MEANT.items() for word in words.split()}
