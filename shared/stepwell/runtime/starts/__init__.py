"""Starts runs: by a call, an event or a schedule."""
