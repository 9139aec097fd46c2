"""The log of a run: reading it, appending to it in one place, and the messages that point into it."""
