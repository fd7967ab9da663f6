"""Events that are not rows, built byte by byte from the formats' documentation."""

from __future__ import annotations

import struct
import zlib
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.captures.mysql.log import events
from tidemark.captures.mysql.log.open_transaction import Control, control
from tidemark.captures.mysql.log.transaction_payload import payload_events
from tidemark.captures.mysql.server.replication import stream_failure
from tidemark.protocol.errors import SourceError

SERVER = UUID("3e11fa47-71ca-11e1-9e33-c80aa9429562")


def variable(value: int) -> bytes:
    """MySQL's integer of variable length: as many trailing ones as bytes follow the first."""
    for more in range(8):
        if value < 1 << 7 * (more + 1):
            return (value << more + 1 | (1 << more) - 1).to_bytes(more + 1, "little")
    return b"\xff" + value.to_bytes(8, "little")


def field(number: int, *values: int) -> bytes:
    return variable(number) + b"".join(map(variable, values))


def tagged_gtid(tag: str, number: int, time: int) -> bytes:
    """A GTID_TAGGED_LOG event's body; signed integers have their sign in the lowest bit."""
    fields = field(0, 1) + field(1, *SERVER.bytes) + field(2, number << 1)
    fields += variable(3) + variable(len(tag)) + tag.encode()
    fields += field(4, 10 << 1) + field(5, 11 << 1) + field(6, time) + field(8, 500) + field(9, 80300)
    rest = variable(0) + fields
    size = len(rest) + 2
    return variable(1) + variable(size) + rest


def test_gtids_of_mysql() -> None:
    body = b"\x01" + SERVER.bytes + struct.pack("<qBqq", 4711, 2, 1, 2)
    assert events.read_gtid(body) == events.Gtid(f"{SERVER}:4711")
    time = 1_700_000_000_123_456
    assert events.read_gtid(body + time.to_bytes(7, "little")) == events.Gtid(f"{SERVER}:4711", time)
    with_original = (time | 1 << 55).to_bytes(7, "little") + time.to_bytes(7, "little")
    assert events.read_gtid(body + with_original).commit_time == time
    assert events.read_gtid(b"\x01" + bytes(16) + struct.pack("<qBqq", 0, 2, 1, 2)).text == ""


@pytest.mark.parametrize("number", [1, 63, 64, 4711, 1 << 40, (1 << 63) - 2])
@pytest.mark.parametrize("tag", ["", "blue_1", "a" * 32])
def test_tagged_gtids(tag: str, number: int) -> None:
    time = 1_700_000_000_123_456
    text = f"{SERVER}:{tag}:{number}" if tag else f"{SERVER}:{number}"
    assert events.read_tagged_gtid(tagged_gtid(tag, number, time)) == events.Gtid(text, time)


@given(st.integers(0, (1 << 64) - 1))
def test_integers_of_variable_length(value: int) -> None:
    assert events._variable(variable(value) + b"rest", 0) == (value, len(variable(value)))


def test_the_documentation_of_integers_of_variable_length() -> None:
    # The examples of MySQL's serialization library, there with the highest byte first.
    assert events._variable(bytes((0b11111011, 0b11111111, 0b00000111)), 0) == (65535, 3)
    assert [
        events._signed(events._variable(bytes(octets), 0)[0])
        for octets in ((0b11110011, 0xFF, 0x0F), (0b11101011, 0xFF, 0x0F), (0b11111011, 0xFF, 0x0F))
    ] == [65535, -65535, -65536]


def test_gtids_of_mariadb() -> None:
    begins = events.read_mariadb_gtid(struct.pack("<QIB", 77, 3, 4), 12)
    assert begins == events.Gtid("3-12-77", None, begins=True)
    assert not events.read_mariadb_gtid(struct.pack("<QIB", 77, 3, 1), 12).begins
    xid = struct.pack("<IBB", 1, 2, 3) + b"gtbqu"
    assert events.read_mariadb_gtid(struct.pack("<QIB", 77, 3, 64) + xid, 12).prepares


