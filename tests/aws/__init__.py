"""One suite that every adapter of a port passes, so that a laptop, a test and AWS behave the same."""
