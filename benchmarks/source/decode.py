"""Decoding and encoding alone, on one core: rows of the log and of chunks to captured lines.

    python -m benchmarks.source.decode [--rows 20000] [--rounds 9]

The row is the one of all benchmarks: ten columns, about 230 bytes. The other side is the loop one writes first, which
looks up a converter for each value and calls it; the converters are the same. Rounds alternate, medians count, and
the time is this process's own on its processor.
"""

from __future__ import annotations

import argparse
import statistics
import struct
import time
from collections.abc import Callable, Sequence

from tidemark.captures.postgres.catalog.columns import Column, ColumnType
from tidemark.captures.postgres.chunks.row_decoder import ChunkDecoder
from tidemark.captures.postgres.rows.log_decoder import RelationColumn, compile_log_decoder
from tidemark.captures.postgres.values.json_values import string
from tidemark.captures.postgres.values.types import conversion
from tidemark.protocol.codec import CAPTURED_SUFFIX, captured_prefix

SOURCE = b'{"ts_ms":1726000000000,"schema":"public","table":"bench","loc":[26544680,26544736,26544904,0],"txid":745}'
NULLABLE = 3
"""In the rows with NULLs, every third value is one."""

_TYPES = [
    ("id", 20, "bigint"),
    ("customer", 23, "integer"),
    ("quantity", 23, "integer"),
    ("price", 1700, "numeric"),
    ("created", 1114, "timestamp without time zone"),
    ("updated", 1184, "timestamp with time zone"),
    ("note", 25, "text"),
    ("paid", 16, "boolean"),
    ("weight", 701, "double precision"),
    ("attributes", 3802, "jsonb"),
]
COLUMNS = [Column(name, ColumnType(oid, -1, type_name, "base")) for name, oid, type_name in _TYPES]
RELATION = [RelationColumn(name, oid, -1, name == "id") for name, oid, _ in _TYPES]
FULL_RELATION = [column._replace(in_key=True) for column in RELATION]

BATCH = 125
"""Rows of COPY decoded at once, as a chunk's reader does it with rows of this size."""

Values = Sequence[bytes | None]
_FIELD = struct.Struct(">ci")


def row(number: int) -> list[bytes | None]:
    """The texts of one row."""
    day = f"2024-{number % 12 + 1:02d}-{number % 28 + 1:02d}"
    created = f"{day} {number % 24:02d}:{number % 60:02d}:00.{number % 899_999 + 100_000}"
    return [
        b"%d" % (number + 1_000_000),
        b"%d" % (number % 99_991),
        b"%d" % (number % 17),
        b"%d.%02d" % (number % 10_007, number % 100),
        created.encode(),
        created.encode() + b"+00",
        b"order %d, delivered to the side door, thank you very much" % number,
        b"t" if number % 2 else b"f",
        repr(number / 7).encode(),
        b'{"tags": ["a", "b"], "level": %d, "source": "web"}' % (number % 10),
    ]


def row_with_nulls(number: int) -> list[bytes | None]:
    values = row(number)
    return [None if place and (number + place) % NULLABLE == 0 else value for place, value in enumerate(values)]


def tuple_data(values: Values) -> bytes:
    """pgoutput's TupleData."""
    fields = [b"n" if value is None else _FIELD.pack(b"t", len(value)) + value for value in values]
    return struct.pack(">h", len(values)) + b"".join(fields)


def insert_message(values: Values) -> bytes:
    return b"I" + struct.pack(">I", 16_384) + b"N" + tuple_data(values)


def full_update_message(values: Values) -> bytes:
    return b"U" + struct.pack(">I", 16_384) + b"O" + tuple_data(values) + b"N" + tuple_data(values)


def copy_row(values: Values) -> bytes:
    """COPY's text format."""
    escaped = (rb"\N" if v is None else v.replace(b"\\", rb"\\").replace(b"\t", rb"\t") for v in values)
    return b"\t".join(escaped) + b"\n"


_CONVERTERS = {column.type.oid: conversion(column.type).convert for column in COLUMNS}
_NAMES = {column.name: string(column.name) for column in COLUMNS}


