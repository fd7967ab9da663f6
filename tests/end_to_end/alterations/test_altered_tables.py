"""What each ALTER TABLE comes to in the lake, row by row: old rows with new columns, and later rows."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.captures.mysql.log.test_stream import global_setting
from tests.end_to_end.alterations import mysql_cases, postgres_cases
from tests.end_to_end.alterations.altered import MODES, AlteredTables
from tests.examples import sample
from tests.servers import mariadb
from tests.servers.postgres import Database
from tests.warm_jvm import SHARED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), SHARED]

CASES = {"mariadb": mysql_cases.MARIADB, "mysql": mysql_cases.MYSQL}

QUARTERS = [
    ("mariadb", "stopped", "FULL"),
    ("mariadb", "running", "NO_LOG"),
    ("mysql", "stopped", "NO_LOG"),
    ("mysql", "running", "FULL"),
]
"""Product, mode, and whether the log names columns. In ``make test`` each has a quarter of the tables."""

STREAMED = {"stopped": [], "running": ["another_key", "drop", "swap"]}
"""Of PostgreSQL's tables, in ``make test``: a stream takes seconds."""


@pytest.mark.parametrize("mode", MODES)
def test_postgres(database: Database, tmp_path: Path, mode: str) -> None:
    cases = postgres_cases.CASES
    altered = AlteredTables(database, tmp_path, cases, sample(list(cases), STREAMED[mode]))
    altered.alter(mode, rebuild=sample(True, mode == "stopped"))


@pytest.mark.parametrize(
    ("name", "mode", "metadata"), sample(list(product(CASES, MODES, ["FULL", "NO_LOG"])), QUARTERS)
)
def test_mariadb_and_mysql(request: pytest.FixtureRequest, tmp_path: Path, name: str, mode: str, metadata: str) -> None:
    run = name, mode, metadata
    quarter = QUARTERS.index(run) if run in QUARTERS else 0
    tables = sample(list(CASES[name]), list(CASES[name])[quarter :: len(QUARTERS)])
    database: mariadb.Database = request.getfixturevalue(f"{name}_database")
    with global_setting(database, "binlog_row_metadata", f"'{metadata}'"):
        cases = {table: CASES[name][table] for table in tables}
        altered = AlteredTables(database, tmp_path, cases, sample(tables, []))
        altered.alter(mode, rebuild=sample(True, False))
