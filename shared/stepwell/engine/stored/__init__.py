"""The stored form of records and tokens: JSON, the numbers of its formats, and batches."""
