"""The most memory that each process of a capture holds, as tables and what is in them grow.

    python -m benchmarks.capture.memory [--rows 1000000] [--times 4]

Each line is a capture until it is caught up: of a table of ten columns with so many rows and with several times more,
of one of a hundred columns, of one with values of 30 MB; then of changes, in small transactions and in one. It is what
proc_pid_status(5) calls VmHWM: of the runtime, of the connector, and of the largest of its readers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchmarks.capture.first_capture import capture_until_caught_up
from benchmarks.processor_time import children
from benchmarks.source import mysql_log
from benchmarks.source.postgres_server import config, published_table
from tidemark.testing.servers.mariadb import MARIADB, MariaDb, no_source

LOOK_SECONDS = 0.02
LARGE_VALUES = 40
LARGE_BYTES = 30 * 1024 * 1024
WIDE_COLUMNS = 100


@dataclass
class Peaks:
    """The most MiB that each process held, by its role."""

    held: dict[str, float] = field(default_factory=dict)

    def look(self, runtime: int) -> None:
        self._note("runtime", runtime)
        for connector in children(runtime):
            self._note("connector", connector)
            for below in _descendants(connector):
                self._note("reader", below)

    def _note(self, role: str, pid: int) -> None:
        self.held[role] = max(self.held.get(role, 0.0), _peak(pid))


def _descendants(pid: int) -> Iterator[int]:
    for child in children(pid):
        yield child
        yield from _descendants(child)


def _peak(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0.0)


@contextmanager
def _watched() -> Iterator[Peaks]:
    """Looks at the processes that this one starts, until the end of the block."""
    peaks, over = Peaks(), threading.Event()
    own = Path("/proc/self").resolve().name

    def watch() -> None:
        while not over.wait(LOOK_SECONDS):
            for runtime in children(int(own)):
                if b"tidemark.runtime" in _command(runtime):
                    peaks.look(runtime)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peaks
    finally:
        over.set()
        thread.join()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


@dataclass(frozen=True)
class Source:
    """A server, and how it runs statements.

    Attributes:
        name: Of the database.
        module: Of the connector.
        config: Of the connector, for a capture of this name.
        run: Runs statements.
        schema: Of the tables.
        wide: Makes the table ``wide`` with rows of a hundred columns.
        large: Makes the table ``large`` with values of 30 MB.
    """

    name: str
    module: str
    config: Callable[[str], dict[str, Any]]
    run: Callable[..., None]
    schema: str
    wide: tuple[str, ...]
    large: tuple[str, ...]


@contextmanager
def postgres(rows: int) -> Iterator[Source]:
    columns = ", ".join(f"c{n} text" for n in range(WIDE_COLUMNS - 1))
    values = ", ".join(f"'value {n} of ' || i" for n in range(WIDE_COLUMNS - 1))
    with published_table(rows) as (running, session):

        def run(*statements: str) -> None:
            for statement in statements:
                session.execute(statement)

        yield Source(
            "PostgreSQL",
            "tidemark.connectors.postgres",
            lambda name: config(running, slot=name, publication="bench"),
            run,
            "public",
            (
                f"CREATE TABLE wide (id bigint PRIMARY KEY, {columns})",
                f"INSERT INTO wide SELECT i, {values} FROM generate_series(1, {rows // 4}) i",
                "ALTER PUBLICATION bench ADD TABLE wide",
            ),
            (
                "CREATE TABLE large (id bigint PRIMARY KEY, value text)",
                f"INSERT INTO large SELECT i, repeat('x', {LARGE_BYTES}) FROM generate_series(1, {LARGE_VALUES}) i",
                "ALTER PUBLICATION bench ADD TABLE large",
            ),
        )


@contextmanager
def mariadb(rows: int) -> Iterator[Source]:
    programs = MARIADB.installed()
    if programs is None:
        sys.exit(no_source(MARIADB))
    columns = ", ".join(f"c{n} varchar(18) CHARACTER SET ascii" for n in range(WIDE_COLUMNS - 1))
    values = ", ".join(f"CONCAT('value {n} of ', id)" for n in range(WIDE_COLUMNS - 1))
    settings = {"innodb_buffer_pool_size": "1G", "max_allowed_packet": "64M", "innodb_log_file_size": "1G"}
    with MARIADB.server(programs, settings=settings) as running:
        server = MariaDb(running.host, running.port, running.user, running.password, server=running)
        mysql_log.make_table(server, rows)
        yield Source(
            "MariaDB",
            "tidemark.connectors.mysql",
            lambda _: server.config(),
            lambda *statements: mysql_log.execute(server, *statements),
            "bench",
            (
                f"CREATE TABLE bench.wide (id bigint PRIMARY KEY, {columns})",
                f"INSERT INTO bench.wide SELECT id, {values} FROM bench.bench WHERE id <= {rows // 4}",
            ),
            (
                "CREATE TABLE bench.large (id bigint PRIMARY KEY, value longtext)",
                f"INSERT INTO bench.large SELECT id, REPEAT('x', {LARGE_BYTES}) FROM bench.bench "
                f"WHERE id <= {LARGE_VALUES}",
            ),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=4, help="how many times the rows of the larger table")
    parser.add_argument("--server", choices=("postgres", "mariadb"))
    arguments = parser.parse_args()
    print(f"{'MiB at most':<52} {'runtime':>9} {'connector':>9} {'reader':>9}")
    opened = {"postgres": postgres, "mariadb": mariadb}
    for name in [arguments.server] if arguments.server else opened:
        with opened[name](arguments.rows) as source:
            _all(source, arguments.rows)
        # MariaDB's table of the benchmarks has a million rows at most.
        if name == "postgres" and arguments.times > 1:
            with postgres(arguments.rows * arguments.times) as source, tempfile.TemporaryDirectory() as folder:
                _tell(source, f"chunks, {arguments.rows * arguments.times:,} rows", _captured(source, folder, "bench"))


def _all(source: Source, rows: int) -> None:
    bench = f"{source.schema}.bench"
    with tempfile.TemporaryDirectory() as folder:
        _tell(source, f"chunks, {rows:,} rows", _captured(source, folder, "bench"))
        each = f"UPDATE {bench} SET quantity = quantity + 1 WHERE id > {{0}} AND id <= {{0}} + 1000"
        source.run(*(each.format(first) for first in range(0, rows // 2, 1000)))
        _tell(source, f"{rows // 2:,} updates, of 1,000 each", _captured(source, folder, "bench"))
        source.run(f"UPDATE {bench} SET quantity = quantity + 1")
        _tell(source, f"{rows:,} updates in one transaction", _captured(source, folder, "bench"))
    for table, what, statements in (
        ("wide", f"chunks, {rows // 4:,} rows of {WIDE_COLUMNS} columns", source.wide),
        ("large", f"chunks, {LARGE_VALUES} values of 30 MB", source.large),
    ):
        source.run(*statements)
        with tempfile.TemporaryDirectory() as folder:
            _tell(source, what, _captured(source, folder, table))
            change = "quantity = quantity + 1" if table == "bench" else None
            changed = change or ("c1 = 'another'" if table == "wide" else "value = CONCAT(value, 'y')")
            source.run(f"UPDATE {source.schema}.{table} SET {changed}")
            _tell(source, f"all of them updated in one transaction ({table})", _captured(source, folder, table))


def _captured(source: Source, folder: str, table: str) -> Peaks:
    file = Path(folder) / "capture.yaml"
    connector = {"command": [sys.executable, "-m", source.module], "config": source.config(table)}
    tables = [{"table": f"{source.schema}.{table}"}]
    file.write_text(yaml.safe_dump({"capture": "bench", "connector": connector, "log": "./log", "tables": tables}))
    with _watched() as peaks:
        capture_until_caught_up(Path(folder))
    return peaks


def _tell(source: Source, what: str, peaks: Peaks) -> None:
    held = (f"{peaks.held.get(role, 0.0):>9.0f}" for role in ("runtime", "connector", "reader"))
    print(f"{source.name + ': ' + what:<52} {' '.join(held)}", flush=True)


if __name__ == "__main__":
    main()
