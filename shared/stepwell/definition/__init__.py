"""Formats to graph, checks, expressions. No I/O; import the module you need."""
