"""Row decoders against a model of their own, without a server: every shape of message and row."""

from __future__ import annotations

import ast
import inspect
import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.captures.contract.chunk_rows import KEY_MARK, TAIL_MARK
from tidemark.captures.postgres.catalog.columns import Column, ColumnType
from tidemark.captures.postgres.chunks.row_decoder import ChunkDecoder
from tidemark.captures.postgres.rows.log_decoder import LogDecoder, RelationColumn, compile_log_decoder
from tidemark.protocol.codec import split_captured
from tidemark.protocol.errors import SourceError

UNCHANGED = object()
Row = Sequence[Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

TYPES = {"text": 25, "bigint": 20, "boolean": 16, "timestamp without time zone": 1114, "integer[]": 1007}
SOURCE = b'{"table":"t","loc":[1,2,3,0]}'


def column_type(name: str) -> ColumnType:
    if name == "integer[]":
        return ColumnType(1007, -1, name, "array", element=ColumnType(23, -1, "integer", "base"), dimensions=1)
    return ColumnType(TYPES[name], -1, name, "base")


def text_of(value: Any) -> bytes:
    """As the server prints it."""
    if isinstance(value, bool):
        return b"t" if value else b"f"
    if isinstance(value, list):
        return ("{" + ",".join("NULL" if v is None else str(v) for v in value) + "}").encode()
    return str(value).encode()


def tuple_data(row: Row) -> bytes:
    fields = []
    for value in row:
        if value is None or value is UNCHANGED:
            fields.append(b"n" if value is None else b"u")
        else:
            text = text_of(value)
            fields.append(b"t" + struct.pack(">i", len(text)) + text)
    return struct.pack(">h", len(row)) + b"".join(fields)


def message(kind: bytes, *tuples: tuple[bytes, Row], relation: int = 16384) -> bytes:
    return kind + struct.pack(">I", relation) + b"".join(marker + tuple_data(row) for marker, row in tuples)


def copy_row(row: Row) -> bytes:
    escapes = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
    fields = (
        b"\\N" if value is None else "".join(escapes.get(c, c) for c in text_of(value).decode()).encode()
        for value in row
    )
    return b"\t".join(fields) + b"\n"


def json_of(value: Any) -> Any:
    """What a value is in a document; timestamps are the only ones that are written otherwise."""
    if isinstance(value, Timestamp):
        return value.replace(" ", "T")
    return value


class Timestamp(str):
    """The text of a timestamp."""


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Column], list[RelationColumn], list[str], list[bool]]:
    """Columns, relation, key, and which columns documents have. The identity holds the key."""
    names = draw(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=6, unique=True))
    columns = [Column(name, column_type(draw(st.sampled_from(sorted(TYPES))))) for name in names]
    key = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    others = draw(st.just(set(names)) | st.sets(st.sampled_from(names)))
    relation = [RelationColumn(c.name, c.type.oid, -1, c.name in key or c.name in others) for c in columns]
    emitted = [c.name in key or draw(st.booleans()) for c in columns]
    return columns, relation, key, emitted


SOME_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "text": SOME_TEXT
    | st.text('tnuNKO\\"\n\t', max_size=4)
    | st.sampled_from("tnu").flatmap(lambda c: st.sampled_from([c * size for size in (110, 116, 117, 255, 256)])),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "boolean": st.booleans(),
    "timestamp without time zone": st.datetimes().map(lambda d: Timestamp(d.isoformat(" "))),
    "integer[]": st.lists(st.none() | st.integers(-9, 9), max_size=3),
}


def rows(draw: Draw, columns: Sequence[Column], key: Sequence[str], *, unchanged: bool) -> list[Any]:
    absent = st.sampled_from([None, UNCHANGED] if unchanged else [None])
    return [
        draw(VALUES[c.type.name] if c.name in key else VALUES[c.type.name] | absent if draw(st.booleans()) else absent)
        for c in columns
    ]


def raw_key(columns: Sequence[Column], key: Sequence[str], row: Row) -> bytes:
    by_name = {c.name: value for c, value in zip(columns, row, strict=True)}
    return b"\0".join(text_of(by_name[name]) for name in key)


def expected_document(
    op: str,
    columns: Sequence[Column],
    emitted: Sequence[bool],
    row: Row,
    before: dict[str, Any] | None = None,
    *,
    place: int = 0,
) -> dict[str, Any]:
    shown = [(c.name, value) for c, value, emit in zip(columns, row, emitted, strict=True) if emit]
    unchanged = [name for name, value in shown if value is UNCHANGED]
    meta: dict[str, Any] = {"op": op, "source": {"table": "t", "loc": [1, 2, 3, place]}}
    if before:
        meta["before"] = before
    if unchanged:
        meta["unchanged"] = unchanged
    return {"_meta": meta, **{name: json_of(value) for name, value in shown if value is not UNCHANGED}}


