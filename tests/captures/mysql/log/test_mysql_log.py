"""What MySQL writes and MariaDB does not, over the wire: sets of GTIDs, tags, compressed and XA transactions."""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

import orjson
import pytest

from tests.captures.mysql.binlog_server import SERVER_UUID, BinlogServer, LogWriter, binlog_server, event, query
from tests.captures.mysql.log.test_events import SERVER, payload, tagged_gtid
from tests.captures.mysql.rows.test_table_map import option, strings, table_map_body
from tidemark.captures.contract.errors import LostPosition
from tidemark.captures.contract.log import LogBatch, Transaction
from tidemark.captures.contract.table_changes import TableChange
from tidemark.captures.contract.table_events import RowsAffected
from tidemark.captures.mysql.chunks.snapshot_scans import SnapshotScans
from tidemark.captures.mysql.log import events
from tidemark.captures.mysql.log.connection import LIMITS, BinlogConnection, StreamLimits
from tidemark.captures.mysql.log.stream import BinlogLog
from tidemark.captures.mysql.server.session import connect
from tidemark.captures.mysql.tables.bindings import BoundTable
from tidemark.captures.mysql.tables.captured_tables import CapturedTables
from tidemark.captures.mysql.tables.noted_tables import ColumnIdentities
from tidemark.captures.mysql.tables.table_changes import NOT_UNDERSTOOD, ROLLED_BACK, ROWS_WITHOUT_EVENTS
from tidemark.captures.mysql.terms.columns import Column, Table
from tidemark.captures.mysql.terms.config import parse_endpoint, parse_resource
from tidemark.captures.mysql.terms.gtid import MysqlGtids
from tidemark.captures.mysql.terms.position import LogPosition
from tidemark.captures.mysql.values.charsets import Charsets
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import JsonObject
from tidemark.testing.deadline import wait_until

COLUMNS = (Column("id", "int"), Column("v", "varchar", charset="utf8mb4", length=4))
TABLE_MAP = table_map_body(
    [(3, b""), (15, b"\x10\x00")], option(1, b"\x00") + option(2, b"\xfc\xff\x00") + option(4, strings("id", "v"))
)
BOUND = BoundTable(
    0,
    "t",
    parse_resource({"schema": "shop", "table": "t"}),
    Table("shop", "t", COLUMNS, ("id",), "PRIMARY", False, "InnoDB", True),
    emit_truncate=True,
    tinyint1_as_bool=False,
)


class KnownCharsets(Charsets):
    """Those that the tests use, without a server that knows the others."""

    def of_collation(self, number: int) -> str:
        return {8: "latin1", 63: "binary", 255: "utf8mb4"}[number]


def unasked() -> NoReturn:
    raise AssertionError("these tests ask no server")


class OneTable(CapturedTables):
    """``shop.t``, as binding 0."""

    def __init__(self) -> None:
        self.charsets = KnownCharsets(unasked)
        self.config = parse_endpoint({"host": "h", "user": "u", "password": "p", "truncate": "emit"})

    def bound(self, schema: str, table: str) -> BoundTable | None:
        return BOUND if (schema, table) == ("shop", "t") else None

    def left_out(self, schema: str, table: str) -> int | None:
        return None

    def captures(self, binding: int) -> bool:
        return binding == 0

    def in_schema(self, schema: str) -> list[str]:
        return ["t"] if schema == "shop" else []

    def leave_out(self, binding: int) -> None:
        raise AssertionError("no table of these tests is set aside")

    def refresh(self, binding: int, filled: Collection[str] = ()) -> BoundTable | SourceError:
        return BOUND

    def adopt(self, binding: int, columns: tuple[Column, ...]) -> tuple[BoundTable, JsonObject | None]:
        assert columns == COLUMNS
        return BOUND, None

    @property
    def identified(self) -> bool:
        return False

    def identities(self, binding: int) -> ColumnIdentities:
        return ColumnIdentities()

    def rows_replaced(self, binding: int) -> None:
        return

    def misled(self, position: int) -> list[BoundTable]:
        return []

    def __getitem__(self, binding: int) -> BoundTable:
        return BOUND

    def table_now(self, binding: int) -> Table | None:
        return BOUND.table

    def doubted(self, position: int) -> list[BoundTable]:
        return []

    def end_of_log(self) -> int:
        return 1 << 60

    def without_prepared(self) -> set[int]:
        return set()

    def still_prepared(self) -> frozenset[str]:
        return frozenset()


