"""What every store has in common: its answers, its JSON, its blobs."""
