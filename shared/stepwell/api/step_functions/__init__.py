"""The API of AWS Step Functions, for code with `boto3.client("stepfunctions")`: JSON 1.0 at `/aws/states`."""
