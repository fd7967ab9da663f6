"""Any date of the log's binary form, or of a chunk, keeps to its format in a document, or is a bad value."""

from __future__ import annotations

import sys
from datetime import date, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.log.test_stream import global_setting
from tests.captures.mysql.table_chunks import documents, run, table_chunks
from tests.captures.session import Session, bindings, session
from tidemark.backfill.keys import TouchedKeys
from tidemark.captures.mysql.rows import table_map
from tidemark.captures.mysql.rows.chunk_decoder import RepairedRows, compile_chunk_decoder
from tidemark.captures.mysql.rows.log_decoder import DELETE, INSERT, UPDATE, RowDecoder
from tidemark.captures.mysql.rows.partial_rows import RepairedImage
from tidemark.captures.mysql.rows.row_images import DecodedTable
from tidemark.captures.mysql.rows.row_loops import Sink
from tidemark.captures.mysql.rows.table_map import LoggedColumn
from tidemark.captures.mysql.terms.columns import Column
from tidemark.captures.tables.bad_values import BadValues, Repairs
from tidemark.protocol.errors import SourceError
from tidemark.testing.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]

PARTS = st.tuples(st.integers(0, 9999), st.integers(0, 12), st.integers(0, 31))
"""Year, month and day, as the server may keep them under any sql_mode."""

CLOCKS = st.tuples(st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))

Parts = tuple[int, int, int]


def is_a_day(parts: Parts) -> bool:
    try:
        return date(*parts) is not None
    except ValueError:
        return False


def columns(policy: Any) -> list[Column]:
    return [
        Column("id", "int", nullable=False),
        Column("day", "date", on_bad_value=policy),
        Column("at", "datetime", fraction=0, on_bad_value=policy),
    ]


LOGGED = [LoggedColumn(table_map.LONG), LoggedColumn(table_map.DATE), LoggedColumn(table_map.DATETIME2, 0, 0)]


def image(number: int, day: Parts, moment: Parts, clock: Parts) -> bytes:
    """A row image without NULLs, by MySQL's ``my_time.cc``."""
    packed_day = (day[0] << 9 | day[1] << 5 | day[2]).to_bytes(3, "little")
    year_month = moment[0] * 13 + moment[1]
    packed = (year_month << 5 | moment[2]) << 17 | clock[0] << 12 | clock[1] << 6 | clock[2]
    return b"\0" + number.to_bytes(4, "little") + packed_day + (packed + (1 << 39)).to_bytes(5, "big")


def decoder(policy: Any) -> RowDecoder:
    made = columns(policy)
    return RowDecoder(0, DecodedTable(tuple(LOGGED), tuple(made), (0,), (made[0],)), "shop.t")


def decode(rows: RowDecoder, kind: str, images: list[bytes]) -> list[dict[str, Any]]:
    body = b"\x03" + b"\x07" * (2 if kind == UPDATE else 1) + b"".join(images)
    sink = Sink([], TouchedKeys(), [])
    rows.decode(kind, body, body.decode("latin-1"), 0, len(body), ('{"cursor":"log:4:', '"}'), 0, sink)
    return [orjson.loads(line)["captured"]["doc"] for line in b"".join(sink.lines).splitlines()]


def keeps_to_its_format(document: dict[str, Any]) -> bool:
    for name, read in (("day", date.fromisoformat), ("at", datetime.fromisoformat)):
        if document[name] is not None:
            try:
                read(document[name])
            except ValueError:
                return False
    return True


def text(parts: Parts) -> str:
    return f"{parts[0]:04d}-{parts[1]:02d}-{parts[2]:02d}"


@given(PARTS, PARTS, CLOCKS, st.sampled_from(["text", "clamp", "null", "quarantine", "stop"]))
def test_any_day_from_log_and_chunk(day: Parts, moment: Parts, clock: Parts, policy: Any) -> None:
    good = image(1, (2024, 2, 29), (9999, 12, 31), (23, 59, 59))
    log = decoder(policy)
    time = ":".join(f"{part:02d}" for part in clock)
    fields = ["2", text(day), f"{text(moment)} {time}"]
    packet = b"".join(len(field).to_bytes(1, "little") + field.encode() for field in fields)
    chunk = compile_chunk_decoder(columns(policy), ["id"], table="shop.t")
    fine = is_a_day(day) and is_a_day(moment)
    try:
        found = decode(log, INSERT, [good, image(2, day, moment, clock), good])
    except BadValues as error:
        assert policy == "stop" and not fine
        bad = {name for name, parts in (("day", day), ("at", moment)) if not is_a_day(parts)}
        assert set(error.columns) == bad and error.key == b"2"
        with pytest.raises(BadValues) as raised:
            chunk([packet], 0)
        assert raised.value.columns == error.columns and raised.value.key == b"2"
        return
    assert fine or policy != "stop"
    assert [document["id"] for document in found] == [1, 2, 1]
    assert all(keeps_to_its_format(document) for document in found) or policy == "text"
    bad = found[1]["_meta"].pop("bad", None)
    assert (bad is not None) == (policy == "quarantine" and not fine)
    del found[1]["_meta"]
    (tail,), (key,) = chunk([packet], 0)
    head = b'{"captured":{"binding":0,"doc":{"_meta":{"op":"c","source":{"cursor":"'
    line = orjson.loads(head + tail)["captured"]["doc"]
    assert line.pop("_meta").get("bad") == bad
    assert (line, key) == (found[1], b"2")
    if fine or policy == "text":
        assert (line["day"], line["at"]) == (text(day), f"{text(moment)}T{time}")