@pytest.mark.parametrize(("flags", "before"), [(1, b""), (3, bytes(8)), (65, struct.pack("<IBB", 1, 2, 3) + b"gtbqu")])
def test_alters_of_mariadb_in_two_groups(flags: int, before: bytes) -> None:
    """The second byte of flags: after the number of a commit and the XID, where there are such."""
    head = struct.pack("<QIB", 77, 3, flags) + before
    found = [events.read_mariadb_gtid(head + bytes([more]), 12).undecided for more in (0, 1, 2, 4, 8, 3)]
    assert found == [False, False, True, False, True, True]
    assert not events.read_mariadb_gtid(head, 12).undecided


def query_body(schema: bytes, text: bytes) -> bytes:
    variables = b"\x00\x01\x02\x03\x04"
    return struct.pack("<IIBHH", 7, 0, len(schema), 0, len(variables)) + variables + schema + b"\0" + text


def test_queries() -> None:
    assert events.read_query(query_body(b"shop", b"TRUNCATE t"))[:2] == ("shop", b"TRUNCATE t")
    text = b"ALTER TABLE t ADD c INT" * 20
    compressed = b"\x82" + len(text).to_bytes(2, "big") + zlib.compress(text)
    assert events.read_compressed_query(query_body(b"", compressed))[:2] == ("", text)
    with pytest.raises(ValueError):
        events.inflate(b"\x82\x00\x01" + zlib.compress(b"two"))
    load = query_body(b"d", b"LOAD DATA INFILE 'x' INTO TABLE t")
    assert events.read_load_query(load[:13] + bytes(13) + load[13:]) == events.read_query(load)


def test_the_character_set_of_a_statement() -> None:
    before = b"\0" + bytes(4) + b"\x01" + bytes(8) + b"\x06\x03std" + b"\x02\x01x\0" + b"\x03" + bytes(4)
    assert events.client_collation(before + b"\x04\x1c\x00" + bytes(4)) == 28
    assert events.client_collation(before) is None
    assert events.client_collation(b"\x63" + before) is None


def test_rotations_heartbeats_and_xa() -> None:
    assert events.read_rotate(struct.pack("<Q", 4) + b"binlog.000002") == ("binlog.000002", 4)
    assert events.read_heartbeat_v2(b"\x01\x03b.1\x02\x09\xfe" + struct.pack("<Q", 5 << 32) + b"\0") == ("b.1", 5 << 32)
    body = b"\x01" + struct.pack("<iII", -1, 2, 1) + b"abZ"
    assert events.read_xa_prepare(body) == (True, "x'6162',x'5a',-1")
    statement = control(b"XA COMMIT X'6162',X'5A',-1")
    assert statement is not None and statement == (Control.XA_COMMIT, "x'6162',x'5a',-1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"BEGIN", Control.BEGIN),
        (b"COMMIT", Control.COMMIT),
        (b"commit /* later */", Control.COMMIT),
        (b"ROLLBACK", Control.ROLLBACK),
        (b"ROLLBACK TO `s`", Control.ROLLBACK_TO),
        (b"SAVEPOINT `s`", Control.SAVEPOINT),
        (b"XA START X'01',X'',1", Control.XA_START),
        (b"XA ROLLBACK X'01',X'',1", Control.XA_ROLLBACK),
        (b"CREATE TABLE begin (a INT)", None),
        (b"COMMITTED", None),
    ],
)
def test_control(text: bytes, expected: Control | None) -> None:
    found = control(text)
    assert (found.control if found is not None else None) is expected


def event(kind: int, body: bytes) -> bytes:
    return struct.pack("<IBIIIH", 1_700_000_000, kind, 1, 19 + len(body), 0, 0) + body


def payload(inner: bytes, compression: bytes, data: bytes) -> bytes:
    def number(value: int) -> bytes:
        return b"\xfe" + struct.pack("<Q", value)

    return b"\x01\x09" + number(len(data)) + b"\x02" + compression + b"\x03\x09" + number(len(inner)) + b"\x00" + data


