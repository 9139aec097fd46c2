"""`python -m stepwell`: the command, where its script is not on the path."""

import sys

from stepwell.cli.entry import main

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the current folder, which the script does not have: it would hide what Lambda lacks
    main()
