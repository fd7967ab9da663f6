"""A source that goes away while it is captured, and what the capture does until it is back."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.captures.session import Json, Session, apply, bindings, session
from tests.captures.source_tables import BOUND, FILL, USERS, endpoint, prepare, table_rows
from tidemark.captures.contract.errors import AnotherServer, LostPosition
from tidemark.captures.engine.reconnection import Outages
from tidemark.captures.postgres.server.positions import parse_lsn
from tidemark.protocol.errors import SourceError
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database, drop_slot
from tidemark.testing.tcp_proxy import TcpProxy, proxied

pytestmark = pytest.mark.heavy


class Clock:
    """Passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_outage_may_last_for_ever() -> None:
    clock = Clock()
    outages = Outages(clock)
    waits = []
    for _ in range(1000):
        waits.append(outages.failed(SourceError("TM-PG-001", "away")))
        clock.now += waits[-1]
    assert max(waits) <= 30 and min(waits[10:]) >= 15
    assert outages.away_seconds == clock.now
    outages.connected()
    assert outages.away_seconds == 0


def test_what_fails_whenever_it_is_connected_is_no_outage() -> None:
    clock = Clock()
    outages = Outages(clock)

    def failures(seconds: float, most: int) -> int:
        for count in range(most):
            try:
                outages.failed(SourceError("TM-PG-020", "broke"))
            except SourceError:
                return count
            outages.connected()
            outages.progressed()
            clock.now += seconds
        return most

    assert failures(30, 100) == 100, "connections that hold for a while end from outside"
    assert failures(1, 100) < 10


@pytest.mark.parametrize(
    "error",
    [SourceError("TM-PG-002", "refused"), LostPosition("TM-PG-020", "gone"), AnotherServer("TM-MY-054", "moved")],
)
def test_what_connecting_anew_cannot_mend_is_raised(error: SourceError) -> None:
    with pytest.raises(SourceError) as raised:
        Outages(Clock()).failed(error)
    assert raised.value is error


def end_walsender(database: Database, slot: str) -> None:
    with database.connect() as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s AND active", [slot]
        ).fetchone()
    assert ended == (True,)


def told(capture: Session, code: str) -> bool:
    return any(line["level"] == "warning" and line.get("fields", {}).get("code") == code for line in capture.logs)


def named(name: str) -> Callable[[Session], bool]:
    """Some row with this name came."""
    return lambda capture: any(doc.get("name") == name for _, doc in capture.documents)


def unrepeated(capture: Session) -> bool:
    """Whether every event of the log came once."""
    places = [tuple(doc["_meta"]["source"]["loc"]) for _, doc in capture.documents if doc["_meta"]["op"] != "t"]
    logged = [place for place in places if place[1] != 0]
    return len(logged) == len(set(logged))


