"""Whether a log goes on from a position: on its own server, after resets and purges, and on other servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from tests.captures.log_reader import plain
from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.table_chunks import run
from tidemark.captures.contract.errors import LostPosition
from tidemark.captures.mysql.log.connection import StreamLimits
from tidemark.captures.mysql.log.resumption import continued, end_position, retained_from, server_identity
from tidemark.captures.mysql.server.session import Session, connect
from tidemark.captures.mysql.terms.config import EndpointConfig, parse_endpoint
from tidemark.captures.mysql.terms.position import LogPosition, parse_position
from tidemark.protocol.errors import SourceError
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import Database, no_source
from tidemark.testing.servers.mariadb_server import MariaDbServer, installed_programs


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[MariaDbServer, MariaDbServer]]:
    """A primary and a replica of it by GTID."""
    programs = installed_programs()
    if programs is None:
        pytest.skip(no_source())
    with ExitStack() as stack:
        primary = stack.enter_context(MariaDbServer(programs, server_id=11))
        replica = stack.enter_context(MariaDbServer(programs, server_id=12))
        replica.replicate(primary)
        yield primary, replica


@pytest.fixture
def primary(servers: tuple[MariaDbServer, MariaDbServer]) -> Iterator[Session]:
    with closing(connect(config_of(servers[0]))) as session:
        yield session


@pytest.fixture
def replica(servers: tuple[MariaDbServer, MariaDbServer]) -> Iterator[Session]:
    with closing(connect(config_of(servers[1]))) as session:
        yield session


def config_of(server: MariaDbServer) -> EndpointConfig:
    return parse_endpoint({"host": server.host, "port": server.port, "user": server.user, "password": server.password})


def lost(session: Session, stored: LogPosition, code: str, *, of: Session | None = None) -> str:
    """The message of the error that the position must lead to."""
    with pytest.raises(LostPosition) as caught:
        go_on(session, stored, of=of)
    assert caught.value.code == code
    return caught.value.message


def go_on(session: Session, stored: LogPosition, *, of: Session | None = None) -> LogPosition:
    """Goes on at a position of this server, or of another one."""
    config = parse_endpoint({"host": "here", "user": "cdc"})
    return continued(session, config, parse_position(str(stored)), server_identity(of or session))


def write(session: Session, count: int = 1) -> None:
    session.rows("CREATE TABLE IF NOT EXISTS test.h (n INT)")
    for _ in range(count):
        session.rows("INSERT INTO test.h VALUES (1)")


@pytest.fixture(scope="module", autouse=True)
def schema(servers: tuple[MariaDbServer, MariaDbServer]) -> None:
    with closing(connect(config_of(servers[0]))) as session:
        session.rows("CREATE DATABASE test")


def test_a_position_is_gone_on_with_on_its_own_server(primary: Session) -> None:
    write(primary)
    stored = end_position(primary)
    assert stored.gtids and go_on(primary, stored) == stored
    write(primary, 3)
    primary.rows("FLUSH BINARY LOGS")
    write(primary)
    assert go_on(primary, stored) == stored
    assert end_position(primary).order > stored.order


def test_a_statement_in_any_character_set_may_follow_the_position(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with captured_log(binlog_database, "t") as log:
        state, identity = str(log.log.log_position), log.source.identity()
    with closing(binlog_database.connect(charset="latin1")) as connection, connection.cursor() as cursor:
        cursor.execute("ALTER TABLE t COMMENT 'é'")
    run(binlog_database, "INSERT INTO t VALUES (1)")
    with captured_log(binlog_database, "t", cursor=state, identity=identity) as log:
        assert plain(log.read()) == [("c", {"id": 1})]


def test_events_of_any_size_may_lie_before_the_position(primary: Session) -> None:
    text = "repeat('x', 12 * 1024 * 1024)"
    primary.rows("CREATE TABLE test.wide (a LONGTEXT, b LONGTEXT)")
    primary.rows(f"INSERT INTO test.wide VALUES ({text}, {text})")
    stored = end_position(primary)
    assert go_on(primary, stored) == stored
    write(primary)
    assert go_on(primary, stored) == stored


def test_a_replica_goes_on_by_gtid(primary: Session, replica: Session) -> None:
    write(primary, 2)
    stored = end_position(primary)
    write(primary)
    wanted = primary.value("SELECT @@gtid_binlog_pos")
    wait_until(lambda: replica.value("SELECT @@gtid_slave_pos") == wanted, 60, "the replica has caught up")
    assert go_on(replica, stored, of=primary) == LogPosition("", 0, stored.gtids)


def test_a_replica_that_lacks_transactions_is_refused(primary: Session, replica: Session) -> None:
    write(primary)
    stored = end_position(primary)
    domain, server, number = stored.gtids.split("-")
    ahead = replace(stored, gtids=f"{domain}-{server}-{int(number) + 1000}")
    assert ahead.gtids in lost(replica, ahead, "TM-MY-016", of=primary)
    foreign = replace(stored, gtids=f"{domain}-99-5")
    assert "another server" in lost(replica, foreign, "TM-MY-016", of=primary)


def test_purged_logs_are_found(primary: Session, replica: Session) -> None:
    write(primary)
    stored = end_position(primary)
    primary.rows("FLUSH BINARY LOGS")
    write(primary)
    primary.rows("FLUSH BINARY LOGS")
    write(primary)
    latest = str(primary.rows("SHOW MASTER STATUS")[0][0])
    wait_until(lambda: _purged(primary, latest), 20, "the server lets go of its files")
    assert "purged" in lost(primary, stored, "TM-MY-015")
    assert "purged" in lost(primary, stored, "TM-MY-015", of=replica)
    assert go_on(primary, end_position(primary)) == end_position(primary)


def _purged(session: Session, latest: str) -> bool:
    # A file stays while it may be needed for recovery, or is being sent.
    session.rows("FLUSH BINARY LOGS")
    session.rows("PURGE BINARY LOGS TO %s", str(session.rows("SHOW MASTER STATUS")[0][0]))
    return all(str(row[0]) > latest for row in session.rows("SHOW BINARY LOGS"))


def test_a_position_at_the_end_of_what_was_purged_is_gone_on_with(primary: Session) -> None:
    write(primary)
    stored = end_position(primary)
    latest = stored.file
    wait_until(lambda: _purged(primary, latest), 20, "the server lets go of its files")
    assert go_on(primary, stored) == LogPosition("", 0, stored.gtids)
    write(primary)
    assert go_on(primary, stored) == LogPosition("", 0, stored.gtids)


def test_a_domain_that_the_server_forgets_is_not_missed() -> None:
    programs = installed_programs()
    assert programs is not None
    # A server of its own, since a replica would never again have the GTIDs of its primary.
    with MariaDbServer(programs, server_id=15) as server, closing(connect(config_of(server))) as session:
        session.rows("CREATE DATABASE test")
        session.rows("SET SESSION gtid_domain_id = 7")
        write(session)
        session.rows("SET SESSION gtid_domain_id = 0")
        write(session)
        with_domain = end_position(session)
        assert "7-" in with_domain.gtids
        latest = with_domain.file
        wait_until(lambda: _purged(session, latest), 20, "the server lets go of its files")
        session.rows("FLUSH BINARY LOGS DELETE_DOMAIN_ID = (7)")
        write(session)
        end = end_position(session)
        assert "7-" not in end.gtids
        # A capture that has read up to here still knows of the domain.
        number = end.gtids.rpartition("-")[2]
        reading = replace(end, gtids=re.sub(r"(0-\d+)-\d+", rf"\1-{number}", with_domain.gtids))
        assert "7-" in reading.gtids and go_on(session, reading) == end
        other = replace(reading, gtids=reading.gtids.replace(f"-{number}", f"-{int(number) - 1}"))
        lost(session, other, "TM-MY-016")


def test_without_gtids_only_the_file_counts(primary: Session) -> None:
    write(primary)
    end = replace(end_position(primary), gtids="")
    assert go_on(primary, end) == end
    base, _, number = end.file.rpartition(".")
    assert "reset" in lost(primary, replace(end, file=f"{base}.{int(number) + 1:06d}"), "TM-MY-016")
    assert "purged" in lost(primary, replace(end, file=f"{base}.000000"), "TM-MY-015")
    lost(primary, replace(end, offset=end.offset + 1), "TM-MY-016")
    lost(primary, replace(end, offset=end.offset - 1), "TM-MY-016")
    with pytest.raises(LostPosition) as caught:
        continued(primary, parse_endpoint({"host": "here", "user": "cdc"}), end, {"server_id": 999})
    assert caught.value.code == "TM-MY-016"


def test_a_log_that_was_reset_is_found() -> None:
    programs = installed_programs()
    assert programs is not None
    with MariaDbServer(programs, server_id=13) as server, closing(connect(config_of(server))) as session:
        session.rows("CREATE DATABASE test")
        write(session, 5)
        stored = end_position(session)
        assert retained_from(session, stored).size == 0
        session.rows("RESET MASTER")
        assert retained_from(session, stored).size is None, "it ends before the position"
        for position in (stored, replace(stored, file=f"{stored.file[:-1]}9")):
            assert "reset" in retained_from(session, position).by
        lost(session, stored, "TM-MY-016")
        session.rows("CREATE TABLE test.other (n INT)")
        write(session, 20)
        # The file is there again, and longer than it was, and the numbers of transactions begin anew.
        lost(session, stored, "TM-MY-016")


def test_a_log_that_is_reset_while_it_is_read_is_found() -> None:
    """MariaDB goes on sending heartbeats from the end of the file that it deleted, and nothing else."""
    programs = installed_programs()
    assert programs is not None
    with MariaDbServer(programs, server_id=14) as server:
        database = Database(server.host, server.port, server.user, server.password, server=server, name="shop")
        with closing(database.connect("")) as admin, admin.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
        for rows in (1, 500):  # the new log ends before the place where the old one was read to, or beyond it
            run(database, "CREATE OR REPLACE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
            with captured_log(database, "t", limits=StreamLimits(heartbeat=1)) as log:
                run(database, "DELETE FROM t")
                assert len(log.read()) == 2
                run(database, "RESET MASTER", f"INSERT INTO t SELECT seq FROM seq_1_to_{rows}")
                with pytest.raises(SourceError) as caught:
                    wait_until(lambda log=log: log.read_once().lines, 20, "the log goes on")  # type: ignore[misc]
                assert caught.value.code == "TM-MY-020"
                with pytest.raises(LostPosition) as lost_it:
                    log.log.reconnect()
                    wait_until(lambda log=log: log.read_once().lines, 20, "the log goes on")  # type: ignore[misc]
                assert lost_it.value.code == "TM-MY-016"