def test_updates_and_deletes() -> None:
    """What only the old image has does not keep an event apart."""
    log = decoder("quarantine")
    zero, fine = image(1, (0, 0, 0), (2024, 1, 1), (0, 0, 0)), image(1, (2024, 1, 2), (2024, 1, 1), (0, 0, 0))
    moved = image(2, (0, 0, 0), (2024, 1, 1), (0, 0, 0))
    mended, worse = decode(log, UPDATE, [zero, fine, fine, zero])
    assert "bad" not in mended["_meta"] and mended["_meta"]["before"]["day"] is None and mended["day"] == "2024-01-02"
    assert worse["_meta"]["bad"] == {"day": "0000-00-00"} and worse["_meta"]["before"]["day"] == "2024-01-02"
    gone, come = decode(log, UPDATE, [zero, moved])
    assert (gone["_meta"]["op"], gone["id"], "bad" in gone["_meta"]) == ("d", 1, False)
    assert (come["_meta"]["op"], come["id"], "bad" in come["_meta"]) == ("c", 2, True)
    (deleted,) = decode(log, DELETE, [zero])
    assert (deleted["_meta"]["op"], deleted["id"], "bad" in deleted["_meta"]) == ("d", 1, False)


@pytest.mark.parametrize("limit", [70, 100, 150, 190])
def test_what_is_left_out_of_a_large_row_is_the_same_from_chunks_and_log(limit: int) -> None:
    """Also where values are equally large, where JSON writes them longer, and with names of any length."""
    made = [Column("id", "int", nullable=False)] + [
        Column(name, "varchar", charset="utf8mb4", length=99, on_bad_value="quarantine")
        for name in ("a", "b" * 30, "c", "d")
    ]
    values = [b"1", b"x" * 40, b"y" * 40, b"\x01" * 8, b"z" * 30]
    table = DecodedTable(
        (LoggedColumn(table_map.LONG), *[LoggedColumn(table_map.VARCHAR, 99)] * 4), tuple(made), (0,), (made[0],)
    )
    repairs = Repairs("shop.t")
    image = RepairedImage(table, range(5), repairs, raw_json=False, marked=True)
    image.limit = limit
    body = b"\0" + (1).to_bytes(4, "little") + b"".join(bytes([len(value)]) + value for value in values[1:])
    members, _, _ = image.parts(body, body.decode("latin-1"), 0)
    logged = orjson.loads("{" + "".join(filter(None, members))[1:] + "}")
    marks = orjson.loads("{" + repairs.mark()[1:] + "}")["bad"]
    rows = RepairedRows(made, ["id"], "shop.t", False, Repairs("shop.t"))
    tail, _ = rows.row(b"".join(bytes([len(value)]) + value for value in values), 0, limit)
    head = b'{"captured":{"binding":0,"doc":{"_meta":{"op":"c","source":{"cursor":"'
    read = orjson.loads(head + tail.encode("latin-1"))["captured"]["doc"]
    assert read.pop("_meta")["bad"] == marks
    assert read == logged and None in logged.values()
    assert set(marks) == {name for name, value in logged.items() if value is None}


def test_json_and_texts(binlog_database: Database) -> None:
    """JSON that is none, and half of a surrogate pair, in MariaDB's JSON; MySQL checks its own."""
    if binlog_database.is_mysql:
        pytest.skip("MySQL checks its JSON type always")
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v JSON, w INT)")
    rows = [
        "SET check_constraint_checks = 0",
        "INSERT INTO t VALUES (1, 'secret {', 0), (2, '\"\\\\ud800\"', 0), (3, '[1]', 0)",
    ]
    with captured_log(binlog_database, "t", on_bad_value={"v": "text"}) as log:
        run(binlog_database, *rows)
        logged = [(document["id"], document["v"]) for document in log.read()]
    assert logged == [(1, "secret {"), (2, '"\\ud800"'), (3, "[1]")]
    with table_chunks(binlog_database, "t", on_bad_value={"v": "text"}) as chunks:
        assert [(row["id"], row["v"]) for row in documents(chunks.read().rows)] == logged
    with table_chunks(binlog_database, "t", on_bad_value="null") as chunks:
        found = chunks.read()
    assert [row["v"] for row in documents(found.rows)] == [None, None, [1]] and found.bad == {"null": 2}
    with table_chunks(binlog_database, "t") as chunks, pytest.raises(SourceError) as raised:
        chunks.read()
    assert raised.value.code == "TM-CAP-020" and "secret" not in str(raised.value)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("policy", ["stop", "null"])
