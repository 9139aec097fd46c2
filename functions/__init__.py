"""The Lambda functions: one thin door each, `functions.<door>.handler`."""
