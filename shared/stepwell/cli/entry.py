"""What the script `stepwell` calls. Ctrl-C while the command line is still imported ends it as it does later."""

import sys

INTERRUPTED = 130  # as in `exits`, which is not imported yet


def main() -> None:
    """Imports the command line, which takes a second on a slow machine, and runs it."""
    try:
        from stepwell.cli.main import main as run  # noqa: PLC0415 - an interrupt of it is met here

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
