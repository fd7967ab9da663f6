"""A log whose connection breaks is gone on with where it was left: nothing is lost, nothing returned twice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.captures.postgres.log_reading import PostgresLog, capturing
from tests.captures.source_tables import prepare
from tidemark.captures.postgres.log.connection import StreamLimits
from tidemark.captures.postgres.server.config import parse_endpoint
from tidemark.captures.postgres.server.session import BoundedConnection
from tidemark.protocol.errors import SourceError
from tidemark.testing.servers.postgres import Database, Postgres, fresh_database, own_server
from tidemark.testing.servers.postgres_server import StopMode
from tidemark.testing.tcp_proxy import TcpProxy, proxied

pytestmark = pytest.mark.heavy

USERS = "CREATE TABLE users (id int PRIMARY KEY, name text)"
MANY = 60_000
INSERT = f"INSERT INTO users SELECT i, repeat('x', 200) FROM generate_series(1, {MANY}) i"
"""A transaction that is larger than all buffers on the way."""


def _terminate(database: Database) -> None:
    prepare(
        database,
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
        " WHERE database = current_database() AND active_pid IS NOT NULL",
    )


def _in_the_middle(reader: PostgresLog, rows: int) -> None:
    reader.until(lambda: len(reader.documents) >= rows)
    assert not reader.log.between_transactions
    assert len(reader.documents) < MANY


def _all_came_once(reader: PostgresLog) -> bool:
    (transaction,) = reader.transactions
    touched = transaction.touched[0]
    return reader.ids() == [("c", i) for i in range(1, MANY + 1)] and len(touched) == MANY


def test_a_walsender_that_is_terminated_in_a_transaction(any_database: Database) -> None:
    prepare(any_database, USERS)
    with capturing(any_database, "users") as reader:
        reader.log.track(frozenset({0}))
        prepare(any_database, INSERT)
        for rows in (1000, 9000, 30_000):
            _in_the_middle(reader, rows)
            _terminate(any_database)
        reader.read()
        assert set(reader.failures) == {"TM-PG-020"}
        assert _all_came_once(reader)


def test_a_stream_that_breaks_again_before_it_is_where_it_was(database: Database) -> None:
    prepare(database, USERS)
    with capturing(database, "users") as reader:
        reader.log.track(frozenset({0}))
        prepare(database, INSERT)
        _in_the_middle(reader, 30_000)
        came = len(reader.documents)
        _terminate(database)
        while not reader.failures:
            try:
                reader.read_once()
                came = len(reader.documents)
            except SourceError as error:
                reader.failures.append(error.code)
        for _ in range(2):
            reader.source.reconnect()
            reader.log.reconnect()
            reader.read_once()  # Some of what was returned before.
            assert len(reader.documents) == came
        reader.read()
        assert _all_came_once(reader)


def test_a_stream_that_cannot_be_begun_again_at_once(database: Database) -> None:
    prepare(database, USERS)
    with capturing(database, "users") as reader:
        reader.source.close()
        for _ in range(2):
            with pytest.raises(SourceError, match="TM-PG-020"):
                reader.log.reconnect()
        prepare(database, "INSERT INTO users VALUES (1, 'one')")
        reader.reconnect(time.monotonic() + 20)
        reader.read()
        assert reader.ids() == [("c", 1)]


def test_columns_that_changed_in_the_transaction_that_broke_off(database: Database) -> None:
    prepare(database, USERS, "CREATE TABLE other (id int PRIMARY KEY)")
    with capturing(database, "users", "other") as reader:
        with database.connect(autocommit=False) as connection:
            connection.execute("INSERT INTO users VALUES (-1, 'before')")
            connection.execute("ALTER TABLE users ADD COLUMN age int")
            connection.execute("INSERT INTO other VALUES (-2)")
            connection.execute(INSERT)
            connection.execute("ALTER TABLE users DROP COLUMN name")
            connection.execute("INSERT INTO users VALUES (-3, 5)")
            connection.commit()
        _in_the_middle(reader, 1000)
        _terminate(database)
        reader.read()
        assert reader.failures
        ids = [number for _, number in reader.ids()]
        assert ids == [-1, -2, *range(1, MANY + 1), -3]
        columns = [set(schema["properties"]) - {"_meta"} for schema in reader.schemas]
        assert columns == [{"id", "name", "age"}, {"id", "age"}]
        assert reader.documents[-1]["age"] == 5


def test_what_was_acknowledged_stays_so(database: Database) -> None:
    prepare(database, USERS, "INSERT INTO users VALUES (0, 'zero')")
    confirmed = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE database = current_database()"
    with capturing(database, "users") as reader, database.connect() as admin:
        before = admin.execute(confirmed).fetchone()
        prepare(database, "INSERT INTO users VALUES (1, 'one')")
        reader.until(lambda: len(reader.documents) == 1)
        _terminate(database)
        prepare(database, "INSERT INTO users VALUES (2, 'two')")
        reader.until(lambda: len(reader.documents) == 2)
        # Nothing was acknowledged, so nothing may be let go of, however far the new stream was begun.
        reader.log.request_progress()
        reader.read()
        assert admin.execute(confirmed).fetchone() == before


@pytest.fixture
def proxy(database: Database) -> Iterator[TcpProxy]:
    config = parse_endpoint(database.config())
    if config.host.startswith("/"):
        pytest.skip("a server on a socket has no network in between")
    with proxied(config.host, config.port) as between:
        yield between


def test_a_connection_that_is_reset(database: Database, proxy: TcpProxy) -> None:
    prepare(database, USERS)
    with capturing(database, "users", host="127.0.0.1", port=proxy.port) as reader:
        reader.log.track(frozenset({0}))
        prepare(database, INSERT)
        _in_the_middle(reader, 1000)
        proxy.reset()
        reader.read()
        assert set(reader.failures) == {"TM-PG-020"}
        assert _all_came_once(reader)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("middle", [True, False])
def test_a_peer_that_falls_silent(database: Database, proxy: TcpProxy, middle: bool) -> None:
    """The server holds the slot for its old walsender until the new stream ends that."""
    prepare(database, USERS)
    limits = StreamLimits(silence=0.3, answer=0.3)
    with capturing(database, "users", limits=limits, host="127.0.0.1", port=proxy.port) as reader:
        reader.log.track(frozenset({0}))
        if middle:
            prepare(database, INSERT)
            _in_the_middle(reader, 1000)
        proxy.stall()
        with pytest.raises(SourceError, match=r"TM-PG-020.*has sent nothing"):
            _read_until_it_breaks(reader)
        proxy.flow()
        if not middle:
            prepare(database, INSERT)
        reader.read()
        assert _all_came_once(reader)


def _read_until_it_breaks(reader: PostgresLog, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        reader.read_once()


def test_a_question_to_a_peer_that_falls_silent(database: Database, proxy: TcpProxy) -> None:
    prepare(database, USERS)
    with capturing(database, "users", host="127.0.0.1", port=proxy.port) as reader:
        session = reader.source.followed.session
        assert isinstance(session, BoundedConnection)
        session.answer_seconds = 0.3
        proxy.stall()
        with pytest.raises(SourceError, match=r"TM-PG-020.*has not answered"):
            reader.source.retained()
        proxy.flow()
        reader.source.reconnect()
        assert reader.source.retained().size is not None


def test_a_silent_server_that_answers_is_no_fault(database: Database) -> None:
    prepare(database, USERS)
    with capturing(database, "users", limits=StreamLimits(silence=0.05)) as reader:
        for _ in range(20):
            reader.read_once()
        prepare(database, "INSERT INTO users VALUES (1, 'one')")
        reader.read()
        assert reader.ids() == [("c", 1)]
        assert reader.failures == []


@pytest.fixture
def stoppable() -> Iterator[Postgres]:
    """A server that a test may stop."""
    with own_server() as server:
        yield server


@pytest.mark.drawn(1)
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_restarts(stoppable: Postgres, mode: StopMode) -> None:
    assert stoppable.server is not None
    with fresh_database(stoppable, "restarted") as database:
        prepare(database, USERS)
        with capturing(database, "users") as reader:
            reader.log.track(frozenset({0}))
            prepare(database, INSERT)
            _in_the_middle(reader, 1000)
            # A server that is shut down in peace waits until all that its walsenders have to send is acknowledged.
            reader.acknowledging = True
            with ThreadPoolExecutor(1) as threads:
                restarting = threads.submit(stoppable.server.restart, mode)
                reader.until(restarting.done)
                restarting.result()
            reader.read()
            assert reader.failures
            assert _all_came_once(reader)
            # Questions to the server work again, too.
            assert reader.source.retained().size is not None
            assert not reader.source.visibility().hides(reader.transactions[0].txn)
