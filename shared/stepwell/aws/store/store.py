"""The store on DynamoDB: one table, one conditional put per append, one transaction to consume an event."""

from __future__ import annotations

from stepwell.aws.store.deadlines import Deadlines
from stepwell.aws.store.logs import Logs
from stepwell.aws.store.mailbox import Mailbox
from stepwell.aws.store.table import Table


class DynamoStore(Logs, Mailbox, Deadlines):
    """Log, mailbox, runs and notes on a Table, for any number of threads and processes."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
