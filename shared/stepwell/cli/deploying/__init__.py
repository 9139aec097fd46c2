"""The commands for AWS: deploy with the CDK, the check of open runs before, alarms, and `doctor`."""
