"""The log of a run: read, moved through one door, and the messages that say where to look."""
