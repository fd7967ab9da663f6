"""The whole way of a first capture: from rows in a database to committed segments, against what anyone can type.

    python -m benchmarks.capture.first_capture [--server mariadb] [--rows 1000000] [--rounds 3] [--readers 1]

By hand, ADBC and dlt are in ``benchmarks/peers/by_hand.py``. Debezium gives lines, and no files: it does a part of the
work only. Ours is ``tidemark capture --until-caught-up``, with batches of columns and with lines. All begin as new
processes, and end with synced files; the sides alternate. At the end the contents are compared, column by column, and
of Debezium's lines the number and the ids.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.peers.debezium import NAME, Debezium
from benchmarks.processor_time import Spent, timed
from benchmarks.results import had, in_turn, report
from benchmarks.source import mysql_log
from benchmarks.source.postgres_server import config, published_table
from tidemark.protocol.batches import ARROW
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.environment import BATCHES
from tidemark.testing.servers.mariadb import MARIADB, MariaDb, no_source
from tidemark.testing.servers.server_process import ServerProcess

FORMS = {"tidemark": ARROW, "tidemark, as JSON lines": ""}

DLT = "dlt with ConnectorX"


@dataclass(frozen=True)
class Source:
    """A server with the table ``bench``.

    Attributes:
        product: Its name.
        by_hand: What writes its rows by hand: the name, and the arguments of ``benchmarks.peers.by_hand``.
        read_by: What Debezium does, for a number of the round, with so many rows.
        connector: The module of ours.
        config: Of the connector.
        table: With its schema.
    """

    server: ServerProcess
    product: str
    by_hand: dict[str, list[str]]
    read_by: Callable[[Debezium, int, int], None]
    connector: str
    config: dict[str, Any]
    table: str


@contextmanager
def postgres(rows: int) -> Iterator[Source]:
    copy = "SET timezone = 'UTC'; COPY bench TO STDOUT (FORMAT csv)"
    with published_table(rows) as (running, _):
        endpoint = config(running, publication="bench")
        by_hand = {
            "psql COPY by hand": ["copy", str(running.binaries / "psql"), running.dsn, "-q", "-c", copy],
            "ADBC by hand": ["adbc", running.dsn],
            DLT: ["dlt", "postgresql+psycopg://{user}:{password}@{host}:{port}/{database}".format(**endpoint)],
        }

        def read(debezium: Debezium, turn: int, rows: int) -> None:
            debezium.of_postgres(running, f"debezium_{turn}", rows, snapshot=True)

        yield Source(
            *(running, f"PostgreSQL {running.version}", by_hand, read),
            *("tidemark.connectors.postgres", endpoint, "public.bench"),
        )


@contextmanager
def mariadb(rows: int) -> Iterator[Source]:
    programs, client = MARIADB.installed(), shutil.which("mariadb")
    if programs is None or client is None:
        sys.exit(no_source(MARIADB))
    with MARIADB.server(programs, settings={"innodb_buffer_pool_size": "1G"}) as running:
        server = MariaDb(running.host, running.port, running.user, running.password, server=running)
        mysql_log.make_table(server, rows)
        command = [
            *(client, f"--host={server.host}", f"--port={server.port}", f"--user={server.user}"),
            *(f"--password={server.password}", "--skip-ssl", "--init-command=SET time_zone = '+00:00'"),
            *("--quick", "--batch", "--skip-column-names", "--execute=SELECT * FROM bench.bench"),
        ]
        url = f"mysql+pymysql://{server.user}:{server.password}@{server.host}:{server.port}/bench"
        yield Source(
            running,
            f"MariaDB {programs.version}",
            {"mariadb client by hand": ["copy", *command], DLT: ["dlt", url]},
            lambda debezium, _, rows: debezium.of_mysql(server, rows),
            *("tidemark.connectors.mysql", server.config(), "bench.bench"),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--server", choices=("postgres", "mariadb"), default="postgres")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--readers", type=int, default=1)
    arguments = parser.parse_args()
    opened = mariadb if arguments.server == "mariadb" else postgres
    rows, skipped = arguments.rows, dict[str, str]()
    with opened(rows) as source, tempfile.TemporaryDirectory() as name:
        folder, turns = Path(name), count()

        def typed(what: list[str]) -> Spent:
            into = emptied(folder / what[0])
            written = into if what[0] == "dlt" else into / "bench.parquet"
            command = [sys.executable, "-m", "benchmarks.peers.by_hand", what[0], str(written), *what[1:]]
            return timed(source.server, lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))

        def ours(batches: str) -> Spent:
            endpoint = {**source.config, "backfill": {"readers": arguments.readers}}
            if opened is postgres:
                endpoint["slot"] = f"ours_{next(turns)}"
            return captured(source, endpoint, folder / (batches or "lines"), batches)

        had(DLT, lambda: [import_module(name) for name in ("dlt", "connectorx", "sqlalchemy")], skipped)
        by_hand = {name: what for name, what in source.by_hand.items() if name not in skipped}
        sides: dict[str, Callable[[], Spent]] = {name: partial(typed, what) for name, what in by_hand.items()}
        debezium = had(NAME, lambda: Debezium(arguments.server, folder), skipped)
        if debezium is not None:
            sides[NAME] = lambda: timed(source.server, lambda: source.read_by(debezium, next(turns), rows))
        sides |= {name: partial(ours, batches) for name, batches in FORMS.items()}
        report(f"{rows:,} rows of {source.product}", in_turn(sides, arguments.rounds), rows, skipped=skipped)
        if debezium is not None:
            debezium.check(range(1, rows + 1))
        wanted = pq.read_table(folder / "copy").sort_by("id")
        others = {name: _files(folder / what[0]) for name, what in by_hand.items()}
        others |= {name: segments(folder / (batches or "lines"), source.table) for name, batches in FORMS.items()}
        for name, files in others.items():
            compare(wanted, files, name)


def emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def captured(source: Source, endpoint: dict[str, Any], folder: Path, batches: str = ARROW) -> Spent:
    """One capture into a new log, ``bench.log`` beside a capture file in the folder."""
    emptied(folder)
    connector = {
        "command": [sys.executable, "-m", source.connector],
        "config": endpoint,
        "environment": {BATCHES: batches},
    }
    capture = {"capture": "bench", "connector": connector, "log": "./bench.log", "tables": [{"table": source.table}]}
    (folder / "capture.yaml").write_text(yaml.safe_dump(capture))
    return timed(source.server, lambda: capture_until_caught_up(folder))


def capture_until_caught_up(folder: Path) -> None:
    """Runs the capture of ``capture.yaml`` in a folder. Raises CalledProcessError if it fails."""
    subprocess.run(
        [sys.executable, "-m", "tidemark.runtime", "capture", "capture.yaml", "--until-caught-up"],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "LOG_LEVEL": "warn"},
    )


def _files(folder: Path) -> list[Path]:
    """What was written by hand, or by dlt, which has a copy of it in another folder."""
    return list(folder.glob("*.parquet")) or list(folder.glob("files/bench/bench/*.parquet"))


def segments(folder: Path, table: str) -> list[Path]:
    """Of the log beside the capture file in a folder."""
    log = folder / "bench.log"
    opened = ChangeLog(log)
    return [log / segment.path for segment in opened.segments(table.replace(".", "/"), 0, opened.end())]


def compare(wanted: pa.Table, files: list[Path], name: str, json: Collection[str] = ("attributes",)) -> None:
    """Ends with an error if a column differs. Those that have JSON are named."""
    found = pa.concat_tables([pq.read_table(file) for file in files]).sort_by("id")
    for column in wanted.column_names:
        of_hand = wanted.column(column)
        here = found.column(column).cast(of_hand.type)
        # Some write JSON with other spaces, and its fields in another order.
        if not here.equals(of_hand) and not (column in json and _same_json(here, of_hand)):
            sys.exit(f"{name}: column {column} differs from what is got by hand")


def _same_json(one: Any, other: Any) -> bool:
    pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
    return all(orjson.loads(here) == orjson.loads(there) for here, there in pairs)


if __name__ == "__main__":
    main()
