"""The source of a test's database, and its tables."""

from __future__ import annotations

from tests.workload.mariadb import MariaDbSource
from tests.workload.postgres import PostgresSource
from tests.workload.source import Source
from tidemark.testing.servers import mariadb
from tidemark.testing.servers.postgres import Postgres

Database = Postgres | mariadb.Database
"""A database of any kind, as the fixtures give it."""


def source_of(database: Database) -> Source:
    """The workload's way to a database."""
    return PostgresSource(database) if isinstance(database, Postgres) else MariaDbSource(database)


def create_tables(database: Database, rows: int) -> None:
    """Makes the tables and fills each with ``rows`` rows."""
    source_of(database).create_tables(rows)
