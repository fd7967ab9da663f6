"""A first capture of tables of other shapes: a hundred columns, large texts and JSON, numbers without a limit.

    python -m benchmarks.capture.shapes [--bytes 1000000000] [--rounds 1] [SHAPE …]

Each table has about so many bytes as text. Its rows go from PostgreSQL into committed segments, and by COPY, by
hand, into Parquet: see ``first_capture``, which has the table of ten columns. At the end the contents are compared.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.capture.first_capture import Source, captured, compare, emptied, segments
from benchmarks.processor_time import Spent, timed
from benchmarks.results import in_turn, report
from benchmarks.source.postgres_server import config, connect, server
from tidemark.testing.servers.postgres_server import PostgresServer

_KINDS = (
    ("integer", "(i * {n}) % 100003", pa.int32()),
    ("text", "'value ' || (i + {n}) % 9973", pa.string()),
    ("numeric(12,2)", "(i + {n}) % 1000007 / 100.0", pa.decimal128(12, 2)),
    ("timestamp", "timestamp '2024-01-01' + (i + {n}) * interval '1.001 s'", pa.timestamp("us")),
    ("double precision", "(i + {n}) / 7.0", pa.float64()),
    ("boolean", "(i + {n}) % 2 = 0", pa.bool_()),
)

_WORDS = "(SELECT string_agg(md5((i + n)::text), ' ') FROM generate_series(1, {each}) n)"


@dataclass(frozen=True)
class Shape:
    """A table ``bench``, with an ``id`` as its key.

    Attributes:
        columns: Of each after the key its type, its value as an expression of ``i``, and its type by hand.
        size: Bytes of a row as text, about.
    """

    columns: tuple[tuple[str, str, pa.DataType], ...]
    size: int

    def make(self, running: PostgresServer, rows: int) -> None:
        defined = ", ".join(f"c{number} {kind} NOT NULL" for number, (kind, _, _) in enumerate(self.columns))
        values = ", ".join(value for _, value, _ in self.columns)
        with connect(running) as session:
            session.execute("DROP PUBLICATION IF EXISTS bench; DROP TABLE IF EXISTS bench")
            session.execute(f"CREATE TABLE bench (id bigint PRIMARY KEY, {defined})".encode())
            session.execute(f"INSERT INTO bench SELECT i, {values} FROM generate_series(1, {rows}) i".encode())
            session.execute("VACUUM ANALYZE bench")
            session.execute("CREATE PUBLICATION bench FOR TABLE bench")

    def json(self) -> list[str]:
        return [f"c{number}" for number, (kind, _, _) in enumerate(self.columns) if kind == "jsonb"]

    def schema(self) -> pa.Schema:
        return pa.schema([("id", pa.int64()), *((f"c{at}", kind) for at, (_, _, kind) in enumerate(self.columns))])


SHAPES = {
    "a hundred columns": Shape(
        tuple((kind, value.format(n=n), by_hand) for n in range(99) for kind, value, by_hand in [_KINDS[n % 6]]), 1_150
    ),
    "texts of 8 KB": Shape((("text", _WORDS.format(each=250), pa.string()),), 8_260),
    "JSON of 2 KB": Shape(
        (
            (
                "jsonb",
                f"jsonb_build_object('n', i, 'tags', jsonb_build_array(1, 2), 'b', {_WORDS.format(each=60)})",
                pa.string(),
            ),
        ),
        2_030,
    ),
    "numbers without a limit": Shape(
        tuple(("numeric", f"(i + {n}) / 7.0 * 1000003", pa.string()) for n in range(9)), 250
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=", ".join(SHAPES))
    parser.add_argument("--bytes", type=int, default=1_000_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    turns = count()
    with server() as running, tempfile.TemporaryDirectory() as name:
        for shape in arguments.shapes or SHAPES:
            measure(running, shape, arguments.bytes // SHAPES[shape].size, arguments.rounds, Path(name), turns)


def measure(running: PostgresServer, name: str, rows: int, rounds: int, folder: Path, turns: count[int]) -> None:
    """Captures a table of a shape and writes it by hand, in turn; ends with an error if the contents differ."""
    shape = SHAPES[name]
    shape.make(running, rows)
    endpoint = config(running, publication="bench")
    source = Source(
        *(running, f"PostgreSQL {running.version}", {}, lambda debezium, turn, rows: None),
        *("tidemark.connectors.postgres", endpoint, "public.bench"),
    )
    (folder / "schema").write_bytes(shape.schema().serialize())
    copy = "SET timezone = 'UTC'; COPY bench TO STDOUT (FORMAT csv)"

    def by_hand() -> Spent:
        command: list[str | Path] = [
            *(sys.executable, "-m", "benchmarks.peers.by_hand", "copy_as", emptied(folder / "copy") / "bench.parquet"),
            *(folder / "schema", running.binaries / "psql", running.dsn, "-q", "-c", copy),
        ]
        return timed(running, lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))

    def ours() -> Spent:
        return captured(source, {**endpoint, "slot": f"ours_{next(turns)}"}, folder / "ours")

    sides = {"psql COPY by hand": by_hand, "tidemark": ours}
    report(f"{rows:,} rows, {name}", in_turn(sides, rounds), rows)
    compare(
        pq.read_table(folder / "copy").sort_by("id"), segments(folder / "ours", source.table), "tidemark", shape.json()
    )


if __name__ == "__main__":
    main()
