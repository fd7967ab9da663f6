"""Any date and any timestamp gives a document that keeps to its format, or is a bad value; and what becomes of it."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.captures.postgres.both_ways import BothWays, document
from tests.captures.postgres.captured_table import captured, operation
from tidemark.captures.contract.chunk_rows import TAIL_MARK
from tidemark.captures.postgres.catalog.columns import Column, ColumnType
from tidemark.captures.postgres.chunks.row_decoder import ChunkDecoder
from tidemark.captures.postgres.rows.generated_source import MISFITS
from tidemark.captures.postgres.rows.log_decoder import RelationColumn, compile_log_decoder
from tidemark.captures.postgres.tables.document_schema import document_schema
from tidemark.captures.postgres.values.types import DATE, JSON, NUMERIC, TIMESTAMP, TIMESTAMPTZ, column_conversion
from tidemark.captures.tables.bad_values import BadValue, BadValues, Policies
from tidemark.protocol.errors import SourceError
from tidemark.testing.servers.postgres import Database

NAMES = {DATE: "date", TIMESTAMP: "timestamp without time zone", TIMESTAMPTZ: "timestamp with time zone"}


def column(oid: int, name: str = "v", policy: Any = "stop", typmod: int = -1) -> Column:
    return Column(name, ColumnType(oid, typmod, NAMES.get(oid, str(oid)), "base"), on_bad_value=policy)


def keeps_to_its_format(oid: int, text: str) -> bool:
    """RFC 3339, by the standard library; a timestamp without a zone has no offset."""
    try:
        if oid == DATE:
            return len(text) == 10 and date.fromisoformat(text) is not None
        if oid == TIMESTAMPTZ:
            return text.endswith("Z") and datetime.fromisoformat(text).tzinfo is not None
        return datetime.fromisoformat(text).tzinfo is None and "T" in text
    except ValueError:
        return False


YEARS = st.integers(1, 5_874_897) | st.integers(1, 12_000) | st.sampled_from([1, 9999, 10_000])
DAYS = st.builds("{:04d}-{:02d}-{:02d}".format, YEARS, st.integers(1, 12), st.integers(1, 28))
CLOCKS = st.builds(
    "{:02d}:{:02d}:{:02d}{}".format, *(st.integers(0, n) for n in (23, 59, 59)), st.sampled_from(["", ".5", ".000001"])
)
ERAS = st.sampled_from(["", "", " BC"])
TEXTS = {
    DATE: st.builds("{}{}".format, DAYS, ERAS),
    TIMESTAMP: st.builds("{} {}{}".format, DAYS, CLOCKS, ERAS),
    TIMESTAMPTZ: st.builds("{} {}+00{}".format, DAYS, CLOCKS, ERAS),
}  # as the server writes them


@given(st.data())
def test_any_moment_keeps_to_its_format_or_is_bad(data: st.DataObject) -> None:
    oid = data.draw(st.sampled_from(sorted(TEXTS)))
    text = data.draw(TEXTS[oid] | st.sampled_from(["infinity", "-infinity"]))
    convert = column_conversion(column(oid)).convert
    ordinary = re.match(r"\d{4}-", text) is not None and not text.endswith(" BC")
    try:
        made = orjson.loads(convert(text))
    except BadValue as bad:
        assert not ordinary
        assert bad.nearest is not None and keeps_to_its_format(oid, orjson.loads(convert(bad.nearest)))
        assert text not in str(bad) or text == "infinity"
    else:
        assert ordinary and keeps_to_its_format(oid, made)
    # Where the column is text, all of them have their place, and ordinary ones the same one.
    anything = orjson.loads(column_conversion(column(oid, policy="text")).convert(text))
    assert (anything == made) if ordinary else not keeps_to_its_format(oid, anything)


@given(st.data())
def test_chunks_and_log_treat_them_alike(data: st.DataObject) -> None:
    """Under every policy, whatever else is in the row."""
    policy = data.draw(st.sampled_from(["text", "clamp", "null", "quarantine", "stop"]))
    oids = data.draw(st.lists(st.sampled_from(sorted(TEXTS)), min_size=1, max_size=3))
    columns = [column(20, "id"), *(column(oid, f"v{n}", policy) for n, oid in enumerate(oids))]
    values = [data.draw(TEXTS[oid] | st.sampled_from(["infinity", "-infinity", None])) for oid in oids]
    row: list[str | None] = ["7", *values]
    line = "\t".join("\\N" if value is None else value for value in row).encode() + b"\n"
    relation = [RelationColumn(c.name, c.type.oid, -1, c.name == "id") for c in columns]
    log = compile_log_decoder(0, columns, relation, ["id"], table="public.t")
    fields = b"".join(b"n" if v is None else b"t%b%b" % (len(v).to_bytes(4, "big"), v.encode()) for v in row)
    message = b"I\0\0\0\1N%b%b" % (len(row).to_bytes(2, "big"), fields)
    head = b'{"captured":{"binding":0,"doc":{"_meta":{"op":"c","source":{"loc":[1,2,3,'
    chunk = ChunkDecoder(columns, ["id"], table="public.t")
    try:
        tails = chunk.decode([line, line]).tails.split(TAIL_MARK)
    except BadValues as error:
        assert policy == "stop"
        with pytest.raises(BadValues) as raised:
            log.insert(message, b"{}")
        assert raised.value.columns == error.columns
        return
    assert [head + tail for tail in tails] == [log.insert(message, b'{"loc":[1,2,3,%d]}' % row) for row in (0, 1)]
    found = orjson.loads(head + tails[0])["captured"]["doc"]
    for n, oid in enumerate(oids):
        assert found[f"v{n}"] is None or policy == "text" or keeps_to_its_format(oid, found[f"v{n}"])
    assert chunk.bad == log.bad


def test_a_policy_leaves_the_key_alone() -> None:
    policies = Policies.of("clamp", None)
    assert policies.column("id", in_key=True) == "stop" and policies.column("v", in_key=False) == "clamp"
    assert Policies.of("null", {"v": "text"}).column("v", in_key=True) == "text"


@pytest.mark.parametrize("policy", ["null", "quarantine", "clamp", "text"])
def test_the_schema_takes_what_the_policy_makes(policy: Any, database: Database) -> None:
    ways = BothWays(database)
    with ways.session:
        ways.execute("CREATE TABLE public.t (id int PRIMARY KEY, d date NOT NULL)")
        table = ways.table("t")
        ways.on_bad_value = policy
        schema = document_schema(table, ways.columns(table), table.key, truncates=False)["properties"]
    assert schema["id"] == {"type": "integer"}
    types = ["string", "null"] if policy in ("null", "quarantine") else "string"
    assert schema["d"] == ({"type": types} if policy == "text" else {"type": types, "format": "date"})
    assert ("bad" in schema["_meta"]["properties"]) == (policy == "quarantine")


@pytest.fixture
def both(database: Database) -> Iterator[BothWays]:
    ways = BothWays(database)
    with ways.session:
        yield ways


def test_all_bad_columns_of_a_chunk_are_named_at_once(both: BothWays) -> None:
    both.execute(
        "CREATE TABLE public.t (id int PRIMARY KEY, a date, b numeric(9,2), c json, d timestamptz[], e numeric,"
        " f daterange)"
    )
    rows = [
        "(1, '2024-01-01', 1, '1', NULL, 'NaN', '[-infinity,infinity]')",
        "(2, 'infinity', 1, '1', NULL, 1, NULL)",
        "(3, NULL, 'NaN', NULL, ARRAY['20000-01-01 00:00Z'::timestamptz], 1, NULL)",
        "(4, '0044-01-01 BC', 1, '\"\\ud800\"', NULL, 1, NULL)",
    ]
    both.execute(f"INSERT INTO public.t VALUES {', '.join(rows)}")
    with pytest.raises(BadValues) as raised:
        both.chunk("t")
    assert set(raised.value.columns) == {"a", "b", "c", "d"}
    assert raised.value.key == b"2"
    assert "on_bad_value: {a: text, b: text, c: text, d: text}" in raised.value.remedy
    for statement in raised.value.find:  # each finds rows
        counted = both.session.execute(f"SELECT count(*) FROM ({statement[:-1]}) found".encode()).fetchone()
        assert counted is not None and counted[0] > 0, statement
    both.on_bad_value = "text"
    lines, _ = both.chunk("t")
    assert sorted(event.lines for event in both.log()) == sorted(lines)
    found = [document(line) for line in lines]
    assert found[2]["d"] == ["+020000-01-01T00:00:00Z"] and found[2]["b"] == "NaN"
    assert found[3]["c"] == '"\\ud800"'


def test_arrays_of_other_dimensions_than_announced(both: BothWays) -> None:
    """The server takes them: what is declared of an array is a comment."""
    both.execute("CREATE TABLE public.t (id int PRIMARY KEY, one int[], two int[][], deep date[])")
    rows = [
        "(1, '{1,2}', '{{1,2},{3,4}}', '{}')",
        "(2, '{{1,2},{3,4}}', '{}', NULL)",
        "(3, '{}', '{1,2}', NULL)",
        "(4, '[2:3]={1,2}', '[0:0][1:1]={{1}}', '{{2024-01-01,infinity}}')",
    ]
    both.execute(f"INSERT INTO public.t VALUES {', '.join(rows)}")
    with pytest.raises(BadValues) as raised:
        both.chunk("t")
    assert set(raised.value.columns) == {"one", "two", "deep"}
    for statement in raised.value.find:
        counted = both.session.execute(f"SELECT array_agg(id) FROM ({statement[:-1]}) found".encode()).fetchone()
        assert counted in [([2],), ([3],), ([4],)], statement
    assert len(raised.value.find) == 3
    both.on_bad_value = "text"
    lines, _ = both.chunk("t")
    assert sorted(event.lines for event in both.log()) == sorted(lines)
    found = [document(line) for line in lines]
    assert [row["one"] for row in found] == [[1, 2], [[1, 2], [3, 4]], [], [1, 2]]
    assert found[3]["deep"] == [["2024-01-01", "infinity"]]


@pytest.mark.parametrize("policy", ["stop", "text"])
def test_arrays_in_a_key_keep_their_bounds(database: Database, policy: str) -> None:
    """Without them two keys would be one."""
    with database.connect() as session:
        session.execute("CREATE TABLE t (k int[] PRIMARY KEY)")
        with captured(database, "public", "t", on_bad_value=policy) as table:
            session.execute("INSERT INTO t VALUES ('{1,2}'), ('[2:3]={1,2}')")
            if policy == "stop":
                with pytest.raises(BadValues, match="column k: an array in the key does not begin with index 1"):
                    table.chunks()
                return
            assert sorted(table.chunks().values()) == [b'{"k":"[2:3]={1,2}"}', b'{"k":"{1,2}"}']


def test_old_images_and_deletes(database: Database) -> None:
    """What only an old row has does not keep an event apart; it is left out."""
    config = {"on_bad_value": "quarantine"}
    with database.connect() as session:
        session.execute("CREATE TABLE t (id int PRIMARY KEY, d date); ALTER TABLE t REPLICA IDENTITY FULL")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TIDEMARK_RUNTIME", "test")
            opened = captured(database, "public", "t", config=config)
            with opened as table:
                session.execute("INSERT INTO t VALUES (1, 'infinity'), (2, 'infinity'), (3, 'infinity')")
                session.execute("UPDATE t SET d = '2024-01-01' WHERE id = 1")
                session.execute("UPDATE t SET id = 5 WHERE id = 3")
                session.execute("DELETE FROM t WHERE id = 2")
                lines = table.log()
    bodies = [orjson.loads(line)["captured"]["doc"] for line in lines]
    assert [operation(line) for line in lines] == [*"cccudcd"]
    assert [("bad" in body["_meta"]) for body in bodies] == [True, True, True, False, False, True, False]
    assert bodies[3] == {**bodies[3], "id": 1, "d": "2024-01-01"} and bodies[3]["_meta"]["before"] == {
        "id": 1,
        "d": None,
    }
    assert [body["id"] for body in bodies[4:]] == [3, 5, 2]


@pytest.mark.heavy
@pytest.mark.parametrize("policy", ["stop", "null", "quarantine"])
def test_a_row_that_no_line_can_hold(database: Database, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few megabytes of characters that JSON writes with six."""
    monkeypatch.setenv("TIDEMARK_RUNTIME", "test")
    size = 12 * 1024 * 1024
    with database.connect() as session:
        session.execute("CREATE TABLE t (id int PRIMARY KEY, less text, most text)")
        with captured(database, "public", "t", on_bad_value=policy) as table:
            session.execute(f"INSERT INTO t VALUES (1, 'x', repeat(E'\\x01', {size})), (2, 'y', 'z')")
            if policy == "stop":
                with pytest.raises(SourceError, match=r"TM-CAP-020: public\.t: column most: a row takes more"):
                    table.chunks()
                return
            read = list(table.chunks().values())
            lines = table.log()
    assert read == [b'{"id":1,"less":"x","most":null}', b'{"id":2,"less":"y","most":"z"}']
    metas = [orjson.loads(line)["captured"]["doc"]["_meta"] for line in lines]
    assert [meta.get("bad") for meta in metas] == [{"most": f"{size} bytes"} if policy == "quarantine" else None, None]