def documents(lines: bytes) -> list[Any]:
    bodies = []
    for line in lines.splitlines(keepends=True):
        captured = split_captured(line)
        assert captured is not None and captured[0] == 3
        assert line == b'{"captured":{"binding":3,"doc":%b}}\n' % captured[1]
        # json keeps members apart that have one name, as orjson does not.
        pairs = json.loads(captured[1], object_pairs_hook=lambda pairs: pairs)
        names = [name for name, _ in pairs]
        assert len(set(names)) == len(names)
        bodies.append(orjson.loads(captured[1]))
    return bodies


@given(st.data())
def test_log(data: st.DataObject) -> None:
    columns, relation, key, emitted = data.draw(tables())
    decoder = compile_log_decoder(
        3, [c if emit else None for c, emit in zip(columns, emitted, strict=True)], relation, key
    )
    whole = all(c.in_key for c in relation)
    draw = data.draw
    new = rows(draw, columns, key, unchanged=False)
    old = rows(draw, columns, key, unchanged=False)
    identity = [value if c.in_key else None for value, c in zip(old, relation, strict=True)]
    marker, shown_old = (b"O", old) if whole and draw(st.booleans()) else (b"K", identity)
    old_emitted = [
        emit and (marker == b"O" or (c.in_key and value is not None))
        for emit, c, value in zip(emitted, relation, shown_old, strict=True)
    ]

    # Insert.
    line, raw = decoder.insert_tracked(message(b"I", (b"N", new)), SOURCE)
    assert line == decoder.insert(message(b"I", (b"N", new)), SOURCE)
    assert documents(line) == [expected_document("c", columns, emitted, new)]
    assert raw == raw_key(columns, key, new)

    # Delete.
    gone = message(b"D", (marker, shown_old))
    line, raw = decoder.delete_tracked(gone, SOURCE)
    assert line == decoder.delete(gone, SOURCE)
    deleted = expected_document("d", columns, old_emitted, shown_old)
    assert documents(line) == [deleted]
    assert raw == raw_key(columns, key, old)

    # Update without an old row.
    partial = rows(draw, columns, key, unchanged=True)
    plain = message(b"U", (b"N", partial))
    lines, touched = decoder.update_tracked(plain, SOURCE)
    assert lines == decoder.update(plain, SOURCE)
    want = expected_document("u", columns, emitted, partial)
    assert documents(lines) == [want]
    assert touched == ((raw_key(columns, key, partial), "unchanged" in want["_meta"]),)

    # Update with an old row, of the same key or of another.
    if draw(st.booleans()):
        partial = [
            was if c.name in key and c.in_key else now for was, now, c in zip(old, partial, relation, strict=True)
        ]
    if marker == b"O" and draw(st.booleans()):
        partial = [UNCHANGED if was is not None and draw(st.booleans()) else was for was in old]
    replaced = message(b"U", (marker, shown_old), (b"N", partial))
    lines, touched = decoder.update_tracked(replaced, SOURCE)
    assert lines == decoder.update(replaced, SOURCE)
    filled = [was if now is UNCHANGED and was is not None else now for was, now in zip(shown_old, partial, strict=True)]
    old_key, new_key = raw_key(columns, key, old), raw_key(columns, key, filled)
    before = {c.name: json_of(value) for c, value, emit in zip(columns, shown_old, old_emitted, strict=True) if emit}
    if old_key == new_key:
        want = expected_document("u", columns, emitted, filled, before)
        assert documents(lines) == [want]
        assert touched == ((new_key, "unchanged" in want["_meta"]),)
    else:
        want = expected_document("c", columns, emitted, filled, place=1)
        assert documents(lines) == [deleted, want]
        assert touched == ((old_key, False), (new_key, "unchanged" in want["_meta"]))


