"""The fixtures themselves: what other tests rely on."""

from __future__ import annotations

import psycopg
import pytest

from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database, Postgres, fresh_database


def test_server_keeps_a_log_that_can_be_decoded(any_database: Database) -> None:
    with any_database.connect() as connection:
        assert connection.execute("SHOW wal_level").fetchone() == ("logical",)
        assert connection.info.server_version // 10000 == any_database.version
        assert connection.execute("SELECT current_database()").fetchone() == (any_database.name,)


def test_config_is_what_a_connector_needs(database: Database) -> None:
    config = database.config()
    assert config["database"] == database.name
    config["dbname"] = config.pop("database")
    with psycopg.connect(**config) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_database_goes_away_with_its_slots_and_its_users(postgres: Postgres) -> None:
    with fresh_database(postgres, "tidemark_test_gone") as fresh:
        left = fresh.connect()
        left.execute("SELECT pg_create_logical_replication_slot('tidemark_left', 'pgoutput')")
    try:
        with postgres.connect() as admin:
            assert admin.execute("SELECT 1 FROM pg_database WHERE datname = 'tidemark_test_gone'").fetchone() is None
            slots = admin.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = 'tidemark_left'")
            assert slots.fetchone() is None
    finally:
        left.close()


def test_waiting_ends_and_says_what_for() -> None:
    answers = iter([False, False, True])
    assert wait_until(lambda: next(answers), 5, "an answer")
    with pytest.raises(AssertionError, match="the tide: still not so after 0 s"):
        wait_until(lambda: False, 0, "the tide")
