"""The tables that Spark keeps of a log: how far each is behind it, and which are set aside."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

from tidemark.protocol.capture_file import CaptureFile
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.errors import ChangeLogError


def spark_tables(file: CaptureFile, log: ChangeLog, now: datetime) -> dict[str, dict[str, Any]]:
    """By name and kind: how far the table is behind the log, the size of its files, and why it is set aside.

    The age of the oldest event that it lacks is 0 if it lacks none.

    As the last run of ``tidemark materialize`` has noted it.
    """
    if file.spark is None:
        return {}
    from tidemark.spark_sink.pipeline.memory import Memory, memory_place
    from tidemark.spark_sink.source.log_path import places_of

    _, warehouse = places_of(file)
    assert warehouse is not None, "the file has the entry"
    known = Memory.load(memory_place(warehouse, log.header.log_id)).tables
    lacks = _first_lacking(log, {name: one.complete_to for name, one in known.items()})
    tables = {}
    for name, one in sorted(known.items()):
        aside = one.set_aside
        since = lacks.get(name)
        tables[name.replace("/", ".")] = {
            "behind_seconds": 0.0 if since is None else round(max(0.0, (now - since).total_seconds()), 3),
            "complete_to": one.complete_to,
            "behind_events": 0 if since is None else log.end() - one.complete_to,
            "bytes": one.size,
            "set_aside": None if aside is None else f"{aside.code}: {aside.message}",
            "remedy": None if aside is None else aside.remedy,
        }
    return tables


class SparkTables:
    """The tables of one capture, for monitors that ask again and again. From any thread.

    Args:
        file: Has a ``spark`` entry.
    """

    def __init__(self, file: CaptureFile) -> None:
        self._file = file
        self._log: ChangeLog | None = None
        self._lock = threading.Lock()

    def by_kind(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The tables, by table and kind; none while the log cannot be read, which the run itself tells."""
        with self._lock:
            try:
                self._log = self._log or ChangeLog(self._file.log_store())
                found = spark_tables(self._file, self._log, datetime.now(UTC))
            except ChangeLogError:
                return {}
        return {
            (table, kind): one for (table, _, kind), one in ((name.rpartition(" "), one) for name, one in found.items())
        }

    def why_unready(self) -> list[str]:
        """The tables that are set aside, with the reasons."""
        return [
            f"{table} {kind}: {one['set_aside']}" for (table, kind), one in self.by_kind().items() if one["set_aside"]
        ]


def _first_lacking(log: ChangeLog, complete: dict[str, int]) -> dict[str, datetime]:
    """By table, when the oldest event reached the log that the table lacks."""
    found: dict[str, datetime] = {}
    if not complete:
        return found
    times: dict[int, datetime] = {}
    for number, segment in log.segments_of_all(max(min(complete.values()), log.start()), log.end()):
        for name, offset in complete.items():
            if name not in found and _collection(name) == segment.collection and segment.last_offset >= offset:
                found[name] = times.setdefault(number, log.commit(number).time)
        if len(found) == len(complete):
            break
    return found


def _collection(name: str) -> str:
    """The collection in a table's name with its kind: ``public/orders current``."""
    return name.rpartition(" ")[0]
