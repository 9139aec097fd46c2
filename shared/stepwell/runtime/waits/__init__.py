"""What waits meet in the world: the mailbox of events, and the queues of locks."""
