"""``engine``: every test of the suite runs once for each database that can be had."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tests.conformance.engine import Engine
from tests.conformance.mariadb import MariaDbEngine
from tests.conformance.postgres import PostgresEngine
from tidemark.testing.servers.mariadb import Database
from tidemark.testing.servers.postgres import sources

WITHOUT_COLUMN_NAMES = "mariadb_without_column_names"
"""MariaDB as it is unless ``binlog_row_metadata`` is set: the log's rows do not say what their columns are."""

DATABASES = {
    "postgres": (PostgresEngine, "database"),
    "oldest_postgres": (PostgresEngine, "oldest_database"),
    "mariadb": (MariaDbEngine, "mariadb_database"),
    "mysql": (MariaDbEngine, "mysql_database"),
    WITHOUT_COLUMN_NAMES: (MariaDbEngine, "mariadb_database_without_column_names"),
    "mariadb_minimal": (MariaDbEngine, "mariadb_database_with_minimal_metadata"),
    "mysql_minimal": (MariaDbEngine, "mysql_database_with_minimal_metadata"),
}
"""By name: the harness, and the fixture that makes a fresh database."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "engine" in metafunc.fixturenames:
        names = list(DATABASES)
        module = metafunc.module.__name__.rpartition(".")[2]
        # What a version may do in another way; the rest is the engine's, and the same on all of them.
        if len(sources()) < 2 or module not in ("test_backfill", "test_log", "test_types"):
            names.remove("oldest_postgres")
        if module not in ("test_schema_changes", "test_types"):
            names.remove(WITHOUT_COLUMN_NAMES)
        if module != "test_types":
            names = [name for name in names if not name.endswith("_minimal")]
        metafunc.parametrize("engine", names, indirect=True)


@pytest.fixture
def mariadb_database_without_column_names(mariadb_database: Database) -> Iterator[Database]:
    with _row_metadata(mariadb_database, "NO_LOG"):
        yield mariadb_database


@pytest.fixture
def mariadb_database_with_minimal_metadata(mariadb_database: Database) -> Iterator[Database]:
    with _row_metadata(mariadb_database, "MINIMAL"):
        yield mariadb_database


@pytest.fixture
def mysql_database_with_minimal_metadata(mysql_database: Database) -> Iterator[Database]:
    with _row_metadata(mysql_database, "MINIMAL"):
        yield mysql_database


@contextmanager
def _row_metadata(database: Database, kind: str) -> Iterator[None]:
    with closing(database.connect()) as admin, closing(admin.cursor()) as cursor:
        cursor.execute("SET @before = @@GLOBAL.binlog_row_metadata")
        cursor.execute("SET GLOBAL binlog_row_metadata = %s", [kind])
        yield
        cursor.execute("SET GLOBAL binlog_row_metadata = @before")


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Engine:
    """A fresh database of each kind in turn."""
    kind, database = DATABASES[request.param]
    made: Engine = kind(request.getfixturevalue(database))
    return made
