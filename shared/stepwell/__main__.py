"""`python -m stepwell`: the command, where its script is not on the path."""

from stepwell.cli.entry import main

if __name__ == "__main__":
    main()
