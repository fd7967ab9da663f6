"""A network that fails without an error, while new connections work: the log goes on within a minute."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.captures.remedies import statements
from tests.captures.session import Json, Session, apply, session
from tests.captures.source_tables import BOUND, FILL, USERS, endpoint, prepare, table_rows
from tidemark.protocol.environment import LOG_ID
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database, drop_slots
from tidemark.testing.tcp_proxy import TcpProxy, proxied

PROMISED_SECONDS = 60
"""What docs/postgres.md says."""

OURS = {LOG_ID: "log-1"}


@pytest.fixture
def proxy(database: Database) -> Iterator[TcpProxy]:
    config = endpoint(database)
    if str(config["host"]).startswith("/"):
        pytest.skip("a server on a socket has no network in between")
    with proxied(str(config["host"]), int(config["port"])) as between:
        yield between


@pytest.fixture
def role(database: Database) -> Iterator[str]:
    """A role that may replicate and read the table, and may not see what others do."""
    name = f"{database.name}_replicator"[-60:]
    prepare(database, USERS, FILL, f"CREATE ROLE {name} LOGIN REPLICATION PASSWORD 'x'")
    prepare(database, f"GRANT SELECT ON users TO {name}")
    yield name
    with database.connect("postgres") as admin:
        drop_slots(admin, database.name)
    prepare(database, f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def through(proxy: TcpProxy, config: Json) -> Json:
    return {**config, "host": "127.0.0.1", "port": proxy.port}


def captures(capture: Session, database: Database, number: int) -> float:
    """How long it takes until an update is captured."""
    begun = time.monotonic()
    prepare(database, f"UPDATE users SET name = 'change {number}' WHERE id % 10 = 0")
    capture.until(lambda c: c.rows() == table_rows(database), PROMISED_SECONDS)
    return time.monotonic() - begun


def test_all_connections_fall_silent_and_new_ones_work(database: Database, proxy: TcpProxy) -> None:
    prepare(database, USERS, FILL)
    config = through(proxy, endpoint(database))
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        captures(capture, database, 1)
        proxy.wedge()
        captures(capture, database, 2)
        # A runtime that hears nothing for a minute would end the connector, which then knows nothing of its stream.
        assert any("has not answered" in line["message"] for line in capture.logs), "a question tells first"


@pytest.mark.drawn(1)
@pytest.mark.parametrize("privileged", [True, False])
def test_a_process_that_ended_behind_a_silent_network(
    database: Database, proxy: TcpProxy, role: str, privileged: bool
) -> None:
    as_role = {} if privileged else {"user": role, "password": "x"}
    apply(endpoint(database), BOUND)
    config = through(proxy, endpoint(database, **as_role))
    with session(config, BOUND, env=OURS) as capture:
        capture.until(Session.done)
        captures(capture, database, 1)
        proxy.wedge()
    with session(config, BOUND, capture.state, env=OURS) as again:
        again.documents = list(capture.documents)
        captures(again, database, 2)
        assert any("an earlier process of this capture" in line["message"] for line in again.logs)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("log", ["log-1", ""], ids=["ours", "unknown"])
def test_a_stream_that_somebody_reads_is_left_alone(database: Database, log: str) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND, env=OURS) as first:
        first.until(Session.done)
        reader = _reader(database)
        with session(config, BOUND, first.state, env={LOG_ID: log}) as second:
            first.until(lambda _: second.process.poll() is not None)
            assert second.finish() == 1
            fields = second.logs[-1]["fields"]
            assert fields["code"] == "TM-PG-014"
            (statement,) = statements(fields["remedy"])
            said = "Do not configure another slot" if log == "log-1" else "only before the capture's first start"
            assert said in fields["remedy"]
        assert _reader(database) == reader
        captures(first, database, 1)
        prepare(database, statement)
        wait_until(lambda: _reader(database) not in (None, reader), 20, "the first one begins another stream")
        captures(first, database, 2)


def _reader(database: Database) -> int | None:
    with database.connect() as admin:
        row = admin.execute(
            "SELECT active_pid FROM pg_replication_slots WHERE database = current_database() AND active"
        ).fetchone()
    return None if row is None else int(row[0])
