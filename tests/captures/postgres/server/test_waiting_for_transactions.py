"""A first start waits for transactions that write, however long they stay open, and says for which ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.captures.postgres.encoded_databases import InEncoding
from tests.captures.session import Json, Session, bindings, session
from tests.captures.source_tables import BOUND, FILL, USERS, endpoint, prepare, table_rows
from tidemark.captures.postgres.server.waiting import command_of
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database, fresh_database, own_server

OPEN_SECONDS = 13.0
"""Longer than anything of ours may wait for a lock."""


@contextmanager
def writing(database: Database, *statements: str) -> Iterator[psycopg.Connection[Any]]:
    """A transaction that has run these, and stays open."""
    with database.connect(autocommit=False, application_name="an old script") as connection:
        for statement in statements:
            connection.execute(statement)
        yield connection


def said(capture: Session, *words: str) -> list[str]:
    """What was said that has all of these words."""
    return [line["message"] for line in capture.logs if all(word in line["message"] for word in words)]


@pytest.mark.slow
def test_a_transaction_that_stays_open(any_database: Database) -> None:
    prepare(any_database, USERS, FILL, "CREATE TABLE other (id int, secret text)", "INSERT INTO other VALUES (1)")
    update = "UPDATE public.other SET secret = 'nobody should see this' WHERE id = 1"
    with writing(any_database, update) as old, session(endpoint(any_database), BOUND) as capture:
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > OPEN_SECONDS, 30, "the transaction is old")
        assert capture.process.poll() is None, capture.last_words()
        reports = said(capture, f"process {old.info.backend_pid} ", "user postgres", "UPDATE public.other")
        assert len(reports) >= 2, capture.logs
        assert not said(capture, "nobody should see this")
        old.commit()
        capture.until(Session.done)
        assert capture.rows() == table_rows(any_database)


def test_a_table_that_is_added_says_for_what_its_backfill_waits(database: Database) -> None:
    config, state = _begun(database)
    with writing(database, "INSERT INTO unrelated VALUES (1, 'nobody should see this')") as old:
        words = [f"process {old.info.backend_pid} of user postgres", "open for", "idle in transaction", "INSERT INTO"]
        _says_for_what(config, state, words, old.commit)


def test_a_table_that_is_added_waits_for_a_prepared_transaction() -> None:
    with own_server({"max_prepared_transactions": "2"}) as server, fresh_database(server, "prepared") as database:
        config, state = _begun(database)
        with writing(database, "INSERT INTO unrelated VALUES (1, 'nobody should see this')") as old:
            old.execute("PREPARE TRANSACTION 'stays'")
        words = ["the prepared transaction stays of user postgres", "open for"]
        _says_for_what(config, state, words, lambda: prepare(database, "COMMIT PREPARED 'stays'"))


def _begun(database: Database) -> tuple[Json, Json]:
    """A capture of users that has ended, beside tables that it does not have."""
    prepare(database, USERS, FILL, "CREATE TABLE others (id int PRIMARY KEY)", "INSERT INTO others VALUES (1)")
    prepare(database, "CREATE TABLE unrelated (id int, secret text)")
    config = endpoint(database)
    with session(config, BOUND, stop=True) as capture:
        assert capture.finish() == 0
    return config, capture.state


def _says_for_what(config: Json, state: Json, words: list[str], end: Callable[[], None]) -> None:
    """Another table is added, and its backfill waits until ``end``: log and status say so in these words."""
    with session(config, [*BOUND, *bindings("public.others")], state) as again:
        wait_until(lambda: said(again, "the backfill of public.others waits for", *words), 30, "it is said")
        wait_until(lambda: all(word in waits_for(again) for word in words), 30, "the status says it, too")
        assert not said(again, "nobody should see this") and "nobody" not in waits_for(again)
        end()
        again.until(Session.done)
        wait_until(lambda: not waits_for(again), 30, "nothing is waited for any more")
        assert len(said(again, "the backfill of public.others waits for")) == 1


def waits_for(capture: Session) -> str:
    """What the last status line says of the table that was added."""
    lines = [line["fields"] for line in capture.logs if line.get("eventType") == "connectorStatus"]
    return (lines[-1]["tables"]["public.others"]["waits_for"] or "") if lines else ""


@pytest.mark.slow
def test_a_table_that_is_vacuumed_is_published_after_it(database: Database) -> None:
    """VACUUM and CREATE INDEX CONCURRENTLY hold the lock that publishing takes, for hours where a table is large."""
    prepare(database, USERS, FILL)
    lock = "LOCK TABLE users IN SHARE UPDATE EXCLUSIVE MODE"
    with writing(database, lock) as old, session(endpoint(database), BOUND) as capture:
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > OPEN_SECONDS, 30, "the transaction is old")
        assert capture.process.poll() is None, capture.last_words()
        assert said(capture, "publication", f"process {old.info.backend_pid} ", "LOCK TABLE users")
        with database.connect() as other:  # Nobody else is held up.
            other.execute("SET lock_timeout = '1s'")
            other.execute("UPDATE users SET name = 'meanwhile' WHERE id = 5")
        old.commit()
        capture.until(Session.done)
        assert capture.rows() == table_rows(database)


def test_a_transaction_of_a_database_in_another_encoding(database: Database, in_encoding: InEncoding) -> None:
    """The server shows its statement as that database has it, which is no UTF-8."""
    western = in_encoding("WIN1252")
    prepare(database, USERS, FILL)
    prepare(western, "CREATE TABLE straße (id int)")
    with writing(western, "INSERT INTO straße VALUES (1)") as old, session(endpoint(database), BOUND) as capture:
        process = f"process {old.info.backend_pid} "
        wait_until(lambda: bool(said(capture, process)), 20, "it is named")
        assert said(capture, process, "INSERT")
        old.commit()
        capture.until(Session.done)


def test_a_prepared_transaction_is_named() -> None:
    with own_server({"max_prepared_transactions": "1"}) as server, fresh_database(server, "prepared") as database:
        prepare(database, USERS, FILL)
        with writing(database, "UPDATE users SET name = 'x' WHERE id = 1", "PREPARE TRANSACTION 'forgotten'"):
            pass
        with session(endpoint(database), BOUND) as capture:
            wait_until(lambda: said(capture, "prepared transaction forgotten of user postgres"), 20, "it is named")
            prepare(database, "ROLLBACK PREPARED 'forgotten'")
            capture.until(Session.done)


def test_a_capture_that_waits_ends_when_it_is_told_to_and_leaves_nothing_behind(database: Database) -> None:
    prepare(database, USERS)
    config: Json = endpoint(database)
    with writing(database, "INSERT INTO users VALUES (1)"), session(config, BOUND) as capture:
        wait_until(lambda: said(capture, "process"), 60, "it says for whom it waits")
        assert capture.process.stdin is not None
        capture.process.stdin.close()
        assert capture.process.wait(timeout=60) == 0
        with database.connect() as admin:
            slots = "SELECT slot_name FROM pg_replication_slots WHERE slot_name = %s"
            wait_until(lambda: admin.execute(slots, [config["slot"]]).fetchone() is None, 60, "there is no slot")


@pytest.mark.parametrize(
    ("query", "command"),
    [
        ("UPDATE public.orders SET card = '4711' WHERE id = 5", "UPDATE public.orders"),
        ("  update only orders set x = 1", "update only orders"),
        ('/* user=4711 */ INSERT INTO "Odd one"."T 1" VALUES (\'secret\')', 'INSERT INTO "Odd one"."T 1"'),
        ("-- 4711\nDELETE FROM a.b WHERE c = 4711", "DELETE FROM a.b"),
        ("COPY shop.orders (id) FROM STDIN", "COPY shop.orders"),
        ("WITH secret AS (SELECT 4711) UPDATE x SET y = 1", "WITH"),
        ("SELECT secret('4711')", "SELECT"),
        ("COMMIT", "COMMIT"),
        ("4711", ""),
        ("secret", ""),
        ("<insufficient privilege>", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_of_a_query_only_what_it_does_to_which_table_is_said(query: str | None, command: str) -> None:
    assert command_of(query) == command


@given(st.text(), st.sampled_from(["UPDATE t SET a = '{}'", "SELECT '{}'", "/* {} */ DELETE FROM t", "COPY t -- {}"]))
def test_no_value_is_ever_said(value: str, query: str) -> None:
    given_value = value.replace("'", "''").replace("*/", "").replace("{", "").replace("}", "")
    assert command_of(query.format(given_value)) in ("UPDATE t", "SELECT", "DELETE FROM t", "COPY t")
    said_of_anything = command_of(value).upper()
    assert said_of_anything == "" or said_of_anything in " ".join(value.upper().split())