def chunk_rows(decoder: ChunkDecoder, lines: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Tails, without the rows' numbers with which they begin, and keys, one by one."""
    decoded = decoder.decode(lines, 7)
    numbers, tails = zip(*(tail.split(b"]}", 1) for tail in decoded.tails.split(TAIL_MARK)), strict=True)
    assert list(map(int, numbers)) == list(range(7, 7 + len(lines)))
    return list(tails), decoded.keys.split(KEY_MARK)


@given(st.data())
def test_chunk(data: st.DataObject) -> None:
    columns, relation, key, _ = data.draw(tables())
    some = [rows(data.draw, columns, key, unchanged=False) for _ in range(data.draw(st.integers(1, 6)))]
    tails, keys = chunk_rows(ChunkDecoder(columns, key), [copy_row(row) for row in some])
    log = compile_log_decoder(3, columns, relation, key)
    head = b'{"captured":{"binding":3,"doc":{"_meta":{"op":"c","source":%b' % SOURCE
    logged = [log.insert_tracked(message(b"I", (b"N", row)), SOURCE) for row in some]
    assert [(head + tail, raw) for tail, raw in zip(tails, keys, strict=True)] == logged


def decoder_of(*columns: Column, key: Sequence[str] = (), full: bool = False, table: str = "public.t") -> LogDecoder:
    relation = [RelationColumn(c.name, c.type.oid, c.type.typmod, full or c.name in key) for c in columns]
    return compile_log_decoder(3, columns, relation, key, table=table)


ID = Column("id", column_type("bigint"), nullable=False)
NOTE = Column("note", column_type("text"))


# 0x740000 bytes: the length itself holds a t and two zero bytes. A message ends being short at 0x10000 bytes.
@pytest.mark.parametrize("size", [0, 0x6E, 0x74, 0x7374, 0x10000 - 24, 0x10000 - 23, 0xFFFF, 0x10000, 0x74_0000])
def test_values_of_any_length(size: int) -> None:
    decoder = decoder_of(ID, NOTE, key=["id"], full=True)
    row = [1, "t" * size]
    (inserted,) = documents(decoder.insert(message(b"I", (b"N", row)), SOURCE))
    assert inserted["note"] == row[1]
    (updated,) = documents(decoder.update(message(b"U", (b"O", row), (b"N", row)), SOURCE))
    assert updated["note"] == updated["_meta"]["before"]["note"] == row[1]


def test_the_relations_number_is_not_data() -> None:
    decoder = decoder_of(ID, NOTE, key=["id"])
    for relation in (0x7400_0000, 0x0074_0000, 0x7400_0074, 0x4E00_0274):
        (inserted,) = documents(decoder.insert(message(b"I", (b"N", [1, "a"]), relation=relation), SOURCE))
        assert (inserted["id"], inserted["note"]) == (1, "a")


def test_wide_rows() -> None:
    """As many columns as a table can have; 116 is the letter t, 110 the letter n."""
    for count in (110, 116, 117, 1600):
        columns = [Column(f"c{place}", column_type("bigint")) for place in range(count)]
        decoder = decoder_of(*columns, key=["c0"], full=True)
        row = list(range(count))
        want = {f"c{place}": place for place in range(count)}
        (inserted,) = documents(decoder.insert(message(b"I", (b"N", row)), SOURCE))
        (updated,) = documents(decoder.update(message(b"U", (b"O", row), (b"N", row)), SOURCE))
        assert {**want, "_meta": inserted["_meta"]} == inserted
        assert updated["_meta"]["before"] == want
        (tail,), _ = chunk_rows(ChunkDecoder(columns, ["c0"]), [copy_row(row)])
        assert orjson.loads(b"{" + tail[2:-3]) == want


def test_tables_without_a_key_and_without_columns() -> None:
    keyless = decoder_of(ID, NOTE, full=True)
    replaced = message(b"U", (b"O", [1, "a"]), (b"N", [2, "b"]))
    lines, touched = keyless.update_tracked(replaced, SOURCE)
    assert [d["_meta"]["op"] for d in documents(lines)] == ["u"]
    assert touched == ((b"", False),)
    assert chunk_rows(ChunkDecoder([ID], []), [b"1\n", b"2\n"]) == (
        [b'},"id":1}}}\n', b'},"id":2}}}\n'],
        [b"", b""],
    )
    assert documents(decoder_of().insert(message(b"I", (b"N", [])), SOURCE)) == [
        {"_meta": {"op": "c", "source": {"table": "t", "loc": [1, 2, 3, 0]}}}
    ]
    with pytest.raises(ValueError, match="without columns"):
        ChunkDecoder([], [])


def test_no_name_of_a_user_is_source() -> None:
    """Names go into documents as they are; in generated code they are texts, out of which nothing gets."""
    evil = Column('"); raise SystemExit #\n{v0}\\ é\u2028', column_type("text"))
    decoder = decoder_of(ID, evil, key=["id"])
    (inserted,) = documents(decoder.insert(message(b"I", (b"N", [1, "x"])), SOURCE))
    assert inserted[evil.name] == "x"
    (tail,), _ = chunk_rows(ChunkDecoder([ID, evil], ["id"]), [b"1\tx\n"])
    assert orjson.loads(b"{" + tail[2:-3]) == {"id": 1, evil.name: "x"}
    for function in (decoder.insert, decoder.update_tracked, decoder.delete):
        names = {node.id for node in ast.walk(ast.parse(inspect.getsource(function))) if isinstance(node, ast.Name)}
        assert "message" in names and "SystemExit" not in names


SECRET = "hunter2"
FLAG = Column("flag", column_type("boolean"))
WHEN = Column("when", column_type("timestamp without time zone"))


@pytest.mark.parametrize("other", [[], [None]], ids=["usual", "with a null"])
@pytest.mark.parametrize("column", [FLAG, WHEN], ids=lambda column: column.name)
def test_a_value_that_cannot_be_represented(column: Column, other: list[None]) -> None:
    """Not what the session's settings promise: the error names the column and never shows the value."""
    columns = [ID, column, *(NOTE for _ in other)]
    decoder = decoder_of(*columns, key=["id"], full=True)
    bad, good = [1, SECRET, *other], [1, True if column is FLAG else Timestamp("2024-01-01 00:00:00"), *other]
    chunk = ChunkDecoder(columns, ["id"], table="public.t")
    attempts: list[Callable[[], object]] = [
        lambda: chunk.decode([copy_row(good), copy_row(bad)]),
        lambda: decoder.insert(message(b"I", (b"N", bad)), SOURCE),
        lambda: decoder.update(message(b"U", (b"N", bad)), SOURCE),
        lambda: decoder.update(message(b"U", (b"O", bad), (b"N", good)), SOURCE),
        lambda: decoder.update(message(b"U", (b"O", good), (b"N", bad)), SOURCE),
        lambda: decoder.delete(message(b"D", (b"O", bad)), SOURCE),
    ]
    for attempt in attempts:
        with pytest.raises(SourceError) as raised:
            attempt()
        assert raised.value.code == "TM-CAP-020"
        assert "public.t" in raised.value.message and column.name in raised.value.message
        # Nor does what a traceback shows beside it.
        assert SECRET not in str(raised.value)
        assert raised.value.__context__ is None or raised.value.__suppress_context__


def test_messages_that_do_not_match_the_columns() -> None:
    decoder = decoder_of(ID, NOTE, key=["id"])
    whole = message(b"I", (b"N", [1, "a"]))
    wrong = [
        message(b"I", (b"N", [1])),
        message(b"I", (b"N", [1, "a", "b"])),
        message(b"I", (b"N", [1, "a", None])),
        message(b"I", (b"N", [None, None, None])),
        message(b"I", (b"K", [1, "a"])),
        message(b"D", (b"N", [1, "a"])),
        message(b"U", (b"K", [1, None])),
        message(b"U", (b"K", [1, None]), (b"K", [1, "a"])),
        message(b"U", (b"K", [1, None]), (b"N", [1, "a"])) + b"n",
        message(b"U", (b"K", [1, None]), (b"N", [1, "a"]))[:-1],
        message(b"I", (b"N", [1, None]))[:-1] + b"b",
        *(whole[:size] for size in range(6, len(whole) - 3)),
    ]
    functions = {
        b"I": (decoder.insert, decoder.insert_tracked),
        b"U": (decoder.update, decoder.update_tracked),
        b"D": (decoder.delete, decoder.delete_tracked),
    }
    for bad in wrong:
        for decode in functions[bad[:1]]:
            with pytest.raises(SourceError) as raised:
                decode(bad, SOURCE)
            assert raised.value.code == "TM-PG-030", bad
            assert raised.value.message.startswith("public.t: ")
    chunk = ChunkDecoder([ID, NOTE], ["id"], table="public.t")
    # In the last the fields are as many as they should be, one row's missing one being another's.
    for wrong_rows in ([b"1\n"], [b"1\ta\tb\n"], [b"1\t\\N\tb\n"], [b"\\N\ta\n"], [b"1\n", b"2\ta\tb\n"]):
        with pytest.raises(SourceError) as raised:
            chunk.decode(wrong_rows)
        assert raised.value.code == ("TM-PG-022" if wrong_rows[0].startswith(b"\\N") else "TM-PG-030")


def test_a_key_without_a_value() -> None:
    decoder = decoder_of(ID, NOTE, key=["id"])
    for bad in (message(b"I", (b"N", [None, "a"])), message(b"U", (b"N", [UNCHANGED, "a"]))):
        decode = decoder.insert if bad[:1] == b"I" else decoder.update
        with pytest.raises(SourceError, match="key") as raised:
            decode(bad, SOURCE)
        assert raised.value.code == ("TM-PG-022" if bad[:1] == b"I" else "TM-PG-030")


def test_columns_and_relation_must_agree() -> None:
    with pytest.raises(SourceError, match=r"public\.t: column note has another type") as raised:
        compile_log_decoder(3, [NOTE], [RelationColumn("note", 20, -1, False)], [], table="public.t")
    assert raised.value.code == "TM-PG-030"
    relation = [RelationColumn("id", 20, -1, False), RelationColumn("note", 25, -1, True)]
    with pytest.raises(SourceError, match="lacks the key column id") as raised:
        compile_log_decoder(3, [ID, NOTE], relation, ["id", "note"], table="public.t")
    assert raised.value.code == "TM-PG-032"
