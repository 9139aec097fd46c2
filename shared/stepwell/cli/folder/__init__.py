"""The commands on a folder of workflows on this machine: create, check, serve, simulate and verify it."""
