"""What callers may ask of runs, and what they are answered."""
