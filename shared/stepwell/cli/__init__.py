"""The command line: a client of the HTTP API, and the tools that work on a folder of workflows."""

from __future__ import annotations

import signal

from stepwell.settings import environment

if "_STEPWELL_COMPLETE" in environment():
    # as typer does, before the imports: Ctrl-C at a completion prints no traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)
