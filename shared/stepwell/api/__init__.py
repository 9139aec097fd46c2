"""The HTTP API: routes, their requests and their answers. It makes no decisions about runs."""
