"""What others are told of runs: notifications, webhook deliveries and their endpoints."""