@pytest.mark.heavy
@pytest.mark.drawn(2)
@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
@pytest.mark.parametrize("policy", ["null", "quarantine"])
def test_old_rows_that_no_line_can_hold(
    database: Database, policy: str, identity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changed, given another key, and deleted: none of these stops anything, whatever the log has of the old row."""
    monkeypatch.setenv("TIDEMARK_RUNTIME", "test")
    big = "repeat(E'\\x01', 12 * 1024 * 1024)"
    with database.connect() as session:
        session.execute(
            f"CREATE TABLE t (id int PRIMARY KEY, less text, most text); ALTER TABLE t REPLICA IDENTITY {identity}"
        )
        session.execute("ALTER TABLE t ALTER most SET STORAGE EXTERNAL")
        with captured(database, "public", "t", on_bad_value=policy) as table:
            session.execute(f"INSERT INTO t VALUES (1, 'x', {big})")
            session.execute("UPDATE t SET less = 'y'")
            session.execute(f"UPDATE t SET most = {big} || 'z'")
            session.execute("UPDATE t SET id = 11")
            session.execute("DELETE FROM t")
            session.execute("INSERT INTO t VALUES (5, 'small', 'x')")
            lines = table.log()
    bodies = [orjson.loads(line)["captured"]["doc"] for line in lines]
    assert [(body["_meta"]["op"], body["id"]) for body in bodies] == [
        ("c", 1), ("u", 1), ("u", 1), ("d", 1), ("c", 11), ("d", 11), ("c", 5)
    ]  # fmt: skip
    # What the log leaves out, since it did not change, is no bad value.
    known = {"most": f"{12 * 1024 * 1024} bytes"}, {"most": f"{12 * 1024 * 1024 + 1} bytes"}
    if policy == "quarantine":
        events = [body["_meta"].get("bad") for body in bodies]
        moved = [known[0], known[1], known[1]] if identity == "FULL" else [None, known[1], None]
        assert events == [known[0], *moved[:2], None, moved[2], None, None]
    assert all(body.get("most") in (None, "x") for body in bodies)
    assert [body["_meta"].get("unchanged") for body in bodies[1:5:3]] == [None if identity == "FULL" else ["most"]] * 2


def test_a_text_that_is_no_moment_at_all() -> None:
    """What is not written as its type should be is no value to be let through quietly: it is told like the others."""
    convert = column_conversion(column(DATE)).convert
    for text in ("1/2/2024", "2024-01-01T00:00", ""):
        with pytest.raises(MISFITS) as raised:
            convert(text)
        assert not isinstance(raised.value, BadValue)
    assert column_conversion(column(JSON)).convert("1") == "1"
    assert column_conversion(column(NUMERIC, typmod=-1)).convert("NaN") == '"NaN"'


@pytest.mark.parametrize("day", ["2024-01-01", "infinity"])
def test_the_two_events_of_a_changed_key_have_places_of_their_own(day: str) -> None:
    """Whatever becomes of the row's values: no two events have the same ``loc``."""
    columns = [Column("id", ColumnType(23, -1, "integer", "base")), column(DATE, policy="null")]
    relation = [RelationColumn(each.name, each.type.oid, -1, each.name == "id") for each in columns]
    decoder = compile_log_decoder(0, columns, relation, ["id"])
    tuples = [struct.pack(">h", 2) + b"".join(values) for values in ((_text("1"), b"n"), (_text("2"), _text(day)))]
    lines = decoder.update(b"U" + bytes(4) + b"K%bN%b" % (tuples[0], tuples[1]), b'{"loc":[1,2,3,0]}')
    metas = [orjson.loads(line)["captured"]["doc"]["_meta"] for line in lines.splitlines()]
    assert [(meta["op"], meta["source"]["loc"]) for meta in metas] == [("d", [1, 2, 3, 0]), ("c", [1, 2, 3, 1])]


def _text(value: str) -> bytes:
    """A value in a row message."""
    return b"t" + struct.pack(">i", len(value)) + value.encode()