def naive_log(message: bytes, source: bytes) -> bytes:
    """The loop that one writes first: it divides the message, looks up a converter per value, joins what they make."""
    place = 8
    members = []
    for column in COLUMNS:
        kind = message[place : place + 1]
        if kind == b"n":
            members.append(f"{_NAMES[column.name]}:null")
            place += 1
        else:
            size = int.from_bytes(message[place + 1 : place + 5], "big")
            text = message[place + 5 : place + 5 + size].decode("latin-1")
            members.append(f"{_NAMES[column.name]}:{_CONVERTERS[column.type.oid](text)}")
            place += 5 + size
    document = b'{"_meta":{"op":"c","source":%b},%b}' % (source, ",".join(members).encode("latin-1"))
    return captured_prefix(0) + document + CAPTURED_SUFFIX


def naive_chunk(number: int, line: bytes) -> bytes:
    members = []
    for column, field in zip(COLUMNS, line[:-1].decode("latin-1").split("\t"), strict=True):
        if field == "\\N":
            members.append(f"{_NAMES[column.name]}:null")
        else:
            members.append(f"{_NAMES[column.name]}:{_CONVERTERS[column.type.oid](field)}")
    return b"%d]}},%b}}}\n" % (number, ",".join(members).encode("latin-1"))


def every(decode: Callable[[bytes, bytes], object], messages: Sequence[bytes]) -> Callable[[], None]:
    def work() -> None:
        for message in messages:
            decode(message, SOURCE)

    return work


def contenders(rows: int) -> dict[str, Callable[[], object]]:
    """What is measured, by name; each call does all rows."""
    decoder = compile_log_decoder(0, COLUMNS, RELATION, ["id"])
    full = compile_log_decoder(0, COLUMNS, FULL_RELATION, ["id"])
    chunk = ChunkDecoder(COLUMNS, ["id"]).decode
    messages = [insert_message(row(n)) for n in range(rows)]
    with_nulls = [insert_message(row_with_nulls(n)) for n in range(rows)]
    updates = [full_update_message(row(n)) for n in range(rows)]
    lines = [copy_row(row(n)) for n in range(rows)]
    lines_with_nulls = [copy_row(row_with_nulls(n)) for n in range(rows)]
    assert decoder.insert(with_nulls[0], SOURCE) == naive_log(with_nulls[0], SOURCE)
    assert chunk(lines_with_nulls[:1]).tails == naive_chunk(0, lines_with_nulls[0])
    width = statistics.mean(map(len, messages)), statistics.mean(map(len, lines))
    print(f"{rows} rows; {width[0]:.0f} bytes a message, {width[1]:.0f} bytes a row of COPY")
    return {
        "log, naive loop": every(naive_log, messages),
        "log, generated": every(decoder.insert, messages),
        "log, generated, with keys": every(decoder.insert_tracked, messages),
        "log, generated, a third NULL": every(decoder.insert, with_nulls),
        "log, generated, update with old row": every(full.update, updates),
        "chunk, naive loop": lambda: [naive_chunk(number, line) for number, line in enumerate(lines)],
        "chunk, by column": lambda: [chunk(lines[at : at + BATCH]) for at in range(0, rows, BATCH)],
        "chunk, by column, a third NULL": lambda: [
            chunk(lines_with_nulls[at : at + BATCH]) for at in range(0, rows, BATCH)
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    measured = contenders(arguments.rows)
    seconds: dict[str, list[float]] = {name: [] for name in measured}
    for _ in range(arguments.rounds):
        for name, work in measured.items():
            started = time.process_time()
            work()
            seconds[name].append(time.process_time() - started)
    rates = {name: arguments.rows / statistics.median(times) for name, times in seconds.items()}
    for name, rate in rates.items():
        naive = rates[f"{name.partition(',')[0]}, naive loop"]
        print(f"{name:38} {rate:10,.0f} rows/s   {rate / naive:5.2f} of the naive loop")


if __name__ == "__main__":
    main()
