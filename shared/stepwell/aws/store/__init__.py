"""The store on DynamoDB: one table of runs, logs, the mailbox and notes, and how their items look."""
