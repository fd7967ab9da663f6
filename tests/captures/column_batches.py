"""Rows that came as columns: what a change log has of them, and the documents that they stand for."""

from __future__ import annotations

import base64
import json
import math
from array import array
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.protocol.batches import HEAD
from tidemark.protocol.changelog.columns.table_schema import table_schema
from tidemark.protocol.changelog.models import Column
from tidemark.runtime.changelog.documents.columns import arrow_type, cast
from tidemark.runtime.changelog.documents.decoder import decoder

Logged = dict[str, list[str]]
"""By column, its values. They are compared by what Python shows: 0.0 is not -0.0, and NaN is NaN."""


def of_columns(stream: bytes, schema: dict[str, Any]) -> Logged:
    """What the log has of the rows of an Arrow IPC stream; ``schema`` is that of the table's documents."""
    found = pa.ipc.open_stream(stream).read_all()
    columns = _columns(schema)
    assert found.num_columns == len(columns)
    return {column.name: _shown(_cast(found.column(place), column)) for place, column in enumerate(columns)}


def _cast(sent: pa.ChunkedArray[Any], column: Column) -> pa.ChunkedArray[Any]:
    """As the runtime does."""
    found = cast(sent, arrow_type(column.type))
    return (
        pc.if_else(pc.equal(found, pa.scalar("null")), pa.scalar(None, found.type), found)
        if column.json_text
        else found
    )


def of_documents(documents: Sequence[bytes], schema: dict[str, Any]) -> Logged:
    """What the log has of documents."""
    if not documents:
        return {column.name: [] for column in _columns(schema)}
    decodes = decoder(table_schema("t", schema), frozenset())
    logged = decodes.cast([decodes.gather(documents, array("q", range(len(documents))))])
    return {column.name: _shown(logged.column(column.name)) for column in _columns(schema)}


def _columns(schema: dict[str, Any]) -> list[Column]:
    return list(table_schema("t", schema).columns)


def _shown(column: pa.ChunkedArray[Any]) -> list[str]:
    return list(map(repr, column.to_pylist()))


class Batches:
    """Turns batches into the captured lines that they stand for, as a runtime would read them from a connector.

    Args:
        stdout: Where the bytes of a batch follow its line.

    Attributes:
        count: How many came.
        left_out: How many rows they left out.
        of_log: How many events of the log they had.
    """

    def __init__(self, stdout: IO[bytes]) -> None:
        self._stdout = stdout
        self._schemas: dict[int, dict[str, Any]] = {}
        self.count = self.left_out = self.of_log = 0

    def take(self, line: bytes) -> Iterator[bytes]:
        """The lines that stand for a line, and what follows it; of a batch that is cut there are none."""
        if line.startswith(b'{"sourcedSchema":'):
            body = json.loads(line)["sourcedSchema"]
            self._schemas[body.get("binding", 0)] = body["documentSchema"]
        if not line.startswith(HEAD):
            yield line
            return
        batch = json.loads(line)["capturedBatch"]
        stream = self._stdout.read(batch["bytes"])
        if len(stream) < batch["bytes"]:
            return
        self.count += 1
        found: dict[int, bytes] = {}
        for part in batch["parts"]:
            own, stream = stream[: part["bytes"]], stream[part["bytes"] :]
            lines = self._of_chunk(part, own) if part["kind"] == "chunk" else self._of_log(part, own)
            assert found.keys().isdisjoint(lines)
            found |= lines
        assert sorted(found) == list(range(batch["events"]))
        yield from map(found.__getitem__, range(batch["events"]))

    def _of_chunk(self, part: dict[str, Any], stream: bytes) -> dict[int, bytes]:
        skip = set(part.get("skip", ()))
        self.left_out += len(skip)
        names, rows, _ = self._rows(part, stream, 0)
        before, after = part["meta"]["place"]
        kept = [number for number in range(len(rows)) if number not in skip]
        return {
            place: _line(
                part,
                {"op": "c", "source": {"snapshot": True, "loc": json.loads(f"{before}{number}{after}")}},
                dict(zip(names, rows[number], strict=True)),
            )
            for place, number in enumerate(kept)
        }

    def _of_log(self, part: dict[str, Any], stream: bytes) -> dict[int, bytes]:
        self.of_log += part["rows"]
        names, rows, further = self._rows(part, stream, len(OF_LOG))
        lines = {}
        for row, said in zip(rows, further, strict=True):
            n, op, ts_ms, loc, txid, before, unchanged = said
            meta = {"op": op, "source": _source(ts_ms, json.loads(loc), txid)}
            if before is not None:
                meta["before"] = json.loads(before)
            missing = json.loads(unchanged or "[]")
            if missing:
                meta["unchanged"] = missing
            members = dict(zip(names, row, strict=True))
            absent = {name for name, value in members.items() if value is None} if op == "d" else missing
            lines[n] = _line(part, meta, {name: value for name, value in members.items() if name not in absent})
        return lines

    def _rows(
        self, part: dict[str, Any], stream: bytes, further: int
    ) -> tuple[list[str], list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """The names of a table's columns, the JSON of their values in each row, and the values of further columns."""
        found, columns = pa.ipc.open_stream(stream).read_all(), _columns(self._schemas[part["binding"]])
        assert found.num_columns == len(columns) + further and found.num_rows == part["rows"]
        of_json = part.get("meta", {}).get("json", ())
        values = [
            [None if text is None else json.loads(text) for text in found.column(place).to_pylist()]
            if place in of_json
            else [_json(column, value) for value in _cast(found.column(place), column).to_pylist()]
            for place, column in enumerate(columns)
        ]
        more = [column.to_pylist() for column in found.columns[len(columns) :]]
        names = [column.in_source for column in columns]
        return names, list(zip(*values, strict=True)), list(zip(*more, strict=True))


def _source(ts_ms: int, place: Any, txid: str | None) -> dict[str, Any]:
    """As documents have it: PostgreSQL's ids are numbers, MySQL's are texts, or there are none."""
    named = {"cursor": place} if isinstance(place, str) else {"loc": place}
    known = {} if txid is None else {"txid": int(txid) if txid.isdigit() else txid}
    return {"ts_ms": ts_ms, **named, **known}


OF_LOG = ("n", "op", "ts_ms", "loc", "txid", "before", "unchanged")


def _line(part: dict[str, Any], meta: dict[str, Any], members: dict[str, Any]) -> bytes:
    doc = {"_meta": meta, **members}
    return json.dumps({"captured": {"binding": part["binding"], "doc": doc}}).encode() + b"\n"


def _json(column: Column, value: Any) -> Any:
    match value:
        case str() if column.json_text:
            return json.loads(value)
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return str(value)
        case datetime():
            text = value.isoformat().removesuffix("+00:00")
            return (text.rstrip("0") if "." in text else text) + ("Z" if value.tzinfo else "")
        case date():
            return value.isoformat()
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
