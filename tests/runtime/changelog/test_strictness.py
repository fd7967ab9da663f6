"""An event whose value its column cannot hold is kept apart, whole. Never null, never rounded or skipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.changelog.shop import closed, document, stored
from tidemark.protocol.changelog.models import QUARANTINE
from tidemark.protocol.errors import ChangeLogError, TidemarkError
from tidemark.runtime.changelog.batch import Batch
from tidemark.runtime.changelog.writer import LogWriter

NUMERIC = {"type": "string", "format": "number", "x-precision": 5, "x-scale": 2}
DATE = {"type": "string", "format": "date"}
INSTANT = {"type": "string", "format": "date-time"}
LOCAL = {"type": "string", "format": "date-time", "x-local": True}
DOUBLE = {"type": ["number", "string"], "format": "number"}
BINARY = {"type": "string", "contentEncoding": "base64"}


def write(root: Path, schema: dict[str, Any] | None, documents: list[bytes], text: list[str] | None = None) -> Batch:
    with LogWriter.open(root, "shop") as log:
        batch = log.begin()
        batch.add(log.bind("public/t", schema, ["id"], text or []), documents)
        log.commit(batch, {}, 1)
        return batch


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (NUMERIC, '"NaN"'),
        (NUMERIC, '"Infinity"'),
        (NUMERIC, '"1.234"'),
        (NUMERIC, '"1234.5"'),
        (NUMERIC, '""'),
        (NUMERIC, '" 1"'),
        (NUMERIC, "1.5"),
        (NUMERIC, "true"),
        ({"type": "integer"}, "9223372036854775808"),
        ({"type": "integer"}, "-9223372036854775809"),
        ({"type": "integer"}, "1.5"),
        ({"type": "integer"}, '"1"'),
        ({"type": "integer"}, "true"),
        ({"type": "integer", "maximum": 2**64 - 1}, "100000000000000000000"),
        ({"type": "boolean"}, "1"),
        ({"type": "boolean"}, '"true"'),
        ({"type": "number"}, "1e400"),
        ({"type": "number"}, "9007199254740993"),
        ({"type": "number"}, '"1.5"'),
        (DOUBLE, '"nan"'),
        (DOUBLE, '"1.5"'),
        (DATE, '"infinity"'),
        (DATE, '"2024-02-30"'),
        (DATE, '"0000-00-00"'),
        (DATE, '"0000-01-01"'),
        (DATE, '"+12024-01-01"'),
        (DATE, '"2024-02-29T00:00:00"'),
        (INSTANT, '"-infinity"'),
        (INSTANT, '"2024-01-15T14:30:00"'),
        (INSTANT, '"2024-01-15T14:30:00.1234567Z"'),
        (INSTANT, '"9999-12-31T23:59:59-01:00"'),
        (INSTANT, "1705329000"),
        (LOCAL, '"2024-01-15T14:30:00Z"'),
        (LOCAL, '"0000-01-01T00:00:00"'),
        (BINARY, '"a-_="'),
        (BINARY, '"a"'),
        ({"type": "string"}, "5"),
        ({"type": "string"}, "{}"),
        ({"type": "string"}, '"\udcff"'),
        ({}, '"\udcff"'),
        ({"type": "array", "items": {"type": "integer"}}, "[1,[2]]"),
        ({"type": "array", "items": {"type": "integer"}}, "[1,9223372036854775808]"),
        ({"type": "array", "items": NUMERIC}, '["1.00","NaN"]'),
        ({"type": "array", "items": INSTANT}, '["0000-01-01T00:00:00Z"]'),
        ({"type": "array", "items": {"type": "integer"}}, "{}"),
    ],
)
def test_a_value_that_does_not_fit(tmp_path: Path, schema: dict[str, Any], value: str) -> None:
    good = [b'{"_meta":{"op":"c"},"id":%d}' % id for id in range(20)]
    # \udcff stands for the byte 0xff, which is not UTF-8.
    bad = b'{"_meta":{"op":"c"},"id":4242,"the value":%b}' % value.encode("utf-8", "surrogateescape")
    batch = write(tmp_path, closed(id={"type": "integer"}, **{"the value": schema}), [*good, bad, *good])
    ((count, error),) = batch.quarantine.reasons.values()
    assert (count, error.code) == (1, "TM-LOG-010")
    assert "public/t: the column 'the value'" in error.message
    assert "offset 20" in error.message
    assert 'text: ["the value"]' in error.remedy
    assert "public.t" in error.remedy
    assert "4242" not in error.message + error.remedy
    assert value.strip('"') not in error.message or len(value) < 4
    # All others are there, and it is kept as it came, under its offset.
    assert [event["_offset"] for event in stored(tmp_path, "public/t")] == [*range(20), *range(21, 41)]
    (apart,) = stored(tmp_path, QUARANTINE)
    assert (apart["_offset"], apart["collection"], apart["op"]) == (20, "public/t", "c")
    assert (apart["document"] or apart["raw"].decode("utf-8", "surrogateescape")).encode(
        "utf-8", "surrogateescape"
    ) == bad
    assert apart["reason"] == error.message
    if apart["document"]:
        assert apart["key"] == '{"id":4242}'


def test_the_remedy_works(tmp_path: Path) -> None:
    documents = [document(id=1, amount="NaN", at="infinity"), document(id=2, amount="12345.678", at=None)]
    schema = closed(id={"type": "integer"}, amount=NUMERIC, at=INSTANT)
    for text, words in (([], "amount"), (["amount"], "'at'")):
        batch = write(tmp_path, schema, documents, text)
        assert words in batch.quarantine.reasons["public/t"][1].message
    assert len(stored(tmp_path, QUARANTINE)) == 3
    batch = write(tmp_path, schema, documents, ["amount", "at"])
    assert not batch.quarantine.reasons
    assert [(e["amount"], e["at"]) for e in stored(tmp_path, "public/t")][-2:] == [
        ("NaN", "infinity"),
        ("12345.678", None),
    ]


def test_events_that_their_connector_marked(tmp_path: Path) -> None:
    """They come from a block in order, beside others, and under their own offsets; so does what closes a block."""
    marked = b'{"_meta":{"op":"u","source":{"ts_ms":7,"loc":[1,2]},"bad":{"at":"infinity"}},"id":2,"at":null}'
    schema = closed(id={"type": "integer"}, at=INSTANT)
    for kind in (schema, None):  # with columns, and as whole documents
        root = tmp_path / str(kind is None)
        batch = write(root, kind, [document(id=1), marked, document(id=3)])
        assert "bad values in at" in batch.quarantine.reasons["public/t"][1].message
        assert [event["_offset"] for event in stored(root, "public/t")] == [0, 2]
        (apart,) = stored(root, QUARANTINE)
        assert (apart["_offset"], apart["op"], apart["_op"], apart["_loc"]) == (1, "u", "c", "[1,2]")
        assert (apart["key"], apart["bad"]) == ('{"id":2}', '{"at":"infinity"}')
        assert apart["document"].encode() == marked
        assert apart["_commit_ts"].timestamp() == 0.007


def test_nothing_but_misfits(tmp_path: Path) -> None:
    """Of a table, and of a commit: there is no empty segment."""
    schema = closed(id={"type": "integer"}, day=DATE)
    write(tmp_path, schema, [document(id=n, day="infinity") for n in range(3)])
    assert stored(tmp_path, "public/t") == []
    assert [event["_offset"] for event in stored(tmp_path, QUARANTINE)] == [0, 1, 2]
    assert len(list((tmp_path / "data").rglob("*.parquet"))) == 1


def test_too_many_misfits_are_an_error(tmp_path: Path) -> None:
    with LogWriter.open(tmp_path, "shop") as log:
        batch = log.begin()
        batch.quarantine.most_bytes = 1000
        batch.add(log.bind("public/t", closed(id={"type": "integer"}), ["id"]), [document(id="x" * 100)] * 20)
        with pytest.raises(ChangeLogError, match="TM-LOG-010: documents of more than"):
            log.commit(batch, {}, 1)
    assert stored(tmp_path, "public/t") == []


def test_a_text_column_that_is_not_there_is_only_worth_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, closed(id={"type": "integer"}), [document(id=1)], ["dropped"])
    assert "has no column 'dropped'" in caplog.text


def test_a_member_that_the_schema_does_not_know(tmp_path: Path) -> None:
    batch = write(tmp_path, closed(id={"type": "integer"}), [document(id=1), document(id=2, extra=3)])
    _, error = batch.quarantine.reasons["public/t"]
    assert error.code == "TM-LOG-010"
    assert "offset 1 has a member 'extra'" in error.message
    assert "sourcedSchema" in error.remedy


@pytest.mark.parametrize(
    "meta",
    ["", '"_meta":5,', '"_meta":{},', '"_meta":{"op":"x"},', '"_meta":{"op":null},'],
)
@pytest.mark.parametrize(
    "more", ["", '"_meta":{"op":"c","source":{"ts_ms":"now"}},', '"_meta":{"op":"c","unchanged":[1]},']
)
def test_meta_that_is_not_ours(tmp_path: Path, meta: str, more: str) -> None:
    row = f'{{{more or meta}"id":1}}'.encode()
    with pytest.raises(ChangeLogError) as caught:
        write(tmp_path, closed(id={"type": "integer"}), [document(id=0), row])
    assert caught.value.code == "TM-LOG-010"
    assert "_meta of the event at offset 1" in caught.value.message
    assert "connector" in caught.value.remedy


@pytest.mark.parametrize("time", [253_402_300_800_000, -62_135_596_800_001, 2**63])
def test_a_commit_time_beyond_the_calendar(tmp_path: Path, time: int) -> None:
    row = b'{"_meta":{"op":"c","source":{"ts_ms":%d}}}' % time
    with pytest.raises(ChangeLogError, match="_commit_ts"):
        write(tmp_path, closed(), [document(), row])


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"not json",
        b'{"id":1}{"id":2}',
        b'{"id":1},{"id":2}',
        b"[]",
        b'{"id":1}}',
        b"{'id':1}",
        b'{"id":tru}',
    ],
)
def test_a_document_that_is_not_json(tmp_path: Path, line: bytes, typed: bool) -> None:
    with pytest.raises(TidemarkError) as caught:
        write(tmp_path, closed(id={"type": "integer"}) if typed else None, [document(id=1), line, document(id=2)])
    assert caught.value.code == "TM-PRO-001"
    assert "offset 1" in caught.value.message


@pytest.mark.parametrize("schema", [{"type": "string"}, {}])
def test_half_a_surrogate_pair_is_said_to_be_one(tmp_path: Path, schema: dict[str, Any]) -> None:
    line = b'{"_meta":{"op":"c"},"t":"\\ud800 is half of a character"}'
    batch = write(tmp_path, closed(t=schema), [document(t="in order"), line])
    ((_, error),) = batch.quarantine.reasons.values()
    assert error.code == "TM-LOG-010" and "surrogate" in error.message and "exclude" in error.remedy
    (apart,) = stored(tmp_path, QUARANTINE)
    assert (apart["document"], apart["raw"], apart["op"]) == (None, line, "c")
    assert len(stored(tmp_path, "public/t")) == 1


def test_a_document_nested_beyond_reason(tmp_path: Path) -> None:
    deep = b'{"_meta":{"op":"c"},"j":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    write(tmp_path, closed(j={}), [deep, document(j=1)])
    (apart,) = stored(tmp_path, QUARANTINE)
    assert (apart["_offset"], apart["raw"]) == (0, deep)
    assert [event["_offset"] for event in stored(tmp_path, "public/t")] == [1]


def test_foreign_meta_is_kept_in_the_document(tmp_path: Path) -> None:
    documents = [
        b'{"a":1.10}',
        b'{"_meta":"mine","a":1}',
        b'{"_meta":{"op":"d","source":{"ts_ms":"now","txid":7,"loc":[1]},"before":{"a":1.0}}}',
        b'{"_meta":{"op":"u","unchanged":"none"}}',
        b'{"_meta":{"op":5}}',
        b"null",
    ][:5]
    write(tmp_path, None, documents)
    events = stored(tmp_path, "public/t")
    assert [event["_doc"].encode() for event in events] == documents
    assert [event["_op"] for event in events] == ["c", "c", "d", "u", "c"]
    assert (events[2]["_txid"], events[2]["_loc"], events[2]["_before"]) == ("7", "[1]", '{"a":1.0}')


def test_a_foreign_operation_is_not_guessed_at(tmp_path: Path) -> None:
    with pytest.raises(ChangeLogError, match="_op"):
        write(tmp_path, None, [document("c"), b'{"_meta":{"op":"delete"}}'])
