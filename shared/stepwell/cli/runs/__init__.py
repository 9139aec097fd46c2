"""The commands on runs: start, show, answer, end, delete them, and what they cost."""
