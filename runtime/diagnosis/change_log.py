"""Whether the change log of a capture is there, is the capture's own, and has room."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tidemark.protocol.capture_file import CaptureFile
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.consumers import consumers
from tidemark.protocol.changelog.known_tables import known_tables
from tidemark.protocol.changelog.layout import COMMITS, HEADER
from tidemark.protocol.changelog.models import Summary
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.runtime.changelog.files.failures import writing
from tidemark.runtime.changelog.files.probe import probe
from tidemark.runtime.changelog.retention.needed import needed
from tidemark.runtime.diagnosis.findings import Findings
from tidemark.runtime.progress.liveness import Liveness, liveness
from tidemark.runtime.progress.quantities import duration, size
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.progress.status_file import read_status
from tidemark.runtime.sessions.known_log import KnownLog

LEAST_FREE_BYTES = 16 * 1024 * 1024
"""With less space than this the next commits fail."""

GROWTH = timedelta(days=1)
"""The time whose growth tells when a disk is full."""

AWAY = timedelta(days=7)
"""A consumer that was not seen for so long may be gone."""

SOON = timedelta(days=7)
"""A disk that is full within this time is told."""


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A change log, what it holds, and whether its capture runs."""

    log: ChangeLog
    summary: Summary
    life: Liveness


def look_at_log(file: CaptureFile, known: KnownLog, findings: Findings) -> FoundLog | None:
    """The log of a capture file; None where there is none yet.

    Raises:
        ChangeLogError: It cannot be used.
    """
    store = file.log_store()
    try:
        log = ChangeLog(store)
    except ChangeLogError as error:
        if error.code != "TM-LOG-001":
            raise
        _new_log(store, file, known, findings)
        return None
    if log.header.capture != file.capture:
        raise ChangeLogError("TM-LOG-005", f"{store.place} is the change log of capture {log.header.capture}")
    if (path := store.directory) is not None:
        for folder in (path, path / COMMITS):
            if not os.access(folder, os.W_OK | os.X_OK):
                raise ChangeLogError("TM-LOG-008", f"this user cannot write {folder}, or its disk is read-only")
        _check_space(path, file, findings)
    else:
        probe(store)
        findings.good(f"of several creators of one object in {store.place}, one succeeds")
    summary = log.summary()
    findings.good(f"the change log at {store.place} is at commit {summary.number}")
    life = liveness(read_status(StateFolder.of_file(file.path), store))
    if life.running:
        findings.good(f"the capture is running (process {life.pid}): {life.state}")
    return FoundLog(log, summary, life)


def look_at_growth(log: ChangeLog, summary: Summary, findings: Findings) -> None:
    """Warns if the log fills its disk soon, at the rate of its last day. Raises ChangeLogError as ``ChangeLog``."""
    now = datetime.now(UTC)
    since = max(now - GROWTH, log.header.created)
    seconds = (now - since).total_seconds()
    before = log.commit_with_offset(log.offset_at(since)) - 1
    grown = _bytes(summary) - (_bytes(log.summary(before)) if before >= 0 else 0)
    start = log.log_start.number
    kept = _bytes(summary) - (_bytes(log.summary(start - 1)) if start else 0)
    findings.good(f"the log has {size(kept)}, {size(grown)} of them of the last {duration(seconds)}")
    if (directory := log.store.directory) is None:
        return
    free = shutil.disk_usage(directory).free
    # A log that is younger than that is of its backfills for the most part: they end.
    if grown > 0 and since > log.header.created and (left := free * seconds / grown) < SOON.total_seconds():
        findings.warn(
            f"at the rate of its last {duration(seconds)} the log fills the disk of {directory} in {duration(left)}: "
            f"{size(free)} are left",
            "TM-RUN-022",
        )


def look_at_readers(log: ChangeLog, summary: Summary, findings: Findings) -> None:
    """Says who needs the oldest events, and warns of consumers that were not seen for long.

    Raises:
        ChangeLogError: As ``consumers`` and ``known_tables``.
    """
    now, known = datetime.now(UTC), consumers(log.store)
    oldest = needed(summary, (table.recommended_name for table in known_tables(log.store)), known)
    if oldest.by:
        findings.good(f"{oldest.by} needs all events since offset {oldest.offset:,}: the log begins at {log.start():,}")
    for one in known:
        if (away := now - one.updated) > AWAY:
            findings.warn(
                f"consumer {one.name} was last seen {duration(away.total_seconds())} ago, at offset {one.position:,}",
                "TM-RUN-028",
            )


def _bytes(summary: Summary) -> int:
    return sum(totals.bytes for totals in summary.totals.values())


def _new_log(store: Store, file: CaptureFile, known: KnownLog, findings: Findings) -> None:
    with writing(store.where(COMMITS)):
        lost = any(store.list(COMMITS))
    if lost:
        raise ChangeLogError("TM-LOG-004", f"{store.where(HEADER)} is missing, but {store.place} holds commits")
    if log_id := known.log_id(store):
        raise ChangeLogError(
            "TM-LOG-013", f"the change log {log_id}, recorded in {known.path}, is not at {store.place}"
        )
    if (path := store.directory) is None:
        probe(store)
        findings.good(f"the change log will be created at {store.place}")
        return
    folder = next(place for place in (path, *path.parents) if os.path.lexists(place))
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise ChangeLogError("TM-LOG-008", f"cannot create {path}: {folder} is not a writable directory")
    _check_space(folder, file, findings)
    findings.good(f"the change log will be created at {path}")


def _check_space(folder: Path, file: CaptureFile, findings: Findings) -> None:
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE_BYTES:
        raise ChangeLogError("TM-LOG-008", f"the disk of {folder} has {size(free)} left")
    most = file.commit.bytes
    if free < 2 * most:
        findings.warn(f"the disk of {folder} has {size(free)} left, and a commit may take {size(most)}")
