"""Fixtures that every room's tests share: PostgreSQL servers and fresh databases."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from tests.servers.postgres import Database, Postgres, Source, fresh_database, no_source, running, sources

_numbers = itertools.count()


def pytest_report_header() -> str:
    found = sources()
    if not found:
        return f"postgres: {no_source()}"
    others = f"; oldest for any_postgres: {found[-1]}" if len(found) > 1 else ""
    return f"postgres: {found[0]}{others}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``any_postgres`` runs a test on the newest and on the oldest server that can be had."""
    if "any_postgres" in metafunc.fixturenames:
        found = sources()
        metafunc.parametrize(
            "any_postgres",
            [found[0], found[-1]][: len(found)] or [None],
            ids=lambda source: f"pg{source.version or ''}" if isinstance(source, Source) else "none",
            indirect=True,
            scope="session",
        )


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running PostgreSQL with ``wal_level = logical``; the newest that can be had."""
    found = sources()
    if not found:
        pytest.skip(no_source())
    with running(found[0]) as server:
        yield server


@pytest.fixture(scope="session")
def any_postgres(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    """As ``postgres``, once for the newest and once for the oldest version."""
    if request.param is None:
        pytest.skip(no_source())
    if request.param == sources()[0]:
        yield request.getfixturevalue("postgres")
        return
    with running(request.param) as server:
        yield server


@pytest.fixture
def database(postgres: Postgres) -> Iterator[Database]:
    """A fresh database on ``postgres``."""
    with fresh_database(postgres, f"tidemark_test_{os.getpid()}_{next(_numbers)}") as fresh:
        yield fresh


@pytest.fixture
def any_database(any_postgres: Postgres) -> Iterator[Database]:
    """A fresh database on ``any_postgres``."""
    with fresh_database(any_postgres, f"tidemark_test_{os.getpid()}_{next(_numbers)}") as fresh:
        yield fresh
