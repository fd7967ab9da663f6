"""The whole way of changes: from a database's log to committed segments, against the server's own client.

    python -m benchmarks.capture.changes [--server mariadb] [--changes 500000] [--each 1000] [--rounds 3]

The client, ``pg_recvlogical`` or ``mariadb-binlog --raw``, writes what the server sends to a file, and decodes nothing.
Ours is ``tidemark capture --until-caught-up``, with batches of columns and with lines, of a table of ten columns whose
rows are updated, so many in a transaction. All stand before the changes, and begin as new processes; the sides
alternate. At the end the logs of both forms are compared, row by row.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.capture.first_capture import FORMS, capture_until_caught_up
from benchmarks.processor_time import Spent, timed
from benchmarks.results import in_turn, report
from benchmarks.source import mysql_log
from benchmarks.source.postgres_server import config, published_table
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.environment import BATCHES
from tidemark.testing.servers.mariadb import MARIADB, MariaDb, no_source
from tidemark.testing.servers.server_process import ServerProcess

ROWS = 100_000
"""Of the table: they are updated in turn."""

UPDATES = f"""
CREATE PROCEDURE bench.updates(changes INT, at_once INT)
BEGIN
    DECLARE i INT DEFAULT 0;
    WHILE i < changes DO
        UPDATE bench.bench SET quantity = quantity + 1 WHERE id > i % {ROWS} AND id <= i % {ROWS} + at_once;
        SET i = i + at_once;
    END WHILE;