def test_a_terminated_walsender_is_an_outage_and_no_end(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        for end in range(2):
            prepare(
                database,
                f"INSERT INTO users SELECT i, 'x' FROM generate_series({10000 + end * 100}, {10099 + end * 100}) i",
            )
            end_walsender(database, config["slot"])
            wait_until(lambda: told(capture, "TM-PG-020"), 20, "the outage is told")
            prepare(database, f"UPDATE users SET name = 'after {end}' WHERE id < 50")
            capture.until(named(f"after {end}"))
        capture.until(lambda c: c.rows() == table_rows(database))
        assert unrepeated(capture)
        assert any("reconnecting in" in line["message"] for line in capture.logs)
        assert any("reconnected" in line["message"] for line in capture.logs)


def test_acknowledgements_of_before_an_outage_move_the_slot_after_it(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture, database.connect() as admin:
        capture.until(Session.done, acknowledge=False)
        end_walsender(database, config["slot"])
        wait_until(lambda: told(capture, "TM-PG-020"), 20, "the outage is told")
        capture.acknowledge()
        cursor = parse_lsn(capture.state["cursor"])

        def confirmed() -> int:
            row = admin.execute(
                "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s", [config["slot"]]
            ).fetchone()
            assert row is not None
            return parse_lsn(row[0])

        wait_until(lambda: confirmed() >= cursor, 20, "the slot moves")


def test_a_backfill_outlives_the_end_of_every_connection(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database, backfill={"chunk_rows": 50, "max_rate": "500 rows"})
    apply(config, BOUND)
    with session(config, BOUND) as capture, database.connect() as admin:
        capture.until(lambda c: len(c.documents) >= 200)
        assert not capture.done()
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'tidemark' AND datname = current_database()"
        )
        prepare(database, "UPDATE users SET name = 'meanwhile' WHERE id % 7 = 0")
        capture.until(Session.done)
        capture.until(lambda c: c.rows() == table_rows(database))
        assert unrepeated(capture)
        snapshot = [doc["id"] for _, doc in capture.documents if doc["_meta"]["source"].get("snapshot")]
        assert len(snapshot) == len(set(snapshot)), "no chunk is emitted twice"


@pytest.mark.skipif(sys.platform != "linux", reason="proc(5) is Linux's")
def test_a_transaction_that_stalls_in_its_middle_keeps_no_processor_busy(database: Database) -> None:
    with stalled_in_a_transaction(database) as (proxy, capture):
        samples = [(time.monotonic(), processor_seconds(capture.process.pid))]

        def rests() -> bool:
            now, used = time.monotonic(), processor_seconds(capture.process.pid)
            since, before = samples[-1]
            if now - since < 1:
                return False
            samples.append((now, used))
            return used - before < 0.05

        wait_until(rests, 20, "the connector waits for the rest")
        proxy.flow()
        capture.until(lambda c: len(c.documents) == 100000, 60)


def processor_seconds(pid: int) -> float:
    """What a process has used, as proc(5) shows it."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_the_end_of_stdin_ends_a_capture_that_waits_for_its_source(database: Database) -> None:
    prepare(database, USERS)
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture, database.connect("postgres") as admin:
        capture.until(Session.done)
        # Nobody can connect any more: the outage does not end.
        admin.execute(f"ALTER DATABASE {database.name} ALLOW_CONNECTIONS false")
        admin.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s", [config["slot"]]
        )
        wait_until(lambda: told(capture, "TM-PG-001"), 20, "connecting anew fails")
        wait_until(lambda: away(capture), 20, "the status says for how long")
        assert capture.process.stdin is not None
        capture.process.stdin.close()
        assert capture.process.wait(timeout=60) == 0


@pytest.mark.drawn(1)
@pytest.mark.parametrize("commanded", [False, True], ids=["all said", "a command pending"])
def test_stdin_is_answered_while_connecting_takes_long(database: Database, commanded: bool) -> None:
    prepare(database, USERS)
    config = endpoint(database)
    apply(config, BOUND)
    with proxied(str(config["host"]), int(config["port"])) as proxy:
        through = {**config, "host": "127.0.0.1", "port": proxy.port}
        with session(through, BOUND) as capture:
            capture.until(Session.done)
            proxy.stall()
            proxy.reset()
            wait_until(lambda: proxy.connections > 0, 20, "it connects, and hears nothing for a long time")
            if commanded:
                capture.send({"control": {"sequence": 1, "action": "pause", "tables": ["public.users"]}})
                said = "command 1: pause"
                wait_until(lambda: any(said in line["message"] for line in capture.logs), 8, "the command is answered")
            assert capture.process.stdin is not None
            capture.process.stdin.close()
            assert capture.process.wait(timeout=14) == (1 if commanded else 0), "an attempt may take 15 seconds"
            if commanded:  # No checkpoint has it, so that would be no clean end.
                wait_until(lambda: capture.logs[-1]["fields"].get("code") == "TM-CAP-006", 60, "the last line says why")


def test_the_end_of_stdin_inside_a_transaction_is_no_clean_end_while_the_source_is_away(database: Database) -> None:
    with stalled_in_a_transaction(database) as (proxy, capture):
        proxy.reset()
        wait_until(lambda: told(capture, "TM-PG-020"), 20, "the outage is told")
        assert capture.process.stdin is not None
        capture.process.stdin.close()
        assert capture.finish() == 1
        wait_until(lambda: capture.logs[-1]["fields"].get("code") == "TM-CAP-006", 60, "the last line says why")
        assert capture.documents == [] and capture.pending > 0
    with session(endpoint(database), BOUND, capture.state, stop=True) as again:
        assert again.finish() == 0
        assert len(again.documents) == 100000, "what came after the last checkpoint comes again"


@contextmanager
def stalled_in_a_transaction(database: Database) -> Iterator[tuple[TcpProxy, Session]]:
    """A capture that has a part of a transaction of 100,000 rows, and a proxy that holds back the rest."""
    prepare(database, USERS)
    config = endpoint(database)
    apply(config, BOUND)
    with (
        proxied(str(config["host"]), int(config["port"])) as proxy,
        session({**config, "host": "127.0.0.1", "port": proxy.port}, BOUND) as capture,
    ):
        capture.until(Session.done)
        prepare(database, "INSERT INTO users SELECT i, repeat('x', 200) FROM generate_series(1, 100000) i")
        capture.until(lambda c: c.pending > 1000)
        proxy.stall()
        yield proxy, capture


def away(capture: Session) -> bool:
    return any(line.get("fields", {}).get("away_seconds") for line in capture.logs if "eventType" in line)


def lose_the_slot(database: Database, config: Json) -> None:
    """Drops the slot that a capture streams from, before it can connect anew."""
    with database.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots WHERE slot_name = %s AND active",
            [config["slot"]],
        )
        connection.execute("SELECT pg_drop_replication_slot(%s)", [config["slot"]])


ANOTHER_RUNTIME = {"TIDEMARK_RUNTIME": ""}
TWO = bindings("public.users", "public.others")


def test_a_lost_position_starts_over_where_that_is_wanted(database: Database) -> None:
    prepare(database, USERS, FILL, "CREATE TABLE others (id int PRIMARY KEY)", "INSERT INTO others VALUES (1), (2)")
    config = endpoint(database, on_lost_position="backfill")
    apply(config, TWO)
    with session(config, TWO, stop=True) as capture:
        assert capture.finish() == 0
    prepare(database, "DELETE FROM users WHERE id > 900")
    drop_slot(database, config["slot"])
    # What is deleted while there is no slot can be told by nobody: the tables are emptied first.
    prepare(database, "DELETE FROM users WHERE id > 800", "DELETE FROM others WHERE id = 1")
    with session(config, TWO, capture.state, stop=True) as again:
        again.documents = list(capture.documents)
        assert again.finish() == 0
        assert again.rows(0) == table_rows(database)
        assert again.rows(1) == table_rows(database, "SELECT id FROM others")
        lost = [line for line in again.logs if line.get("fields", {}).get("code") == "TM-PG-015"]
        assert lost and lost[0]["level"] == "warning"
        assert "public.users" in lost[0]["message"] and "public.others" in lost[0]["message"]


def test_a_position_that_is_lost_while_capturing_starts_over_in_the_same_session(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database, on_lost_position="backfill")
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        lose_the_slot(database, config)
        prepare(database, "DELETE FROM users WHERE id > 700", "UPDATE users SET name = 'new' WHERE id < 10")
        capture.until(lambda c: told(c, "TM-PG-015"))
        capture.until(lambda c: c.done() and c.rows() == table_rows(database))
        prepare(database, "INSERT INTO users VALUES (-1, 'followed')")
        capture.until(lambda c: c.rows() == table_rows(database))


def test_a_lost_position_where_nothing_can_be_emptied_is_warned_of(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database, on_lost_position="backfill", truncate="ignore")
    apply(config, BOUND)
    with session(config, BOUND, stop=True, env=ANOTHER_RUNTIME) as capture:
        assert capture.finish() == 0
    drop_slot(database, config["slot"])
    with session(config, BOUND, capture.state, stop=True, env=ANOTHER_RUNTIME) as again:
        assert again.finish() == 0
        assert again.rows() == table_rows(database)
        assert any("public.users is read again without being emptied" in line["message"] for line in again.logs)


def test_a_position_that_is_lost_while_capturing_ends_the_session_otherwise(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        lose_the_slot(database, config)
        assert capture.finish() == 1
        assert capture.logs[-1]["fields"]["code"] == "TM-PG-015"
