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
from tidemark.protocol.changelog.models import Column
from tidemark.protocol.changelog.table_schema import table_schema
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
    """

    def __init__(self, stdout: IO[bytes]) -> None:
        self._stdout = stdout
        self._schemas: dict[int, dict[str, Any]] = {}
        self.count = self.left_out = 0

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
        (part,) = batch["parts"]
        binding, skip = part["binding"], set(part.get("skip", ()))
        self.left_out += len(skip)
        names, rows = _rows(stream, self._schemas[binding])
        assert len(rows) == part["rows"] and len(rows) - len(skip) == batch["events"]
        before, after = part["meta"]["place"]
        for number, row in enumerate(rows):
            if number not in skip:
                source = {"snapshot": True, "loc": json.loads(f"{before}{number}{after}")}
                doc = {"_meta": {"op": "c", "source": source}, **dict(zip(names, row, strict=True))}
                yield json.dumps({"captured": {"binding": binding, "doc": doc}}).encode() + b"\n"


def _rows(stream: bytes, schema: dict[str, Any]) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The names of a table's columns, and the JSON of their values in each row."""
    found, columns = pa.ipc.open_stream(stream).read_all(), _columns(schema)
    assert found.num_columns == len(columns)
    values = [
        [_json(column, value) for value in _cast(found.column(place), column).to_pylist()]
        for place, column in enumerate(columns)
    ]
    return [column.in_source for column in columns], list(zip(*values, strict=True))


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
