"""What tokens wait for: events in the mailbox, locks, permits, and turns under rate limits."""
