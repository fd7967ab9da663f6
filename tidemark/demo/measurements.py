"""What the demo measures: how far the change log is, how late it is, what was captured twice, what WAL was kept."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
import pyarrow.parquet as pq

from tidemark.protocol.changelog import ChangeLog, Segment
from tidemark.protocol.errors import ChangeLogError


@dataclass(slots=True)
class LogProgress:
    """Follows a change log commit by commit.

    Attributes:
        path: The log; it need not exist yet.
        snapshot_rows: Rows committed by backfills, per collection.
        changes: Events committed from the source's log, per collection.
        size: Bytes of the segments.
        delays: For each commit with changes, how long its oldest change waited from the source's commit to ours.
        commits: How many commits were read.
    """

    path: Path
    snapshot_rows: Counter[str] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    size: int = 0
    delays: list[timedelta] = field(default_factory=list)
    commits: int = 0

    def update(self) -> Self:
        """Reads the commits since the last time."""
        try:
            log = ChangeLog(self.path)
        except ChangeLogError as error:
            if error.code == "TM-LOG-001":
                return self  # the capture has not made it yet
            raise
        for commit in log.commits(self.commits):
            oldest = None
            for segment in commit.segments:
                self.snapshot_rows[segment.collection] += segment.snapshot_rows
                self.changes[segment.collection] += segment.rows - segment.snapshot_rows
                self.size += segment.size
                if segment.first_commit_ts is not None:
                    oldest = min(oldest or segment.first_commit_ts, segment.first_commit_ts)
            if oldest is not None:
                self.delays.append(commit.time - oldest)
            self.commits += 1
        return self


def captured_twice(path: Path, key: list[str], collection: str) -> int:
    """How many backfill rows stand in the change log although an earlier backfill row has the same key."""
    log = ChangeLog(path)
    seen: set[tuple[Any, ...]] = set()
    rows = 0
    for segment in log.segments(collection, 0, log.summary().next_offset):
        if segment.snapshot_rows:
            keys = list(_snapshot_keys(log, segment, key))
            rows += len(keys)
            seen.update(keys)
    return rows - len(seen)


def _snapshot_keys(log: ChangeLog, segment: Segment, key: list[str]) -> Iterator[tuple[Any, ...]]:
    table = pq.read_table(log.file(segment), columns=[*key, "_snapshot"])
    columns = table.filter(table["_snapshot"]).select(key).to_pydict()
    yield from zip(*columns.values(), strict=True)


class RetainedWal:
    """Samples, in a thread, how much WAL the server keeps for a replication slot, and how far its reader is behind.

    Args:
        dsn: A superuser's connection string.
        slot: The slot; it need not exist yet.
        interval: Seconds between samples.

    Attributes:
        retained: The most bytes from the slot's ``restart_lsn`` to the end of the WAL.
        unconfirmed: The most bytes from its ``confirmed_flush_lsn`` to the end of the WAL.
        samples: How many samples found the slot.
    """

    def __init__(self, dsn: str, slot: str, interval: float = 0.1) -> None:
        self.retained = 0
        self.unconfirmed = 0
        self.samples = 0
        self._dsn = dsn
        self._slot = slot
        self._interval = interval
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retained-wal")
        self._failure: psycopg.Error | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        if error is None and self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with psycopg.connect(self._dsn, autocommit=True) as connection:
                while not self._stopping.wait(self._interval):
                    self._sample(connection)
        except psycopg.Error as error:
            self._failure = error

    def _sample(self, connection: psycopg.Connection[Any]) -> None:
        row = connection.execute(
            "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), "
            "pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn) FROM pg_replication_slots "
            "WHERE slot_name = %s AND confirmed_flush_lsn IS NOT NULL",
            [self._slot],
        ).fetchone()
        if row is not None:
            self.retained = max(self.retained, int(row[0]))
            self.unconfirmed = max(self.unconfirmed, int(row[1]))
            self.samples += 1