def rows(*ids: int, text: bytes = b"x") -> bytes:
    """A WRITE_ROWS event's body, version 2."""
    images = b"".join(b"\xfc" + struct.pack("<i", number) + bytes([len(text)]) + text for number in ids)
    return TABLE_MAP[:6] + b"\x01\x00" + b"\x02\x00" + b"\x02\xff" + images


def gtid(number: int) -> bytes:
    time = 1_700_000_000_000_000 + number
    return b"\x01" + SERVER.bytes + struct.pack("<qBqq", number, 2, number - 1, number) + time.to_bytes(7, "little")


def insert(log: LogWriter, number: int, *ids: int) -> None:
    log.add(events.GTID, gtid(number))
    log.add(events.QUERY, query(b"BEGIN"))
    log.add(events.TABLE_MAP, TABLE_MAP)
    log.add(events.WRITE_ROWS, rows(*ids))
    log.add(events.XID, bytes(8))


class Reader:
    def __init__(self, log: BinlogLog) -> None:
        self.log = log
        self.batches: list[LogBatch] = []
        self._wakeup, self._waker = os.pipe()

    def read(self, end: int | None = None) -> list[dict[str, Any]]:
        """Everything up to the offset ``end``; without one until an error comes."""
        lines: list[bytes] = []

        def there() -> bool:
            batch = self.log.read(1 << 20, 0.05, self._wakeup)
            self.batches.append(batch)
            lines.extend(b"".join(batch.lines).splitlines())
            return end is not None and self.log.position >= LogPosition("binlog.000001", end).order

        wait_until(there, 20, "the log is read to its end", every=0)
        return [orjson.loads(line)["captured"]["doc"] for line in lines]

    @property
    def transactions(self) -> list[Transaction]:
        return [transaction for batch in self.batches for transaction in batch.transactions]

    @property
    def emptied(self) -> set[int]:
        """The bindings that are to be emptied and read again."""
        return {event.binding for batch in self.batches for event in batch.events if batch.empties(event.binding)}

    @property
    def affected(self) -> list[RowsAffected]:
        return [event for batch in self.batches for event in batch.events if isinstance(event, RowsAffected)]

    def close(self) -> None:
        self.log.close()
        os.close(self._wakeup)
        os.close(self._waker)


START = LogPosition("binlog.000001", 4, f"{SERVER}:1-10")


@contextmanager
def reading(server: BinlogServer, start: LogPosition = START, limits: StreamLimits = LIMITS) -> Iterator[Reader]:
    config = parse_endpoint({"host": "127.0.0.1", "port": server.port, "user": "u", "password": "p"})

    def connected(position: LogPosition) -> BinlogConnection:
        return BinlogConnection(connect(config), 99, position, limits=limits)

    tables, in_snapshot = OneTable(), SnapshotScans(unasked).leaves_out
    reader = Reader(BinlogLog(connected, start, tables, in_snapshot, mariadb=False, limits=limits))
    try:
        yield reader
    finally:
        reader.close()


def test_gtid_sets_are_asked_for_and_kept() -> None:
    log = LogWriter()
    log.add(events.PREVIOUS_GTIDS, MysqlGtids(START.gtids).encode())
    insert(log, 11, 1, 2)
    log.add(events.GTID_TAGGED, tagged_gtid("blue", 3, 1_700_000_000_000_000))
    log.add(events.QUERY, query(b"BEGIN"))
    log.add(events.TABLE_MAP, TABLE_MAP)
    log.add(events.WRITE_ROWS, rows(3))
    log.add(events.XID, bytes(8))
    log.add(events.GTID, gtid(12))
    log.add(events.QUERY, query(b"TRUNCATE TABLE t"))
    with binlog_server(log.packets) as server, reading(server) as reader:
        documents = reader.read(log.offset)
        assert [document["_meta"]["op"] for document in documents] == ["c", "c", "c", "t"]
        sources = [document["_meta"]["source"] for document in documents]
        assert [s["txid"] for s in sources] == [f"{SERVER}:11"] * 2 + [f"{SERVER}:blue:3", f"{SERVER}:12"]
        assert sources[0]["ts_ms"] == 1_700_000_000_000
        assert [t.txn for t in reader.transactions] == [f"{SERVER}:11", f"{SERVER}:blue:3", f"{SERVER}:12"]
        assert reader.log.log_position == LogPosition("binlog.000001", log.offset, f"{SERVER}:1-12:blue:3")
        (dump,) = server.dumps
        encoded = MysqlGtids(START.gtids).encode()
        assert dump == b"\x1e" + struct.pack("<HIIQI", 4, 99, 0, 4, len(encoded)) + encoded
        assert SERVER_UUID not in "".join(server.settings)
        assert any("source_heartbeat_period" in setting for setting in server.settings)


