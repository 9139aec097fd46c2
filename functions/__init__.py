"""The Lambda functions: one thin handler each, `functions.<name>.handler`."""
