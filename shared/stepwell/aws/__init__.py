"""The ports on AWS: DynamoDB, SQS, EventBridge Scheduler and S3. The only package that knows boto3."""
