"""Reads single commits of a Delta table's log: their authors and changes, which delta-rs does not tell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from tidemark.protocol.errors import SparkError

_COMMIT = re.compile(r"\d{20}\.json")
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.(.+\.)?(parquet|json)")


@dataclass(frozen=True)
class LoggedCommit:
    """One version of a table in its log.

    Attributes:
        version: The table's version.
        info: The ``commitInfo``, which differs from engine to engine; empty if there is none.
    """

    version: int
    info: dict[str, Any]
    _path: Path = field(repr=False)

    @property
    def operation(self) -> str:
        """The operation as the engine names it, such as ``OPTIMIZE``."""
        return str(self.info.get("operation", "unknown"))

    @property
    def committed(self) -> datetime:
        """The time of the commit, by the committer's clock."""
        stamp = self.info.get("timestamp")
        return datetime.fromtimestamp(self._path.stat().st_mtime if stamp is None else stamp / 1000, UTC)

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
    def _actions(self) -> list[dict[str, Any]]:
        return list(_lines(self._path))


class DeltaLog:
    """The ``_delta_log`` of a table in a local directory.

    Raises:
        SparkError: ``TM-SPK-015`` from every method, when the log cannot be read.
    """

    def __init__(self, table: Path) -> None:
        self._folder = table / "_delta_log"

    def commit(self, version: int) -> LoggedCommit | None:
        """One commit; None if the log was cleaned of it."""
        path = self._folder / f"{version:020d}.json"
        try:
            # The info most often comes first, and a commit of many files is long: the rest is not read.
            info: dict[str, Any] = next((action["commitInfo"] for action in _lines(path) if "commitInfo" in action), {})
        except FileNotFoundError:
            return None
        return LoggedCommit(version, info, path)

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
        for part in self._folder.glob(f"{oldest:020d}.checkpoint*.parquet"):
            for path, millis in self._tombstones(part):
                removed.setdefault(path, datetime.fromtimestamp(millis / 1000, UTC))
        return removed

    def forget_before(self, checkpoint: int) -> None:
        """Deletes all that only versions before a checkpoint need."""
        old = sorted(name for name in self._names() if name[:20].isdigit() and int(name[:20]) < checkpoint)
        with _reading(self._folder):
            # From the oldest on, so that the log never has a gap.
            for name in old:
                (self._folder / name).unlink(missing_ok=True)

    def _names(self) -> list[str]:
        with _reading(self._folder):
            return [path.name for path in self._folder.iterdir()]

    def _tombstones(self, checkpoint: Path) -> Iterator[tuple[str, int]]:
        with _reading(checkpoint):
            removes = pq.ParquetFile(checkpoint).read(columns=["remove.path", "remove.deletionTimestamp"])
        there: list[Any] = removes.column("remove").drop_null().to_pylist()
        for remove in there:
            yield remove["path"], remove["deletionTimestamp"] or 0


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with _reading(path), path.open("rb") as file:
        for line in file:
            if line.strip():
                yield orjson.loads(line)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SparkError("TM-SPK-015", f"{path}: {error.strerror}") from error
    except (orjson.JSONDecodeError, pa.ArrowInvalid) as error:
        raise SparkError("TM-SPK-015", f"{path}: {error}") from error