END"""
"""Each is a transaction, as nobody begins one."""


@dataclass(frozen=True)
class Source:
    """A server with the table ``bench``.

    Attributes:
        server: Its process.
        product: Its name.
        connector: The module of ours.
        config: Of the connector, for a capture of this name.
        table: With its schema.
        peer: The name of the server's own client.
        differs: A column that may differ: it says where the log stood before the first transaction.
        change: Makes so many changes, so many in a transaction.
        begin: Makes a place in the log, of this name, from which the client reads.
        receive: The command that reads from there to the end, into a folder.
    """

    server: ServerProcess
    product: str
    connector: str
    config: Callable[[str], dict[str, Any]]
    table: str
    peer: str
    differs: str
    change: Callable[[int, int], None]
    begin: Callable[[str], None]
    receive: Callable[[str, str], list[str]]


@contextmanager
def postgres() -> Iterator[Source]:
    with published_table(ROWS) as (running, session):

        def change(changes: int, each: int) -> None:
            update = f"UPDATE bench SET quantity = quantity + 1 WHERE id > first AND id <= first + {each}"
            session.execute(
                f"""DO $$ DECLARE first bigint; BEGIN
                    FOR i IN 0..{changes // each - 1} LOOP first := i * {each} % {ROWS}; {update}; COMMIT; END LOOP;
                END $$"""
            )

        def begin(name: str) -> None:
            session.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])

        def receive(name: str, folder: str) -> list[str]:
            return [
                str(running.binaries / "pg_recvlogical"),
                *("-d", running.dsn, "--slot", name, "--start", "--no-loop", "--endpos", _end(session)),
                *("-o", "proto_version=1", "-o", "publication_names=bench", "-f", f"{folder}/received"),
            ]

        yield Source(
            running,
            f"PostgreSQL {running.version}",
            "tidemark.connectors.postgres",
            lambda name: config(running, slot=name, publication="bench"),
            "public.bench",
            "pg_recvlogical",
            "_loc",
            change,
            begin,
            receive,
        )


def _end(session: psycopg.Connection) -> str:
    row = session.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    assert row is not None
    return str(row[0])


@contextmanager
def mariadb() -> Iterator[Source]:
    programs, client = MARIADB.installed(), shutil.which("mariadb-binlog")
    if programs is None or client is None:
        sys.exit(no_source(MARIADB))
    with MARIADB.server(programs, settings={"innodb_buffer_pool_size": "1G"}) as running:
        version = f"{programs.version}-MariaDB"
        server = MariaDb(running.host, running.port, running.user, running.password, version, running)
        mysql_log.make_table(server, ROWS)
        mysql_log.execute(server, UPDATES)
        starts: dict[str, tuple[str, int]] = {}

        def begin(name: str) -> None:
            starts[name] = mysql_log.end_of_log(server)

        def receive(name: str, folder: str) -> list[str]:
            file, offset = starts[name]
            return [
                *(str(client), "--no-defaults", "--read-from-remote-server", "--raw", "--to-last-log", "--skip-ssl"),
                *(f"--host={server.host}", f"--port={server.port}", f"--user={server.user}"),
                *(f"--password={server.password}", f"--start-position={offset}", f"--result-file={folder}/", file),
            ]

        yield Source(
            running,
            f"MariaDB {programs.version}",
            "tidemark.connectors.mysql",
            lambda _: server.config(),
            "bench.bench",
            "mariadb-binlog",
            "",
            lambda changes, each: mysql_log.execute(server, f"CALL bench.updates({changes}, {each})"),
            begin,
            receive,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--server", choices=("postgres", "mariadb"), default="postgres")
    parser.add_argument("--changes", type=int, default=500_000)
    parser.add_argument("--each", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rounds = range(arguments.rounds)
    opened = mariadb if arguments.server == "mariadb" else postgres
    with opened() as source, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for turn in rounds:
            source.begin(f"peer_{turn}")
            for form in FORMS.values():
                _prepare(source, folder / _named(form, turn), form)
        source.change(arguments.changes, arguments.each)
        turns = {form: iter(rounds) for form in (source.peer, *FORMS.values())}

        def peer() -> Spent:
            return _received(source, f"peer_{next(turns[source.peer])}")

        def ours(form: str) -> Spent:
            return timed(source.server, lambda: capture_until_caught_up(folder / _named(form, next(turns[form]))))

        sides: dict[str, Callable[[], Spent]] = {source.peer: peer}
        sides |= {name: partial(ours, form) for name, form in FORMS.items()}
        each = "one change" if arguments.each == 1 else f"{arguments.each:,} changes"
        what = f"{arguments.changes:,} changes of {source.product}, {each} a transaction"
        report(what, in_turn(sides, arguments.rounds), arguments.changes, "changes")
        _compare(source, [folder / _named(form, 0) / "bench.log" for form in FORMS.values()], arguments.changes)


def _named(form: str, turn: int) -> str:
    return f"{form or 'lines'}_{turn}"


def _prepare(source: Source, folder: Path, form: str) -> None:
    """A capture that has its place in the log, and nothing of the table's rows."""
    folder.mkdir()
    connector = {
        "command": [sys.executable, "-m", source.connector],
        "config": source.config(folder.name),
        "environment": {BATCHES: form},
    }
    tables = [{"table": source.table, "scan": "none"}]
    capture = {"capture": "bench", "connector": connector, "log": "./bench.log", "tables": tables}
    (folder / "capture.yaml").write_text(yaml.safe_dump(capture))
    capture_until_caught_up(folder)


def _received(source: Source, name: str) -> Spent:
    with tempfile.TemporaryDirectory() as folder:
        command = source.receive(name, folder)
        return timed(source.server, lambda: subprocess.run(command, check=True, capture_output=True))


def _compare(source: Source, logs: list[Path], changes: int) -> None:
    """Ends with an error if the logs differ in more than they may."""
    tables = []
    for log in logs:
        opened = ChangeLog(log)
        segments = opened.segments(source.table.replace(".", "/"), 0, opened.end())
        tables.append(pa.concat_tables([pq.read_table(log / one.path) for one in segments]).sort_by("_offset"))
    if tables[0].num_rows != changes:
        sys.exit(f"{tables[0].num_rows} events came of {changes} changes")
    for name in tables[0].column_names:
        if name != source.differs and not tables[0].column(name).equals(tables[1].column(name)):
            sys.exit(f"column {name} has other values in columns than in lines")


if __name__ == "__main__":
    main()
