"""A client for the services that speak JSON, such as DynamoDB and SQS: what the engine calls, and no more.

    client ── JSON, signed ──▶ wire ── one write, one answer ──▶ AWS
                 ▲               └─ connections, kept for the next call
            credentials

It costs about a seventh of boto3's CPU for a call, and none of its import. Its errors are those of `aws.failures`; what
they mean is decided in `aws.calls`, as for boto3.
"""
