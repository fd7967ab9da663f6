"""What only MariaDB has: an encrypted log, domains of GTIDs, a source that is a replica and applies in parallel."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.captures.log_reader import plain
from tests.captures.mysql.captured_log import CapturedLog, captured_log
from tests.captures.mysql.table_chunks import run
from tests.captures.session import replay
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import MARIADB, Database, no_source
from tidemark.testing.servers.mariadb_server import MariaDbServer, installed_programs

WRITERS = 4


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, Database]]:
    """A primary whose log is encrypted, if this build can do that, and a replica that applies in parallel."""
    programs = installed_programs()
    if programs is None:
        pytest.skip(no_source(MARIADB))
    keys: Path = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("1;" + "5a" * 32 + "\n")
    parallel = {"slave_parallel_threads": "4", "slave_parallel_mode": "optimistic"}
    with ExitStack() as stack:
        second = stack.enter_context(MariaDbServer(programs, server_id=42, settings=parallel))
        with second.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @@plugin_dir")
            (plugins,) = cursor.fetchone()
        encryption = {
            "plugin_load_add": "file_key_management",
            "file_key_management_filename": str(keys),
            "encrypt_binlog": "on",
        }
        settings = encryption if (Path(plugins) / "file_key_management.so").exists() else {}
        servers = [stack.enter_context(MariaDbServer(programs, server_id=41, settings=settings)), second]
        servers[1].replicate(servers[0])
        primary, replica = (Database(s.host, s.port, s.user, s.password, "MariaDB", s, "shop") for s in servers)
        with primary.connect("") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
        run(primary, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE m (id INT PRIMARY KEY) ENGINE = Aria")
        in_step(primary, replica)
        yield primary, replica


def position(database: Database) -> set[str]:
    with database.connect("") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@gtid_binlog_pos")
        (found,) = cursor.fetchone()
    return set(found.split(","))


def in_step(primary: Database, replica: Database) -> None:
    wait_until(lambda: position(primary) == position(replica), 30, "the replica has everything")


def rows(database: Database) -> dict[tuple[int], int]:
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, v FROM t")
        return {(key,): value for key, value in cursor.fetchall()}


def captured_rows(log: CapturedLog) -> dict[tuple[int], int]:
    return {key: row["v"] for key, row in replay(iter(log.documents), ["id"]).items()}


def write(database: Database, writer: int) -> None:
    """Small transactions in a domain of the writer's own, on rows of its own."""
    with database.connect(autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute(f"SET gtid_domain_id = {writer % 3}")
        for number in range(40):
            key = writer * 100 + number % 10
            cursor.execute(f"INSERT INTO t VALUES ({key}, {number}) ON DUPLICATE KEY UPDATE v = v + 1")
            if number % 3 == 0:
                cursor.execute(f"DELETE FROM t WHERE id = {writer * 100 + number % 7}")
            connection.commit()


def test_an_encrypted_log_is_read_from_any_position(pair: tuple[Database, Database]) -> None:
    primary, _ = pair
    with primary.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT plugin_status FROM information_schema.plugins WHERE plugin_name = 'file_key_management'")
        if not cursor.fetchall():
            pytest.skip("this build comes without file_key_management")
    positions = []
    with captured_log(primary, "t", "m") as log:
        run(primary, "DELETE FROM t")
        log.read()
        before = len(log.lines)
        for statements in (
            ["SET STATEMENT binlog_annotate_row_events = ON FOR INSERT INTO t VALUES (1, 1)"],
            ["SET STATEMENT sort_buffer_size = 100000, max_statement_time = 100 FOR UPDATE t SET v = 2"],
            ["BEGIN", "INSERT INTO m VALUES (1)", "INSERT INTO t VALUES (2, 2)", "COMMIT"],
            ["FLUSH BINARY LOGS", "DELETE FROM m", "DELETE FROM t"],
        ):
            run(primary, *statements)
            log.read()
            positions.append((len(log.lines), str(log.log.log_position)))
        assert sorted(str(document) for document in plain(log.documents[before:])) == sorted(
            str(document)
            for document in (
                ("c", {"id": 1, "v": 1}),
                ("u", {"id": 1, "v": 2}),
                ("c", {"id": 1}),
                ("c", {"id": 2, "v": 2}),
                ("d", {"id": 1}),
                ("d", {"id": 1, "v": 2}),
                ("d", {"id": 2, "v": 2}),
            )
        )
        lines = list(log.lines)
    for count, text in positions:
        for cursor_text in (text, text.partition(";")[0] + ";"):
            with captured_log(primary, "t", "m", cursor=cursor_text) as log:
                log.read()
                assert log.lines == lines[count:]


def test_domains_that_a_replica_applies_in_parallel(pair: tuple[Database, Database]) -> None:
    primary, replica = pair
    in_step(primary, replica)
    run(primary, "DELETE FROM t")
    in_step(primary, replica)
    with captured_log(replica, "t") as log:
        threads = [threading.Thread(target=write, args=(primary, writer)) for writer in range(WRITERS)]
        for thread in threads:
            thread.start()
        states = []
        while any(thread.is_alive() for thread in threads):
            log.read_once()
            if log.log.between_transactions:
                states.append((len(log.lines), str(log.log.log_position)))
        for thread in threads:
            thread.join()
        in_step(primary, replica)
        log.read()
        assert captured_rows(log) == rows(primary) == rows(replica)
        assert len({str(transaction.txn).partition("-")[0] for transaction in log.transactions}) == 3
        assert not log.restarted
        identity, lines, documents = log.source.identity(), list(log.lines), list(log.documents)
        states.append((len(lines), str(log.log.log_position)))
    # From the middle, at the same server: the same again.
    count, state = states[len(states) // 2]
    with captured_log(replica, "t", cursor=state) as log:
        log.read()
        assert log.lines == lines[count:]
    # From there, at the primary, whose log has the domains in another order: every transaction once.
    with captured_log(primary, "t", cursor=state, identity=identity) as log:
        log.read()
        assert sorted(map(txid, log.lines)) == sorted(map(txid, lines[count:]))
        log.documents[:0] = documents[:count]
        assert captured_rows(log) == rows(primary)


def txid(line: bytes) -> bytes:
    return line.partition(b'"txid":"')[2].partition(b'"')[0]