def test_compressed_transactions_and_many_events_in_one_place() -> None:
    inner = event(events.QUERY, query(b"BEGIN")) + event(events.TABLE_MAP, TABLE_MAP)
    inner += event(events.WRITE_ROWS, rows(1, 2)) + event(events.WRITE_ROWS, rows(3)) + event(events.XID, bytes(8))
    log = LogWriter()
    log.add(events.GTID, gtid(11))
    log.add(events.TRANSACTION_PAYLOAD, payload(inner, b"\x03\xfc\xff\x00", inner))
    end = log.offset
    insert(log, 12, 4)
    with binlog_server(log.packets) as server, reading(server) as reader:
        documents = reader.read(log.offset)
        assert [document["id"] for document in documents] == [1, 2, 3, 4]
        places = [document["_meta"]["source"]["cursor"].rpartition(":") for document in documents]
        assert len({place for place, _, _ in places[:3]}) == 1 and [number for _, _, number in places] == [
            "0",
            "1",
            "2",
            "0",
        ]
        assert reader.log.position == reader.log.log_position.order > LogPosition("binlog.000001", end).order
        assert [t.txn for t in reader.transactions] == [f"{SERVER}:11", f"{SERVER}:12"]


def test_a_compressed_transaction_that_takes_several_packets() -> None:
    """Its events come while it arrives, and what follows it comes after it."""
    inner = event(events.QUERY, query(b"BEGIN")) + event(events.TABLE_MAP, TABLE_MAP)
    inner += event(events.WRITE_ROWS, rows(1)) + event(events.ROWS_QUERY, bytes(40 << 20))
    inner += event(events.WRITE_ROWS, rows(2)) + event(events.XID, bytes(8))
    log = LogWriter()
    log.add(events.GTID, gtid(11))
    log.add(events.TRANSACTION_PAYLOAD, payload(inner, b"\x03\xfc\xff\x00", inner))
    insert(log, 12, 4)
    assert len(log.packets[-6]) > 1 << 24
    with binlog_server(log.packets) as server, reading(server) as reader:
        assert [document["id"] for document in reader.read(log.offset)] == [1, 2, 4]
        assert [t.txn for t in reader.transactions] == [f"{SERVER}:11", f"{SERVER}:12"]
        first, *others = (len(batch.lines) for batch in reader.batches if batch.lines)
        assert (first, sum(others)) == (1, 2)  # The rest had not arrived yet, and came at once or not.


def test_a_compressed_transaction_that_is_damaged_behind_rows() -> None:
    """They are out by then: its tables are read again, and it is not taken for committed."""
    zstd = pytest.importorskip("backports.zstd")
    inner = event(events.QUERY, query(b"BEGIN")) + event(events.TABLE_MAP, TABLE_MAP)
    inner += event(events.WRITE_ROWS, rows(1)) + event(events.WRITE_ROWS, rows(2))
    inner += event(events.ROWS_QUERY, os.urandom(17 << 20)) + event(events.XID, bytes(8))
    packed = zstd.compress(inner)
    log = LogWriter()
    log.add(events.GTID, gtid(11))
    log.add(events.TRANSACTION_PAYLOAD, payload(inner, b"\x01\x00", packed[:-100] + bytes(100)))
    with binlog_server(log.packets) as server, reading(server) as reader:
        with pytest.raises(SourceError) as caught:
            reader.read(log.offset)
        assert caught.value.code == "TM-MY-049"
        assert [line for batch in reader.batches for line in batch.lines]
        assert reader.emptied == {0}
        assert not reader.transactions and not reader.log.between_transactions


