"""What type checkers see of `ctx`."""
