"""Reads single commits of a Delta table's log: their authors and changes, which delta-rs does not tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import orjson

from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.tables.store_place import StorePlace

_FOLDER = "_delta_log"
_COMMIT = re.compile(r"\d{20}\.json")
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.(.+\.)?(parquet|json)")

_BEGIN = 64 * 1024
"""Bytes of a commit that are read first. Its info most often comes first, and a commit of many files is long."""


@dataclass(frozen=True)
class LoggedCommit:
    """One version of a table in its log.

    Attributes:
        version: The table's version.
        info: The ``commitInfo``, which differs from engine to engine; empty if there is none.
    """

    version: int
    info: dict[str, Any]
    _table: StorePlace = field(repr=False)

    @property
    def operation(self) -> str:
        """The operation as the engine names it, such as ``OPTIMIZE``."""
        return str(self.info.get("operation", "unknown"))

    @property
    def committed(self) -> datetime:
        """The time of the commit, by the committer's clock."""
        stamp = self.info.get("timestamp")
        return datetime.fromtimestamp(self._modified if stamp is None else stamp / 1000, UTC)

    @cached_property
    def files(self) -> tuple[frozenset[str], frozenset[str]]:
        """The paths of the files that the commit added and removed."""
        added, removed = (
            frozenset(action[kind]["path"] for action in self._actions if kind in action) for kind in ("add", "remove")
        )
        return added, removed

    @cached_property
    def changes_data(self) -> bool:
        """Whether the commit may have changed rows. A compaction moves rows and changes none."""
        files = [action.get("add") or action.get("remove") for action in self._actions]
        return any(file["dataChange"] for file in files if file)

    @cached_property
    def changes_columns(self) -> bool:
        """Whether the commit states the table's columns and settings, as one that changes them does."""
        return any("metaData" in action for action in self._actions)

    @cached_property
    def _actions(self) -> list[dict[str, Any]]:
        with _reading(self._table, path := _commit_path(self.version)):
            return list(_parsed(self._table.store.read(path).splitlines()))

    @property
    def _modified(self) -> float:
        """The time of the file, by the clock of its store."""
        path = _commit_path(self.version)
        with _reading(self._table, path):
            # The first of all files after a name that is the file's without its end.
            return next(self._table.store.list(_FOLDER, after=path[:-1])).modified


class DeltaLog:
    """The ``_delta_log`` of a table.

    Raises:
        SparkError: ``TM-SPK-015`` from every method, when the log cannot be read.
    """

    def __init__(self, table: StorePlace) -> None:
        self._table = table

    def commit(self, version: int) -> LoggedCommit | None:
        """One commit; None if the log was cleaned of it."""
        store, path = self._table.store, _commit_path(version)
        with _reading(self._table, path):
            try:
                begin = store.read(path, 0, _BEGIN)
                info = _info(begin.splitlines() if len(begin) < _BEGIN else begin.splitlines()[:-1])
                if info is None:
                    info = _info(store.read(path).splitlines())
            except FileNotFoundError:
                return None
        return LoggedCommit(version, info or {}, self._table)

    def first_commit(self) -> int:
        """The oldest commit in the log."""
        return min((int(name[:20]) for name in self._names() if _COMMIT.fullmatch(name)), default=0)

    def checkpoints(self) -> list[int]:
        """The versions with a checkpoint. Later versions can be read from it without older commits."""
        return sorted({int(name[:20]) for name in self._names() if _CHECKPOINT.fullmatch(name)})

    def oldest_version(self) -> int:
        """The oldest version that can be read. All commits after it are in the log."""
        first = self.first_commit()
        return min((version for version in self.checkpoints() if version >= first - 1), default=first) if first else 0

    def removals(self, version: int) -> dict[str, datetime]:
        """The files that were removed up to a version, with the times that the log has."""
        removed: dict[str, datetime] = {}
        oldest = self.oldest_version()
        for number in range(version, oldest, -1):
            if commit := self.commit(number):
                for path in commit.files[1]:
                    removed.setdefault(path, commit.committed)
        for name in self._names():
            if name.startswith(f"{oldest:020d}.checkpoint") and name.endswith(".parquet"):
                for path, millis in self._tombstones(name):
                    removed.setdefault(path, datetime.fromtimestamp(millis / 1000, UTC))
        return removed

    def forget_before(self, checkpoint: int) -> None:
        """Deletes all that only versions before a checkpoint need."""
        old = sorted(name for name in self._names() if name[:20].isdigit() and int(name[:20]) < checkpoint)
        with _reading(self._table, _FOLDER):
            # From the oldest on, so that the log never has a gap.
            for name in old:
                self._table.store.delete(f"{_FOLDER}/{name}")

    def _names(self) -> list[str]:
        with _reading(self._table, _FOLDER):
            return [entry.path.removeprefix(f"{_FOLDER}/") for entry in self._table.store.list(_FOLDER)]

    def _tombstones(self, checkpoint: str) -> Iterator[tuple[str, int]]:
        with self._table.parquet(f"{_FOLDER}/{checkpoint}") as parquet:
            removes = parquet.read(columns=["remove.path", "remove.deletionTimestamp"])
        there: list[Any] = removes.column("remove").drop_null().to_pylist()
        for remove in there:
            yield remove["path"], remove["deletionTimestamp"] or 0


def _commit_path(version: int) -> str:
    return f"{_FOLDER}/{version:020d}.json"


def _info(lines: Iterable[bytes]) -> dict[str, Any] | None:
    """The ``commitInfo`` among a commit's lines; None if these have none."""
    return next((action["commitInfo"] for action in _parsed(lines) if "commitInfo" in action), None)


def _parsed(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    return (orjson.loads(line) for line in lines if line.strip())


@contextmanager
def _reading(table: StorePlace, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise table.failed(error, path) from error
    except orjson.JSONDecodeError as error:
        raise SparkError("TM-SPK-015", f"{table.store.where(path)}: {error}") from error
