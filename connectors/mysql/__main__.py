"""Speaks the capture protocol for MySQL and MariaDB on stdin and stdout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tidemark.protocol.process_memory import collect_never

if TYPE_CHECKING:
    from tidemark.captures.server.table_database import Database


def run() -> NoReturn:
    """Runs the connector, and ends the process with its exit status."""
    collect_never()  # First: searches for cycles were a fifth of the time of the imports.
    from tidemark.captures.process.connector import leave, main

    leave(main(_database, Path(__file__).parent))


def _database() -> Database:
    from tidemark.captures.mysql.database import MysqlDatabase

    return MysqlDatabase()


if __name__ == "__main__":
    run()
