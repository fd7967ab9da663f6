"""Capturing from a standby: nothing can be written there, and its snapshots and positions are of another kind."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

import pytest

from tests.captures.impatient import NEVER, impatient
from tests.captures.postgres.log_reading import capturing
from tests.captures.remedies import statements
from tests.captures.session import Json, Session, apply, session, unary
from tests.captures.source_tables import BOUND, FILL, USERS, end_of_log, prepare, table_rows
from tests.conformance.test_rereads import causes, said
from tidemark.captures.postgres.server.config import parse_endpoint
from tidemark.captures.postgres.server.positions import parse_lsn
from tidemark.captures.postgres.server.retention import replica_lag
from tidemark.captures.postgres.server.rewrite_trigger import SCRIPT
from tidemark.captures.postgres.server.session import connect
from tidemark.captures.postgres.tables.snapshots import Snapshot, high_position
from tidemark.protocol.errors import SourceError
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database, Postgres, drop_slots, fresh_database, own_server
from tidemark.testing.servers.postgres_standby import promote, replayed, standby_of

NAME = "copied"


@dataclass(frozen=True)
class Pair:
    primary: Database
    standby: Database

    def config(self, **more: object) -> Json:
        return {
            **self.standby.config(),
            "slot": "on_standby",
            "publication": "tidemark",
            "heartbeat_seconds": 0.3,
            **more,
        }


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Postgres, Postgres]]:
    with own_server(at_least=16) as primary, standby_of(primary) as standby:
        yield primary, standby


@pytest.fixture
def pair(servers: tuple[Postgres, Postgres]) -> Iterator[Pair]:
    primary, standby = servers
    with fresh_database(primary, NAME) as database:
        prepare(database, USERS, FILL)
        replayed(database, standby)
        seen = Database(f"{standby.dsn} dbname={NAME}", standby.version, standby.binaries, standby.server, NAME)
        yield Pair(database, seen)
        with standby.connect() as admin:
            drop_slots(admin, NAME)  # Some connector may not quite have ended.


def _apply(pair: Pair) -> None:
    """Makes the publication on the primary, and the slot on the standby."""
    prepare(pair.primary, "CREATE PUBLICATION tidemark FOR TABLE users")
    replayed(pair.primary, pair.standby)
    with ThreadPoolExecutor(1) as threads, pair.primary.connect() as admin:
        applying = threads.submit(apply, pair.config(), BOUND)

        def made() -> bool:
            admin.execute("SELECT pg_log_standby_snapshot()")
            return applying.done()

        wait_until(made, 30, "the slot is made", every=0.2)
        applying.result()


def test_a_publication_is_to_be_made_on_the_primary(pair: Pair) -> None:
    status, _, logs = unary({"validate": {"config": pair.config(), "bindings": BOUND}})
    with session(pair.config(), BOUND) as capture:
        assert (status, capture.finish()) == (1, 1)
    for line in (logs[-1], capture.logs[-1]):
        assert line["fields"]["code"] == "TM-PG-011"
        assert "on the primary" in line["fields"]["remedy"]


def test_feedback_that_is_off_is_warned_of(pair: Pair) -> None:
    def warnings() -> list[str]:
        _, _, logs = unary({"validate": {"config": pair.config(), "bindings": BOUND}})
        return [line["message"] for line in logs if "hot_standby_feedback is off" in line["message"]]

    prepare(pair.standby, "ALTER SYSTEM SET hot_standby_feedback = off", "SELECT pg_reload_conf()")
    with pair.standby.connect() as admin:
        wait_until(lambda: admin.execute("SHOW hot_standby_feedback").fetchone() == ("off",), 20, "it is off")
        (warning,) = warnings()
        prepare(pair.standby, *statements(warning))
        wait_until(lambda: admin.execute("SHOW hot_standby_feedback").fetchone() == ("on",), 20, "it is on")
    assert warnings() == []


def test_a_backfill_and_the_log(pair: Pair) -> None:
    _apply(pair)
    stop = threading.Event()

    def write() -> None:
        with pair.primary.connect() as connection:
            number = 0
            while not stop.is_set():
                number += 1
                connection.execute("UPDATE users SET name = %s WHERE id %% 7 = %s", [f"changed {number}", number % 7])
                connection.execute("UPDATE users SET id = -id WHERE id %% 13 = %s", [number % 13])

    writer = threading.Thread(target=write)
    with session(pair.config(backfill={"chunk_rows": 50}), BOUND) as capture:
        writer.start()
        try:
            capture.until(Session.done, 60)
        finally:
            stop.set()
            writer.join()
        end = end_of_log(pair.primary)
        capture.until(lambda c: parse_lsn(c.state["cursor"]) >= end)
        assert capture.rows() == table_rows(pair.primary)
        locations = [doc["_meta"]["source"]["loc"] for _, doc in capture.documents]
        assert locations == sorted(locations)
    with session(pair.config(), BOUND, capture.state, stop=True) as again:
        assert again.finish() == 0
        assert again.documents == []


def test_a_transaction_that_goes_on_at_the_primary_does_not_fill_the_state(pair: Pair) -> None:
    """All that commits after it began counts as hidden until it is over, however many there are."""
    _apply(pair)
    with pair.primary.connect(autocommit=False) as long, pair.primary.connect() as short:
        with session(pair.config(), BOUND) as capture:
            capture.until(Session.done)
            long.execute("INSERT INTO users VALUES (-1, 'goes on')")
            short.execute(
                "DO $$ BEGIN FOR i IN 1 .. 2000 LOOP INSERT INTO users VALUES (-10 - i); COMMIT; END LOOP; END $$"
            )
            end = end_of_log(pair.primary)
            capture.until(lambda c: parse_lsn(c.state["cursor"]) >= end)
            assert len(json.dumps(capture.state)) < 4096
            assert "hidden_until" in capture.state
        # None of them may be read again before all of them are visible: what a session knew of them is gone with it.
        with session(pair.config(), BOUND, capture.state) as again:
            again.documents = list(capture.documents)
            read_before = len(again.documents)
            again.send({"control": {"sequence": 1, "action": "backfill", "tables": ["public.users"]}})
            again.until(lambda c: c.state.get("control") == 1)
            short.execute("INSERT INTO users VALUES (-2, 'read of the log')")
            end = end_of_log(pair.primary)
            again.until(lambda c: parse_lsn(c.state["cursor"]) >= end)
            assert len(again.documents) == read_before + 1 and not again.done()
            long.commit()
            again.until(Session.done)
            again.until(lambda c: c.rows() == table_rows(pair.primary) and "hidden_until" not in c.state)


def test_a_rewrite_of_which_the_trigger_tells(pair: Pair) -> None:
    """The trigger is made on the primary, where the ALTER runs too. A standby has the message, and the rows later."""
    prepare(pair.primary, SCRIPT)
    _apply(pair)
    command = impatient("tidemark.connectors.postgres", look=NEVER)
    with session(pair.config(), BOUND, command=command) as capture:
        capture.until(Session.done)
        prepare(
            pair.primary,
            "ALTER TABLE users ALTER name TYPE text USING name || '!'",
            "INSERT INTO users VALUES (-1, 'later')",
        )
        capture.until(lambda c: bool(said(c).get("ended")), 60)
        assert causes(said(capture)) == {"column_rewritten": ["name"]}
        capture.until(lambda c: c.rows() == table_rows(pair.primary))


def test_a_snapshot_hides_what_the_standby_does_not_say(pair: Pair) -> None:
    """pg_current_snapshot() has no list of running transactions there: all from xmin on count as hidden."""
    with (
        pair.primary.connect(autocommit=False) as running_one,
        pair.primary.connect() as other,
        connect(parse_endpoint(pair.config())) as seen,
    ):
        first = running_one.execute("INSERT INTO users VALUES (-1, 'runs') RETURNING xmin::text::bigint").fetchone()
        second = other.execute("INSERT INTO users VALUES (-2, 'is over') RETURNING xmin::text::bigint").fetchone()
        assert first is not None and second is not None
        replayed(pair.primary, pair.standby)
        text = seen.execute("SELECT pg_current_snapshot()::text").fetchone()
        assert text is not None
        assert text[0].endswith(":"), "the running one is not listed"
        assert Snapshot.parse(text[0], recovery=True).hides(first[0])
        assert not Snapshot.parse(text[0]).hides(first[0]), "without that it would count as visible"
        assert not Snapshot.parse(text[0], recovery=True).hides(first[0] - 1)


def test_a_position_of_a_standby_is_reached(pair: Pair) -> None:
    with connect(parse_endpoint(pair.config())) as seen, pair.standby.connect() as admin:
        high = high_position(seen, read_only=False)
        passed = "SELECT pg_last_wal_replay_lsn() >= %s::text::pg_lsn"
        prepare(pair.primary, "INSERT INTO users VALUES (-5, 'later')")
        replayed(pair.primary, pair.standby)
        assert admin.execute(passed, [f"{high >> 32:X}/{high & 0xFFFFFFFF:X}"]).fetchone() == (True,)


def test_a_position_of_a_standby_is_later_than_what_it_replays(pair: Pair) -> None:
    """A commit that is being replayed is visible a moment before the replay position is behind its record."""
    with connect(parse_endpoint(pair.config())) as seen, pair.standby.connect() as admin:
        positions = "SELECT pg_last_wal_replay_lsn()::text, pg_last_wal_receive_lsn() > pg_last_wal_replay_lsn()"
        admin.execute("SELECT pg_wal_replay_pause()")
        try:
            paused = "SELECT pg_get_wal_replay_pause_state() = 'paused'"
            wait_until(lambda: admin.execute(paused).fetchone() == (True,), 20, "nothing is replayed")
            prepare(pair.primary, "INSERT INTO users VALUES (-6, 'is there, and not replayed')")
            wait_until(lambda: (admin.execute(positions).fetchone() or ())[1], 20, "more of the log is there")
            row = admin.execute(positions).fetchone()
            assert row is not None and high_position(seen, read_only=False) > parse_lsn(row[0])
        finally:
            admin.execute("SELECT pg_wal_replay_resume()")
        replayed(pair.primary, pair.standby)
        # Where all of it was replayed no later position may be waited for: there may never be one.
        row = admin.execute(positions).fetchone()
        assert row is not None and not row[1] and high_position(seen, read_only=False) >= parse_lsn(row[0])


def test_how_far_a_replica_is(pair: Pair) -> None:
    name = 'May "not" look'
    role = f'"{name.replace(chr(34), chr(34) * 2)}"'
    prepare(
        pair.primary,
        "CREATE PUBLICATION tidemark FOR TABLE users",
        f"CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'x'",
        f"GRANT SELECT ON users TO {role}",
    )
    try:
        with capturing(pair.primary, "users", user=name, password="x") as reader:
            with pytest.raises(SourceError, match="TM-PG-008") as refused:
                reader.source.replica_lag()
            prepare(pair.primary, *statements(refused.value.remedy))
            lag = reader.source.replica_lag()
            assert lag is not None and 0 <= lag < 60
        with closing(connect(parse_endpoint(pair.config()))) as of_the_standby:
            replayed(pair.primary, pair.standby)
            own = replica_lag(of_the_standby, name)
            assert own is not None and 0 <= own < 60
    finally:
        prepare(pair.primary, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_a_standby_that_is_promoted_while_it_is_captured() -> None:
    with (
        own_server(at_least=16) as primary,
        fresh_database(primary, NAME) as database,
        standby_of(primary) as standby,
    ):
        prepare(database, USERS, FILL)
        seen = Database(f"{standby.dsn} dbname={NAME}", standby.version, standby.binaries, standby.server, NAME)
        pair = Pair(database, seen)
        _apply(pair)
        with session(pair.config(backfill={"chunk_rows": 300}), BOUND) as capture:
            capture.until(Session.done)
            promote(standby)
            prepare(seen, "UPDATE users SET name = 'on the new timeline' WHERE id < 100")
            capture.until(lambda c: c.state["source"]["timeline"] == 2)
            prepare(seen, "UPDATE users SET name = 'and later' WHERE id < 50")
            end = end_of_log(seen)
            capture.until(lambda c: parse_lsn(c.state["cursor"]) >= end)
            assert capture.rows() == table_rows(seen)
        with session(pair.config(), BOUND, capture.state, stop=True) as again:
            assert again.finish() == 0
            assert again.documents == []
