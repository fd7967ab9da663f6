"""Many small tables: what one costs ``check``, ``plan`` and ``capture --until-caught-up``, with each kind of database.

    python -m benchmarks.capture.many_tables [--server postgres mariadb mysql] [--tables 100 1000 4000] [--limit 10]

Whole commands are timed, the start of their processes included, on tables with two rows each. A table more may not cost
more than ``--limit`` milliseconds between the smallest and the largest number of tables, whatever the number: otherwise
the benchmark fails. What was captured is counted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.processor_time import Spent, spent
from benchmarks.results import note
from benchmarks.source import postgres_server
from tidemark.protocol.changelog import ChangeLog
from tidemark.testing.servers.mariadb import MARIADB, MYSQL, Product, no_source, running, source
from tidemark.testing.servers.server_process import ServerProcess

COMMANDS = (["check"], ["plan"], ["capture", "--until-caught-up"])

ROWS = 2

TABLE = """CREATE TABLE {name} (
    id bigint PRIMARY KEY, customer int NOT NULL, note varchar(200), price decimal(12,2), created timestamp NULL)"""
INSERT = "INSERT INTO {name} VALUES (1, 1, 'a note', 1.25, '2024-01-01'), (2, 1, NULL, NULL, NULL)"


@dataclass(frozen=True)
class Side:
    """A database of one kind.

    Attributes:
        name: Of the product, with its version.
        connector: The name of its connector.
        schema: Of the tables.
        config: With which the connector reaches it.
        execute: Executes statements.
        server: Its process; None where it is not ours.
    """

    name: str
    connector: str
    schema: str
    config: dict[str, Any]
    execute: Callable[[list[str]], None]
    server: ServerProcess | None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--server", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--tables", nargs="+", type=int, default=[100, 1000, 4000])
    parser.add_argument("--limit", type=float, default=10.0, help="milliseconds for a table more")
    options = parser.parse_args()
    slow = []
    for name in options.server:
        with SIDES[name]() as side:
            slow += _measure(side, sorted(options.tables), options.limit)
    if slow:
        sys.exit("\n".join(slow))


def _measure(side: Side, sizes: list[int], limit: float) -> list[str]:
    """Makes more and more tables, and runs the commands on all of them. Returns what costs more than the limit."""
    print(side.name)
    made = 0
    taken: dict[str, list[Spent]] = {command[0]: [] for command in COMMANDS}
    for size in sizes:
        names = [f"{side.schema}.t{number:05}" for number in range(made, size)]
        side.execute([statement.format(name=name) for name in names for statement in (TABLE, INSERT)])
        made = size
        with tempfile.TemporaryDirectory() as folder:
            file = _capture_file(side, Path(folder))
            for command in COMMANDS:
                taken[command[0]].append(_run(side, [*command, str(file)]))
            _check_captured(Path(folder) / "log", size)
        if side.connector == "postgres":
            side.execute(["SELECT pg_drop_replication_slot('many')", "DROP PUBLICATION many"])
        shown = "  ".join(f"{name} {runs[-1]}" for name, runs in taken.items())
        print(f"{size:6,} tables: {shown}", flush=True)
    slow = []
    for name, runs in taken.items():
        for (fewer, before), (more, after) in zip(
            zip(sizes, runs, strict=True), list(zip(sizes, runs, strict=True))[1:], strict=False
        ):
            each = (after.seconds - before.seconds) / (more - fewer) * 1000
            print(f"  {name}: a table more costs {each:.1f} ms between {fewer:,} and {more:,}, of {limit:g} ms allowed")
            processor = (after.cpu - before.cpu) / (more - fewer) * 1000
            measures = {"milliseconds a table": each, "processor milliseconds a table": processor}
            note(f"{side.name}, between {fewer:,} and {more:,} tables", {f"tidemark {name}": measures})
            if each > limit:
                slow.append(f"{side.name}: {name} takes {each:.1f} ms for a table between {fewer:,} and {more:,}")
    return slow


def _capture_file(side: Side, folder: Path) -> Path:
    file = folder / "many.yaml"
    command = [sys.executable, "-m", f"tidemark.connectors.{side.connector}"]
    settings = {
        "capture": "many",
        "connector": {"command": command, "config": side.config},
        "tables": [f"{side.schema}.t*"],
        "log": str(folder / "log"),
    }
    file.write_text(json.dumps(settings))  # JSON is YAML.
    return file


def _run(side: Side, arguments: list[str]) -> Spent:
    with spent(side.server) as found:
        command = [sys.executable, "-m", "tidemark.runtime", *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"{' '.join(arguments)} ended with {ended.returncode}: {ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return found


def _check_captured(root: Path, tables: int) -> None:
    totals = ChangeLog(root).summary().totals
    events = {total.events for total in totals.values()}
    if len(totals) != tables or events != {ROWS}:
        sys.exit(f"{len(totals)} tables with {sorted(events)} rows were captured of {tables} with {ROWS}")


@contextmanager
def _postgres() -> Iterator[Side]:
    with postgres_server.server(max_locks_per_transaction="1024") as server, postgres_server.connect(server) as session:

        def execute(statements: list[str]) -> None:
            for statement in statements:
                session.execute(statement.encode())

        yield Side(
            name=f"PostgreSQL {server.version}",
            connector="postgres",
            schema="public",
            config=postgres_server.config(server, slot="many", publication="many"),
            execute=execute,
            server=server,
        )


@contextmanager
def _mysql(product: Product) -> Iterator[Side]:
    found = source(product)
    if found is None:
        sys.exit(no_source(product))
    with running(found) as server, server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE many")

        def execute(statements: list[str]) -> None:
            for statement in statements:
                cursor.execute(statement)

        yield Side(
            name=f"{product.name} {server.version.partition('-')[0]}",
            connector="mysql",
            schema="many",
            config=server.config(),
            execute=execute,
            server=server.server,
        )


SIDES: dict[str, Callable[[], AbstractContextManager[Side]]] = {
    "postgres": _postgres,
    "mariadb": lambda: _mysql(MARIADB),
    "mysql": lambda: _mysql(MYSQL),
}


if __name__ == "__main__":
    main()
