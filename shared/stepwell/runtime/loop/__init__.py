"""The loop: the one door to the logs, and who brings inputs to it."""
