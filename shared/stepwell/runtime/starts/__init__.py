"""Starts runs: by a call, an event or a schedule; and reads the folder of workflows."""
