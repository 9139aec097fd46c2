# /// script
# requires-python = ">=3.11"
# dependencies = ["dbos==3.4.0", "pgserver==0.1.4"]
# ///
"""DBOS Transact on a PostgreSQL of its own. Its CPU is that of both processes."""

import tempfile
from pathlib import Path
from time import process_time

import pgserver
from dbos_sqlite import Dbos, run
from rounds import cpu_of


class OnPostgres(Dbos):
    name = "DBOS, PostgreSQL"
    durability = "PostgreSQL, its own defaults: fsync, synchronous_commit=on; an insert for each step"

    def __init__(self, postmaster_id: int) -> None:
        self._postmaster_id = postmaster_id

    def cpu_seconds(self) -> float:
        return process_time() + cpu_of(self._postmaster_id)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        server = pgserver.get_server(Path(folder, "postgres"), cleanup_mode="stop")
        try:
            run(OnPostgres(server.get_pid() or 0), server.get_uri().replace("postgresql://", "postgresql+psycopg://"))
        finally:
            server.cleanup()
