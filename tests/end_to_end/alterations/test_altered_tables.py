"""What each ALTER TABLE comes to in the lake, row by row: old rows with new columns, and later rows."""

from __future__ import annotations

from collections.abc import Collection
from itertools import product
from pathlib import Path
from random import Random

import pytest

from tests.captures.mysql.log.test_stream import global_setting
from tests.end_to_end.alterations import mysql_cases, page, postgres_cases
from tests.end_to_end.alterations.altered import MODES, AlteredTables
from tests.examples import sample
from tests.warm_jvm import SHARED
from tidemark.testing.servers import mariadb
from tidemark.testing.servers.postgres import Database

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), SHARED]

PRODUCTS = {"mariadb": mysql_cases.MARIADB, "mysql": mysql_cases.MYSQL}

SOME_RUNS = [
    ("mariadb", "stopped", "FULL"),
    ("mariadb", "running", "NO_LOG"),
    ("mysql", "stopped", "NO_LOG"),
    ("mysql", "running", "FULL"),
]
"""Product, mode, and whether the log names columns: the runs of ``make test``."""

PART = 8
"""In ``make test`` a run has one in so many of the tables, others each time."""

RUNS = list(product(MODES, ["FULL", "NO_LOG"]))
"""Of MariaDB and MySQL each, in ``make soak``: with all tables, and with streams of a quarter of them."""

STREAMED = {"another_key", "drop", "swap"}
"""Of PostgreSQL's tables: ``make test`` has one, beside a running capture. A stream takes seconds."""


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> Random:
    """Decides by the seed of the run."""
    return Random(f"{request.config.getoption('randomly_seed', None)} {request.node.name}")


def drawn(names: Collection[str], chance: Random) -> list[str]:
    """The tables of a run, in their order."""
    some = set(chance.sample(sorted(names), len(names) // PART))
    return [name for name in names if sample(True, name in some)]


@pytest.mark.drawn(1, of="ALTERs through every reader")
@pytest.mark.parametrize("mode", MODES)
def test_postgres(database: Database, tmp_path: Path, mode: str, chance: Random) -> None:
    every = postgres_cases.CASES
    streamed = {chance.choice(sorted(STREAMED))} if mode == "running" else set()
    some = drawn(every, chance)
    names = [name for name in every if name in some or name in streamed]
    altered = AlteredTables(
        database,
        tmp_path,
        {name: every[name] for name in names},
        postgres_cases.OUTCOMES,
        postgres_cases.SETUP,
        sample(names, streamed),
    )
    altered.alter(mode, rebuild=sample(True, mode == "stopped"))


@pytest.mark.drawn(1, of="ALTERs through every reader")
@pytest.mark.parametrize(
    ("name", "mode", "metadata"), sample([(name, *run) for name in PRODUCTS for run in RUNS], SOME_RUNS)
)
def test_mariadb_and_mysql(
    request: pytest.FixtureRequest, tmp_path: Path, name: str, mode: str, metadata: str, chance: Random
) -> None:
    every = PRODUCTS[name]
    names = drawn(every, chance)
    database: mariadb.Database = request.getfixturevalue(f"{name}_database")
    with global_setting(database, "binlog_row_metadata", f"'{metadata}'"):
        cases = {name: every[name] for name in names}
        streamed = sample(names[RUNS.index((mode, metadata)) :: len(RUNS)], [])
        altered = AlteredTables(database, tmp_path, cases, mysql_cases.OUTCOMES, streamed=streamed)
        altered.alter(mode, rebuild=sample(True, False))


def test_its_page_is_what_the_tests_know(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for cases, outcomes in (
        (postgres_cases.CASES, postgres_cases.OUTCOMES),
        (mysql_cases.MARIADB | mysql_cases.MYSQL, mysql_cases.OUTCOMES),
    ):
        assert {name for names in outcomes.values() for name in names} == set(cases)
    assert page.main(["--check"]) == 0
    written = tmp_path / page.PAGE.name
    assert page.main(["--check"], written) == 1
    assert "is out of date; run: python -m tests.end_to_end.alterations.page" in capsys.readouterr().err
    assert page.main([], written) == 0
    assert written.read_bytes() == page.PAGE.read_bytes()