def test_a_row_that_no_line_can_hold(binlog_database: Database, policy: str) -> None:
    """Megabytes of characters that JSON writes with six; binlog and packets of the server hold them."""
    run(
        binlog_database,
        "CREATE TABLE t (id INT PRIMARY KEY, less TEXT, most LONGTEXT)",
        f"INSERT INTO t VALUES (1, 'x', repeat(x'01', {12 * 1024 * 1024})), (2, 'y', 'z')",
    )
    with table_chunks(binlog_database, "t", on_bad_value=policy) as chunks:
        if policy == "stop":
            with pytest.raises(SourceError, match=r"TM-CAP-020: .*\.t: column most: a row takes more"):
                chunks.read()
            return
        assert documents(chunks.read().rows) == [
            {"id": 1, "less": "x", "most": None},
            {"id": 2, "less": "y", "most": "z"},
        ]
    with captured_log(binlog_database, "t", on_bad_value=policy) as log:
        run(binlog_database, f"INSERT INTO t VALUES (3, 'x', repeat(x'01', {12 * 1024 * 1024}))")
        (document,) = log.read()
    assert (document["id"], document["less"], document["most"]) == (3, "x", None)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("policy", ["stop", "null", "quarantine"])
def test_old_rows_that_no_line_can_hold(binlog_database: Database, policy: str) -> None:
    """Written, changed, given another key, and deleted."""
    size = 12 * 1024 * 1024
    run(
        binlog_database,
        "CREATE TABLE t (id INT PRIMARY KEY, less TEXT, most LONGTEXT)",
        "CREATE TABLE s (id INT PRIMARY KEY)",
    )
    with captured_log(binlog_database, "t", "s", on_bad_value=policy) as log:
        run(
            binlog_database,
            f"INSERT INTO t VALUES (1, 'x', repeat(x'01', {size}))",
            "UPDATE t SET less = 'y'",
            "UPDATE t SET id = 11",
            "DELETE FROM t",
            "INSERT INTO t VALUES (5, 'small', 'x')",
            "INSERT INTO s VALUES (1)",
        )
        documents = log.read()
        if policy == "stop":
            assert log.set_aside[0].code == "TM-CAP-020" and "column most: a row " in str(log.set_aside[0])
            assert [document["_meta"]["source"]["table"] for document in documents] == ["s"]
            return
    assert [(document["_meta"]["op"], document["id"]) for document in documents] == [
        ("c", 1), ("u", 1), ("d", 1), ("c", 11), ("d", 11), ("c", 5), ("c", 1)
    ]  # fmt: skip
    assert all(document.get("most") in (None, "x") for document in documents)
    marks = [document["_meta"].get("bad") for document in documents]
    bad = {"most": f"{size} bytes"} if policy == "quarantine" else None
    assert marks == [bad, bad, None, bad, None, None, None]