def test_xa_transactions_of_mysql() -> None:
    log = LogWriter()
    for number, ending in ((11, b"kept"), (12, b"dropped")):
        xid = f"X'{ending.hex()}',X'',1".encode()
        log.add(events.GTID, gtid(number))
        log.add(events.QUERY, query(b"XA START " + xid))
        log.add(events.TABLE_MAP, TABLE_MAP)
        log.add(events.WRITE_ROWS, rows(number))
        log.add(events.QUERY, query(b"XA END " + xid))
        log.add(events.XA_PREPARE, b"\0" + struct.pack("<iII", 1, len(ending), 0) + ending)
    log.add(events.GTID, gtid(13))
    log.add(events.QUERY, query(b"XA COMMIT X'6b657074',X'',1"))
    log.add(events.GTID, gtid(14))
    log.add(events.QUERY, query(b"XA ROLLBACK X'64726f70706564',X'',1"))
    with binlog_server(log.packets) as server, reading(server) as reader:
        (document,) = reader.read(log.offset)
        assert document["id"] == 11 and document["_meta"]["source"]["txid"] == f"{SERVER}:13"
        assert reader.log.log_position == LogPosition("binlog.000001", log.offset, f"{SERVER}:1-14")


@pytest.mark.parametrize("held_bytes", [1 << 20, 200, 1])  # of which many small events take more than their rows
def test_xa_transactions_that_are_committed_in_one_phase(held_bytes: int) -> None:
    log = LogWriter()
    log.add(events.GTID, gtid(11))
    log.add(events.QUERY, query(b"XA START X'01',X'',1"))
    log.add(events.TABLE_MAP, TABLE_MAP)
    log.add(events.WRITE_ROWS, rows(1, 2))
    log.add(events.WRITE_ROWS, rows(3))
    log.add(events.QUERY, query(b"XA END X'01',X'',1"))
    log.add(events.XA_PREPARE, b"\1" + struct.pack("<iII", 1, 1, 0) + b"\1")
    insert(log, 12, 4)
    with binlog_server(log.packets) as server, reading(server, limits=StreamLimits(held_bytes=held_bytes)) as reader:
        assert [document["id"] for document in reader.read(log.offset)] == [1, 2, 3, 4]
        assert [t.txn for t in reader.transactions] == [f"{SERVER}:11", f"{SERVER}:12"]
        assert reader.log.log_position == LogPosition("binlog.000001", log.offset, f"{SERVER}:1-12")
        assert len(server.dumps) == (1 if held_bytes > 200 else 3)


@pytest.mark.parametrize("held_bytes", [1 << 20, 1])
def test_an_xa_transaction_that_takes_rows_back(held_bytes: int) -> None:
    log = LogWriter()
    log.add(events.GTID, gtid(11))
    log.add(events.QUERY, query(b"XA START X'01',X'',1"))
    log.add(events.TABLE_MAP, TABLE_MAP)
    log.add(events.WRITE_ROWS, rows(1))
    log.add(events.QUERY, query(b"ROLLBACK TO `s`"))
    log.add(events.QUERY, query(b"XA END X'01',X'',1"))
    log.add(events.XA_PREPARE, b"\0" + struct.pack("<iII", 1, 1, 0) + b"\1")
    with binlog_server(log.packets) as server, reading(server, limits=StreamLimits(held_bytes=held_bytes)) as reader:
        assert reader.read(log.offset) == []
        assert reader.emptied == {0}


def test_offsets_beyond_four_gigabytes() -> None:
    log = LogWriter()
    insert(log, 11, 1)
    log.offset += 3 << 30  # as when the server leaves out what this replica has
    insert(log, 12, 2)
    log.offset += 3 << 30
    insert(log, 13, 3)
    with binlog_server(log.packets) as server, reading(server) as reader:
        documents = reader.read(log.offset)
        assert reader.log.position == LogPosition("binlog.000001", log.offset).order
        assert log.offset > 6 << 30
        assert int(documents[2]["_meta"]["source"]["cursor"].split(":")[1]) > 6 << 30


def test_a_position_without_gtids_beyond_what_the_protocol_has_room_for() -> None:
    log = LogWriter()
    insert(log, 11, 1)
    log.offset += 3 << 30
    insert(log, 12, 2)
    log.offset += 3 << 30
    offset = log.offset
    insert(log, 13, 3)
    with binlog_server(log.packets) as server, reading(server, LogPosition("binlog.000001", offset)) as reader:
        assert [document["id"] for document in reader.read(log.offset)] == [3]
        assert server.dumps == [b"\x12" + struct.pack("<IHI", 4, 0, 99) + b"binlog.000001"]
        at = reader.log.log_position
        assert (at.file, at.offset, at.gtids) == ("binlog.000001", log.offset, "")
    insert(log, 14, 4)
    # It goes on from the event before, which must be what it was, in a file that was made when it was.
    with binlog_server(log.packets) as server, reading(server, at) as reader:
        assert [document["id"] for document in reader.read(log.offset)] == [4]
    assert at.last is not None
    for other in ({"checksum": 1}, {"created": 1_700_000_001}, {"start": at.last.start - 1}):
        another = replace(at, last=at.last._replace(**other))
        with (
            binlog_server(log.packets) as server,
            reading(server, another) as reader,
            pytest.raises(LostPosition, match="TM-MY-016"),
        ):
            reader.read()


