"""The command line: a client of the HTTP API, and the tools that work on a folder of workflows."""