@pytest.mark.parametrize("text", ["[1.]", r'"it\'s"', r'"\x"', r'"\v"', "[1.e5]", "-0."])
def test_json_that_mariadbs_check_lets_in(mariadb_database: Database, text: str) -> None:
    run(mariadb_database, "CREATE TABLE t (id INT PRIMARY KEY, j JSON)")
    with mariadb_database.connect() as connection, connection.cursor() as cursor:
        for policy, expected in (("null", None), ("text", text)):
            cursor.execute("DELETE FROM t")
            with captured_log(mariadb_database, "t", on_bad_value={"j": policy}) as log:
                cursor.execute("INSERT INTO t VALUES (1, %s)", [text])
                assert log.read()[-1]["j"] == expected
            with table_chunks(mariadb_database, "t", on_bad_value={"j": policy}) as chunks:
                assert documents(chunks.read().rows) == [{"id": 1, "j": expected}]
        cursor.execute("DELETE FROM t")
        with captured_log(mariadb_database, "t") as log:
            cursor.execute("INSERT INTO t VALUES (1, %s)", [text])
            log.read()
            assert log.set_aside[0].code == "TM-CAP-020" and not log.lines


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
def test_texts_that_were_no_json_before_the_column_was(mariadb_database: Database, metadata: str) -> None:
    """They are read by what the column is now: the table is read again, rather than set aside for its values."""
    run(mariadb_database, "CREATE TABLE t (id INT PRIMARY KEY, j LONGTEXT CHARACTER SET utf8mb4)")
    with (
        global_setting(mariadb_database, "binlog_row_metadata", f"'{metadata}'"),
        captured_log(mariadb_database, "t") as log,
    ):
        run(
            mariadb_database,
            "ALTER TABLE t ADD x INT",
            "INSERT INTO t VALUES (1, 'no JSON', 1)",
            "UPDATE t SET j = '[]'",
            "ALTER TABLE t MODIFY j JSON",
            "INSERT INTO t VALUES (2, '{}', 2)",
        )
        assert log.read()[-1]["j"] == {}
        assert log.restarted | log.to_read_again == {0} and not log.set_aside


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
def test_texts_that_were_no_json_before_the_column_was_while_away(mariadb_database: Database, metadata: str) -> None:
    """They hold up neither their table nor the others, though the policy is to stop."""
    with global_setting(mariadb_database, "binlog_row_metadata", f"'{metadata}'"):
        run(
            mariadb_database,
            "CREATE TABLE t (id INT PRIMARY KEY, j LONGTEXT CHARACTER SET utf8mb4)",
            "CREATE TABLE other (id INT PRIMARY KEY)",
            "INSERT INTO t VALUES (0, 'no JSON')",
        )
        bound = bindings(f"{mariadb_database.name}.t", f"{mariadb_database.name}.other")
        with session(mariadb_database.config(), bound, command=COMMAND) as first:
            first.until(Session.done)
        run(
            mariadb_database,
            "INSERT INTO t VALUES (1, 'no JSON')",
            "UPDATE t SET j = '[]'",
            "ALTER TABLE t MODIFY j JSON",
            "INSERT INTO t VALUES (2, '{}')",
            "INSERT INTO other VALUES (1)",
        )
        expected = {(0,): {"id": 0, "j": []}, (1,): {"id": 1, "j": []}, (2,): {"id": 2, "j": {}}}
        with session(mariadb_database.config(), bound, first.state, command=COMMAND) as second:
            second.documents[:0] = first.documents
            second.until(lambda c: c.done() and c.rows(0) == expected and (1,) in c.rows(1))


@pytest.mark.parametrize(
    ("charset", "stored"),
    [
        ("ucs2", "d83dde00"),  # a pair is one character
        ("ucs2", "0041d83ddc00d83dde000042"),
        ("ucs2", "d83d"),
        ("ucs2", "de00d83d"),
        ("ucs2", "0041de00"),
        ("ucs2", "d7ffe000ffff"),
        ("utf32", "0000d83d0000de00"),  # MariaDB lets them in
    ],
)
def test_halves_of_surrogate_pairs_are_the_same_from_chunks_and_log(
    binlog_database: Database, charset: str, stored: str
) -> None:
    if binlog_database.is_mysql and charset == "utf32":
        pytest.skip("MySQL refuses them")
    run(
        binlog_database,
        f"CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET {charset})",
        f"INSERT INTO t VALUES (1, _{charset} x'{stored}')",
    )
    for policy in ("text", "null", "quarantine", "stop"):
        with captured_log(binlog_database, "t", on_bad_value=policy) as log:
            run(binlog_database, "DELETE FROM t", f"INSERT INTO t VALUES (1, _{charset} x'{stored}')")
            logged = log.read()
            aside = log.set_aside.get(0)
        with table_chunks(binlog_database, "t", on_bad_value=policy) as chunks:
            try:
                (read,) = documents(chunks.read().rows)
            except BadValues as error:
                assert isinstance(aside, BadValues) and error.columns == aside.columns
                continue
        assert aside is None and logged[-1]["v"] == read["v"]


def test_json_is_nested_no_deeper_than_any_parser_takes(mariadb_database: Database) -> None:
    """As on PostgreSQL. MariaDB's own JSON is less deep, but its check can be switched off."""

    def insert(key: int, levels: int) -> None:
        nested = f"CONCAT(REPEAT('[', {levels}), REPEAT(']', {levels}))"
        run(mariadb_database, "SET check_constraint_checks = 0", f"INSERT INTO t VALUES ({key}, {nested})")

    run(mariadb_database, "CREATE TABLE t (id INT PRIMARY KEY, j JSON)")
    with captured_log(mariadb_database, "t") as log, table_chunks(mariadb_database, "t") as chunks:
        insert(1, 500)
        (logged,), (read,) = log.read(), documents(chunks.read().rows)
        assert logged["j"] == read["j"]
    with captured_log(mariadb_database, "t") as log, table_chunks(mariadb_database, "t") as chunks:
        insert(2, 501)
        log.read()
        with pytest.raises(BadValues, match=r"j: .* deeper than 500") as refused:
            chunks.read()
        assert isinstance(error := log.set_aside[0], BadValues) and error.columns == refused.value.columns