def test_a_transaction_that_the_server_did_not_finish_is_replaced_by_a_backfill() -> None:
    log = LogWriter()
    log.add(events.GTID, gtid(11))
    log.add(events.QUERY, query(b"BEGIN"))
    log.add(events.TABLE_MAP, TABLE_MAP)
    log.add(events.WRITE_ROWS, rows(1))
    insert(log, 12, 2)
    with binlog_server(log.packets) as server, reading(server) as reader:
        reader.read(log.offset)
        assert reader.emptied == {0}
        assert {event.cause.name for event in reader.affected} == {ROLLED_BACK.name}
        assert [t.txn for t in reader.transactions] == [f"{SERVER}:12"]


def test_heartbeats_move_the_position_and_unknown_events_do_not_pass_silently() -> None:
    log = LogWriter()
    insert(log, 11, 1)
    log.add(events.HEARTBEAT, b"binlog.000001", log_position=log.offset)
    beyond = struct.pack("<Q", log.offset + 1000)
    log.add(events.HEARTBEAT_V2, b"\x01\x0dbinlog.000001\x02\x09\xfe" + beyond + b"\0", log_position=0)
    with binlog_server(log.packets) as server, reading(server) as reader:
        assert len(reader.read(log.offset + 1000)) == 1
    log.add(222, b"", flags=events.IGNORABLE_FLAG)
    log.add(223, b"")
    with binlog_server(log.packets) as server, reading(server) as reader:
        with pytest.raises(SourceError) as caught:
            reader.read()
        assert caught.value.code == "TM-MY-044" and "223" in caught.value.message


@pytest.mark.parametrize(("kind", "code"), [(events.INCIDENT, "TM-MY-048")])
def test_lost_events_are_an_error(kind: int, code: str) -> None:
    log = LogWriter()
    log.add(kind, b"\x01\x00\x00")
    with binlog_server(log.packets) as server, reading(server) as reader, pytest.raises(SourceError) as caught:
        reader.read()
    assert caught.value.code == code


def test_the_servers_reason_comes_after_what_it_sent() -> None:
    log = LogWriter()
    insert(log, 11, 1)
    error = b"\xff" + struct.pack("<H", 1236) + b"#HY000A replica with the same server_uuid/server_id has connected"
    with binlog_server(log.packets, error) as server, reading(server) as reader:
        with pytest.raises(SourceError) as caught:
            reader.read()
        assert caught.value.code == "TM-MY-042"
        assert [t.txn for t in reader.transactions] == [f"{SERVER}:11"]


@pytest.mark.parametrize(
    ("statement", "cause"),
    [
        (b"FROBNICATE TABLE t", NOT_UNDERSTOOD),
        (b"ALTER TABLE t FROB", NOT_UNDERSTOOD),
        (b"ALTER IGNORE TABLE t FROB", NOT_UNDERSTOOD),
        (b"ALTER TABLE t TRUNCATE PARTITION p", ROWS_WITHOUT_EVENTS),
    ],
)
def test_a_statement_that_is_not_understood_is_named_as_one(statement: bytes, cause: TableChange) -> None:
    log = LogWriter()
    log.add(events.GTID, gtid(11))
    log.add(events.QUERY, query(statement))
    with binlog_server(log.packets) as server, reading(server) as reader:
        reader.read(log.offset)
        assert reader.affected == [RowsAffected(0, cause.cause())]


@pytest.mark.parametrize("gone", [b"DROP TABLE t", b"RENAME TABLE t TO u", b"DROP DATABASE shop", b""])
def test_a_table_that_is_made_where_it_is_not_there(gone: bytes) -> None:
    """The server logs that statement also where it does nothing."""
    log = LogWriter()
    statements = [gone] if gone else []
    for number, statement in enumerate([*statements, b"CREATE TABLE IF NOT EXISTS t (id INT)"], 11):
        log.add(events.GTID, gtid(number))
        log.add(events.QUERY, query(statement))
    with binlog_server(log.packets) as server, reading(server) as reader:
        reader.read(log.offset)
        assert reader.emptied == ({0} if gone else set())