def bodies(body: bytes, piece: int = 1 << 30) -> list[bytes]:
    """Of the events of a payload, of which the first hundred bytes are there, and then a piece from time to time."""
    pieces = [body[:100], *(body[at : at + piece] for at in range(100, len(body), piece))]
    arriving = (part for each in pieces for part in (each, None))
    events = [event for event in payload_events(arriving) if event is not None]
    assert all(text[:] == data.decode("latin-1") for data, text, *_ in events)
    return [data[start:end] for data, _, start, end, *_ in events]


def test_payloads_that_are_not_compressed() -> None:
    inner = event(2, b"one") + event(30, b"two" * 5)
    assert bodies(payload(inner, b"\x03\xfc\xff\x00", inner)) == [b"one", b"two" * 5]
    with pytest.raises(SourceError) as caught:
        bodies(payload(inner, b"\x03\xfc\xff\x00", inner[:-1]))
    assert caught.value.code == "TM-MY-049"
    with pytest.raises(SourceError) as caught:
        bodies(payload(inner, b"\x01\x05", inner))
    assert caught.value.code == "TM-MY-044"


def test_compressed_payloads() -> None:
    zstd = pytest.importorskip("backports.zstd")
    inner = b"".join(event(30, bytes([n]) * 50_000) for n in range(40))
    whole = payload(inner, b"\x01\x00", zstd.compress(inner))
    for piece in (1, 7, 1 << 30):
        assert bodies(whole, piece) == [bytes([n]) * 50_000 for n in range(40)]
    with pytest.raises(SourceError) as caught:
        bodies(payload(inner, b"\x01\x00", b"not zstd"))
    assert caught.value.code == "TM-MY-049"
    with pytest.raises(SourceError) as caught:
        bodies(payload(inner, b"\x01\x00", zstd.compress(inner)[:-9]))
    assert caught.value.code == "TM-MY-049"


@pytest.mark.parametrize(
    ("number", "message", "code"),
    [
        (1236, "Could not find first log file name in binary log index file", "TM-MY-015"),
        (
            1236,
            "Cannot replicate because the source purged required binary logs. Replicate the missing transactions from",
            "TM-MY-015",
        ),
        (1236, "Client requested source to start replication from position > file size", "TM-MY-016"),
        (1236, "Slave has more GTIDs than the master has, using the master's SERVER_UUID.", "TM-MY-016"),
        (1236, "Client requested master to start replication from impossible position", "TM-MY-016"),
        (
            1236,
            "A replica with the same server_uuid/server_id as this replica has connected to the source",
            "TM-MY-042",
        ),
        (1236, "log event entry exceeded max_allowed_packet; Increase max_allowed_packet on source", "TM-MY-043"),
        (1227, "Access denied; you need the REPLICATION SLAVE privilege", "TM-MY-006"),
        (1236, "binlog truncated in the middle of event", "TM-MY-020"),
        (1317, "Query execution was interrupted", "TM-MY-020"),
    ],
)
def test_what_the_end_of_a_stream_means(number: int, message: str, code: str) -> None:
    error = stream_failure(number, message, 99, "'cdc'@'%'")
    assert error.code == code and message[:20] in error.message


def test_the_databases_that_a_statement_uses() -> None:
    """Behind every variable that MySQL writes before them, by ``Query_event`` of its sources."""
    before = (
        b"\0" + bytes(4) + b"\1" + bytes(8) + b"\2\3std\0" + b"\3" + bytes(4) + b"\4" + bytes(6) + b"\5\6SYSTEM"
        b"\6\3std" + b"\7\0\0" + b"\x08\0\0" + b"\x09" + bytes(8) + b"\x0a" + bytes(4) + b"\x0b\4user\x09localhost"
    )  # fmt: skip
    assert events.used_databases(before + b"\x0c\2shop\0\xc3\xa9\0" + b"\x12\xff\0") == ["shop", "é"]
    assert events.used_databases(before + b"\x0c\xfe" + b"\x12\xff\0") is None
    assert events.used_databases(before) is None and events.used_databases(b"") is None
    assert events.client_collation(before) == 0
