"""The store on DynamoDB: one table, one conditional put per append, one transaction to consume an event."""

from __future__ import annotations

from stepwell.aws.listing import Listing
from stepwell.aws.mailbox import Mailbox
from stepwell.aws.notes import Notes
from stepwell.aws.table import Table
from stepwell.aws.user_writes import UserWrites


class DynamoStore(Listing, Mailbox, UserWrites, Notes):
    """The Store port on a Table, for any number of threads and processes."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
