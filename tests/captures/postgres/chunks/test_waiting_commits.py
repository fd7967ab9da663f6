"""Commits that wait for a synchronous standby are in the log, and no SELECT sees them: old rows must not win over them.

The same race, with everything up to Spark around it, is in ``tests/end_to_end/test_synchronous_standby.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.captures.engine.test_commands import handled
from tests.captures.session import Session, apply, bindings, session
from tests.captures.source_tables import BOUND, FILL, end_of_log, endpoint, prepare, table_rows
from tidemark.captures.postgres.server.positions import parse_lsn
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import (
    Database,
    Postgres,
    Source,
    fresh_database,
    not_startable,
    running,
    startable,
)
from tidemark.testing.servers.waiting_commits import commits_wait, release, waiting

ROWS = 1000
READ = 300
"""Rows that are read before the commits."""


def _servers() -> list[Source | None]:
    found: list[Source | None] = [*startable()]
    return [found[0], found[-1]][: len(found)] if found else [None]


@pytest.fixture(params=_servers(), ids=lambda source: f"pg{source.version}" if source else "none")
def own_server(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    """A server whose settings a test may change."""
    if request.param is None:
        pytest.skip(not_startable())
    with running(request.param) as server:
        yield server


def _transactions() -> list[list[str]]:
    """Each kind of change in the part that was read, at the place of the scan, and in the part to come."""
    made = []
    for key in (100, READ - 5, READ + 40, 700, 950):
        made += [
            [f"UPDATE users SET name = 'updated' WHERE id = {key}"],  # Its large value is not in the log.
            [f"UPDATE users SET name = 'whole', bio = 'small' WHERE id = {key + 1}"],
            [f"DELETE FROM users WHERE id = {key + 2}"],
            [f"UPDATE users SET id = {key + 3 + ROWS} WHERE id = {key + 3}"],  # Nor is it here.
            [f"UPDATE users SET id = -id, bio = NULL WHERE id = {key + 4}"],
            [f"DELETE FROM users WHERE id = {key + 5}", f"INSERT INTO users VALUES ({key + 5}, 'again', 'small')"],
            [
                f"UPDATE users SET id = -{key} WHERE id = {key + 6}",
                f"UPDATE users SET id = {key + 6} WHERE id = {key + 7}",  # A key that another row has left.
            ],
        ]
    return made


def _commit(database: Database, statements: list[str]) -> None:
    with database.connect(autocommit=False) as connection:
        for statement in statements:
            connection.execute(statement)


def _logged(capture: Session) -> set[int]:
    """The transactions that documents are of."""
    sources = (document["_meta"]["source"] for _, document in capture.documents)
    return {source["txid"] for source in sources if "txid" in source}


@pytest.mark.drawn(2)
@pytest.mark.usefixtures("both_forms")
def test_old_rows_do_not_win(own_server: Postgres) -> None:
    transactions = _transactions()
    with fresh_database(own_server, "waiting") as database, database.connect() as admin:
        prepare(
            database,
            "CREATE TABLE users (id int PRIMARY KEY, name text, bio text)",
            "ALTER TABLE users ALTER bio SET STORAGE EXTERNAL",
            f"INSERT INTO users SELECT i, 'old', repeat(i::text || ' ', 1000) FROM generate_series(1, {ROWS}) i",
        )
        config = endpoint(database, backfill={"chunk_rows": 50})
        apply(config, BOUND)
        with session(config, BOUND) as first:
            first.until(lambda c: len(c.documents) >= READ)
        with ThreadPoolExecutor(len(transactions)) as threads, commits_wait(own_server):
            hanging = [threads.submit(_commit, database, statements) for statements in transactions]
            wait_until(lambda: waiting(admin) == len(transactions), 60, "all commits wait")
            with session(config, BOUND, first.state) as capture:
                capture.documents[:0] = first.documents
                capture.until(lambda c: len(_logged(c)) == len(transactions))
                # The scan goes on, with what it may emit: the last row is not one of those that were changed.
                capture.until(lambda c: any(doc.get("id") == ROWS for _, doc in c.documents))
                assert waiting(admin) == len(transactions)
                assert not capture.done(), "rows without their large value are left to be read again"
                release(admin)
                for future in hanging:
                    future.result(timeout=60)
                end = end_of_log(database)
                capture.until(lambda c: c.done() and parse_lsn(c.state["cursor"]) >= end)
                assert capture.rows() == table_rows(database, "SELECT id, name, bio FROM users")
                locations = [doc["_meta"]["source"]["loc"] for _, doc in capture.documents]
                assert locations == sorted(locations)


@pytest.mark.drawn(2)
@pytest.mark.usefixtures("both_forms")
def test_a_session_that_begins_meanwhile_emits_no_old_rows(own_server: Postgres) -> None:
    """What the last one emitted unseen, it knows from the state, and not which rows that was: it waits."""
    with fresh_database(own_server, "begun") as database, database.connect() as admin:
        prepare(database, "CREATE TABLE users (id int PRIMARY KEY, name text)", FILL)
        config = endpoint(database, backfill={"chunk_rows": 50, "max_rate": "200 rows"})
        with session(config, BOUND) as first, ThreadPoolExecutor(1) as threads:
            first.until(lambda c: len(c.documents) >= READ)
            with commits_wait(own_server):
                hanging = threads.submit(_commit, database, [f"UPDATE users SET name = 'new' WHERE id = {ROWS}"])
                first.until(lambda c: _logged(c))
                first.until(lambda c: c.state.get("hidden"))
                assert not first.done()
                first.close()
                with session(endpoint(database), BOUND, first.state) as second:
                    second.documents[:0] = first.documents
                    for sequence in range(1, 7):  # It had time to read the whole table.
                        second.send({"control": {"sequence": sequence, "action": "resume", "tables": ["public.users"]}})
                        second.until(handled(sequence))
                    assert not second.done()
                    release(admin)
                    hanging.result(timeout=60)
                    second.until(Session.done)
                    assert second.rows() == table_rows(database)


@pytest.mark.heavy
def test_a_table_without_a_key_waits_for_them(own_server: Postgres) -> None:
    """The log has left out what its snapshot is to show."""
    with fresh_database(own_server, "waiting") as database, database.connect() as admin:
        prepare(
            database,
            "CREATE TABLE marks (id int PRIMARY KEY)",
            "CREATE TABLE events (id int)",
            "ALTER TABLE events REPLICA IDENTITY FULL",
            f"INSERT INTO events SELECT generate_series(1, {ROWS})",
        )
        bound = bindings("public.events", "public.marks")
        config = endpoint(database, backfill={"chunk_rows": 50, "max_rate": "1000 rows"})
        apply(config, bound)
        with ThreadPoolExecutor(50) as threads, database.connect() as earlier, session(config, bound) as capture:
            capture.until(lambda c: len(c.documents) >= 100)
            earlier.execute("BEGIN; SELECT pg_current_xact_id()")
            prepare(database, "UPDATE events SET id = 0 WHERE id = 900")  # The table is read again, in one snapshot.
            capture.until(lambda c: "waits for transactions" in str(c.logs))
            with commits_wait(own_server):
                for statement in ("INSERT INTO events VALUES (-1)", "INSERT INTO marks VALUES (1)"):
                    threads.submit(_commit, database, [statement])
                capture.until(lambda c: any(index == 1 for index, _ in c.documents))
                capture.until(lambda c: waiting(admin) == 2)
                earlier.execute("ROLLBACK")
                said = len(capture.logs)
                capture.until(lambda c: len(c.logs) > said + 3)  # It says every second how far it is.
            capture.until(lambda c: c.done())
            read = [doc for index, doc in capture.documents if index == 0]
            last = max(place for place, doc in enumerate(read) if doc["_meta"]["op"] == "t")
            assert sorted(doc["id"] for doc in read[last + 1 :]) == sorted({*range(-1, ROWS + 1)} - {900})
