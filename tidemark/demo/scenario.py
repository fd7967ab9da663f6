"""What happens in the demo, from an empty directory to tables in a lake that equal the source."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import psycopg

from tidemark.demo import shop
from tidemark.demo.comparison import Comparison, Row, compare, json_columns, source_rows
from tidemark.demo.directory import DemoDirectory
from tidemark.demo.display import Display, Step, number
from tidemark.demo.lake import lake_rows
from tidemark.demo.measurements import LogProgress, RetainedWal, captured_twice
from tidemark.demo.processes import Command
from tidemark.protocol.errors import ConnectorError
from tidemark.testing.servers.postgres_server import PostgresServer

SLOT = "tidemark_shop"
"""The replication slot of a capture called shop."""

KILL_AT = 0.4
"""The share of the backfill after which the connector is killed: by the time it is dead, it is about in the middle."""

CHUNKS = 600
"""Of about how many chunks the backfill consists: enough for a middle, few enough to cost nothing."""

LIVE_SECONDS = 5.0
"""How long the shop stays busy after the backfill, so that the log is seen alone as well."""

STALLED_SECONDS = 120.0
"""After this long without a commit the capture counts as failed."""

_POLL_SECONDS = 0.02


@dataclass(slots=True)
class Findings:
    """What the summary tells of.

    Attributes:
        filled: Rows of the shop before the capture began.
        backfill_seconds: From the start of the capture to the last row of the backfill, kill and restart included.
        killed_at: Rows that were committed when the connector was killed; None when it ended before it could be.
        back_seconds: From the kill to the next commit.
        live_delays: Per commit, after the backfill, how long its oldest change waited for it.
        dealings: What the customers did, by kind.
        progress: The change log at the end.
        retained: The most WAL kept for the slot, bytes.
        unconfirmed: The most WAL not yet confirmed by the connector, bytes.
        twice: Backfill rows that stand in the change log more than once.
        tables: Source against lake, by table.
    """

    server: str = ""
    filled: int = 0
    backfill_seconds: float = 0.0
    killed_at: int | None = None
    back_seconds: float = 0.0
    live_delays: list[timedelta] = field(default_factory=list)
    dealings: Counter[str] = field(default_factory=Counter)
    progress: LogProgress = field(default_factory=lambda: LogProgress(Path()))
    retained: int = 0
    unconfirmed: int = 0
    twice: int = 0
    materialize_seconds: float = 0.0
    tables: dict[str, Comparison] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        return all(table.equal for table in self.tables.values())

    @property
    def median_delay(self) -> float | None:
        """Seconds from a commit in the source to the commit in the change log, while the capture followed."""
        delays = [delay.total_seconds() for delay in self.live_delays]
        return statistics.median(delays) if delays else None


def play(demo: DemoDirectory, rows: int, display: Display) -> Findings:
    """Runs the whole of it; every process it starts has ended when it returns or raises.

    Raises:
        TidemarkError: What went wrong; ``TM-DEMO-003`` names the log of the command that failed.
    """
    findings = Findings(progress=LogProgress(demo.change_log))
    with ExitStack() as stack:
        with display.step("Starting PostgreSQL") as step:
            server = stack.enter_context(PostgresServer(output=demo.output("postgres")))
            step.result = f"version {server.version} on port {server.port}, in a temporary directory"
        findings.server = f"PostgreSQL {server.version}"
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            with display.step("Filling the shop") as step:
                _meanwhile(lambda: shop.fill(connection, rows), step)
                counts = shop.count(connection)
                findings.filled = sum(counts.values())
                step.result = ", ".join(f"{number(rows)} {table.split('.')[1]}" for table, rows in counts.items())
            demo.write_capture_file(server, max(findings.filled // CHUNKS, 1))
            with RetainedWal(server.dsn, SLOT) as wal:
                _capture(demo, server, findings, display)
            findings.retained, findings.unconfirmed = wal.retained, wal.unconfirmed
            findings.twice = sum(
                captured_twice(demo.change_log, key, table.replace(".", "/")) for table, key in shop.TABLES.items()
            )
            with display.step("Keeping tables with Spark") as step:
                began = time.monotonic()
                arguments = ["materialize", str(demo.capture_file), "--available-now"]
                with Command(arguments, demo.output("materialize")) as spark:
                    while spark.running:
                        step.update("tidemark materialize --available-now")
                        time.sleep(_POLL_SECONDS)
                    spark.finish()
                findings.materialize_seconds = time.monotonic() - began
                step.result = f"{len(shop.TABLES)} Delta tables in {demo.lake}"
            with display.step("Comparing source and lake, row by row") as step:
                for table, key in shop.TABLES.items():
                    findings.tables[table] = _compare(connection, demo, table, key, step)
                step.result = f"{number(sum(table.rows for table in findings.tables.values()))} rows"
    return findings


def _capture(demo: DemoDirectory, server: PostgresServer, findings: Findings, display: Display) -> None:
    """Backfill and log together, with a kill in the middle, until the change log has everything."""
    progress = findings.progress
    with shop.Customers(server.dsn) as customers:

        def watch(step: Step, capture: Command, until: Callable[[], bool]) -> None:
            """Shows how the change log grows until it has come so far, or the command has ended well."""
            commits, since = progress.commits, time.monotonic()
            while not until() and capture.running:
                done, changes = progress.snapshot_rows.total(), progress.changes.total()
                text = f"{number(done)} of about {number(findings.filled)} rows, {number(changes)} live changes"
                step.update(text, done, findings.filled)
                time.sleep(_POLL_SECONDS)
                customers.check()
                if progress.update().commits > commits:
                    commits, since = progress.commits, time.monotonic()
                elif time.monotonic() - since > STALLED_SECONDS:
                    raise ConnectorError(
                        "TM-DEMO-003",
                        f"{step.title}: nothing was committed for {STALLED_SECONDS:g} s",
                        remedy=f"Read {capture.output}: its last lines say what happened.",
                    )
            if not capture.running:
                capture.finish()

        def run(*options: str) -> Command:
            return Command(["capture", str(demo.capture_file), *options], demo.output("capture"))

        began = time.monotonic()
        with run("--until-caught-up") as capture:
            with display.step("Backfill, while customers keep buying") as step:
                watch(step, capture, lambda: progress.snapshot_rows.total() >= findings.filled * KILL_AT)
                step.result = f"{number(progress.snapshot_rows.total())} rows are committed"
            with display.step("Killing the connector in the middle, with kill -9") as step:
                watch(step, capture, lambda: _kill(capture, findings))
                killed, commits = time.monotonic(), progress.commits
                watch(step, capture, lambda: progress.commits > commits)
                findings.back_seconds = time.monotonic() - killed
                step.result = "it was started again and resumes from the last commit"
            with display.step("The rest of the backfill") as step:
                watch(step, capture, lambda: False)
                step.result = f"{number(progress.update().snapshot_rows.total())} rows are committed"
        findings.backfill_seconds = time.monotonic() - began
        with run() as capture, display.step("Following live changes") as step:
            first = progress.commits
            watch(step, capture, lambda: progress.commits > first + 1)
            caught_up, until = len(progress.delays), time.monotonic() + LIVE_SECONDS
            watch(step, capture, lambda: time.monotonic() > until)
            findings.live_delays = progress.delays[caught_up:]
            step.result = f"{number(progress.changes.total())} changes so far"
        findings.dealings = customers.stop()
    with run("--until-caught-up") as capture, display.step("The shop closes; catching up") as step:
        watch(step, capture, lambda: False)
        step.result = f"{number(progress.update().changes.total())} changes in all"


def _kill(capture: Command, findings: Findings) -> bool:
    """Kills the connector if it runs just now, and notes how far the backfill was."""
    connector = capture.connector()
    if connector is None:
        return False
    try:
        os.kill(connector, signal.SIGKILL)
    except ProcessLookupError:
        return False
    findings.killed_at = findings.progress.snapshot_rows.total()
    return True


def _compare(
    connection: psycopg.Connection[tuple[object, ...]], demo: DemoDirectory, table: str, key: list[str], step: Step
) -> Comparison:
    columns = shop.columns(connection, table)
    source = source_rows(connection, table, columns, key)
    target = lake_rows(demo.table(table), columns, key, json_columns(connection, table))
    return compare(_counted(source, table, step), target, columns)


def _counted(rows: Iterator[Row], table: str, step: Step) -> Iterator[Row]:
    for count, row in enumerate(rows):
        if count % 5000 == 0:
            step.update(f"{table}: {number(count)} rows")
        yield row


def _meanwhile(work: Callable[[], None], step: Step) -> None:
    """Does the work in a thread, so that the step's clock goes on and Ctrl-C is heard."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        while not future.done():
            step.update("generate_series, on the server")
            time.sleep(_POLL_SECONDS)
        future.result()
