"""The calls on runs: what the API, the CLI and the testing kit can do with them."""
