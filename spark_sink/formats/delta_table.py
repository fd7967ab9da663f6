"""A Delta table that knows up to which log offset it is: every commit of data carries the offset.

Written through ``deltalake`` (delta-rs), without any jar. Two processes that go on from the same version of the table
cannot both commit: the second one is refused.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Field, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from protocol.errors import SparkError
from spark_sink.formats.data_files import DataFile, KeyBounds, listed_bounds, listed_files
from spark_sink.formats.delta_log import DeltaLog
from spark_sink.formats.file_statistics import INDEXED_COLUMNS
from spark_sink.formats.positions import EngineCommit, Owner, Positions, TableVersion
from spark_sink.tables.column_types import Columns, arrow_schema, spark_type

RETENTION = timedelta(days=1)
"""Files that left a table are kept so long at most, for reading old versions of it."""

_PROPERTIES = {
    "delta.checkpointInterval": "100",
    "delta.enableDeletionVectors": "false",
    "delta.logRetentionDuration": "interval 7 days",
    "delta.deletedFileRetentionDuration": f"interval {RETENTION.days} days",
}


class PositionedTable:
    """One Delta table and its position in a change log.

    Args:
        path: The table's directory.
        log_id: Of the change log.
        target: Name of the ``Target``. It is stored with the position.
        version: Of the table to read, which cannot be written then; by default the newest.

    Raises:
        SparkError: ``TM-SPK-009`` when there is a table that was not kept from this log, ``TM-SPK-016`` when others
            changed its rows, ``TM-SPK-017`` when it is a copy of another target. Every method may raise ``TM-SPK-010``
            when another process committed first, ``TM-SPK-015`` when the table is damaged.
    """

    def __init__(self, path: Path, log_id: str, target: str, version: int | None = None) -> None:
        self.path = path
        self._owner = Owner(log_id, target)
        self._positions = Positions(path, self._owner)
        self._table: DeltaTable | None = None
        self._fixed_version = version
        self.refresh()

    @property
    def exists(self) -> bool:
        return self._table is not None

    @property
    def position(self) -> int:
        """All events below this offset are applied; 0 for a table that is not there."""
        return 0 if self._table is None else self._positions.of(self._table)

    @property
    def version(self) -> int:
        """Of the Delta table."""
        return self._opened.version()

    @property
    def rows(self) -> int:
        """How many rows the table has, from its files' statistics."""
        return int(pc.sum(self._actions.column("num_records")).as_py() or 0)

    @property
    def size(self) -> int:
        """Bytes of the files that are its present version."""
        return int(pc.sum(self._actions.column("size_bytes")).as_py() or 0)

    @property
    def columns(self) -> dict[str, str]:
        """Names and Spark types of the table's columns."""
        schema: Any = self._opened.schema()
        return {field.name: spark_type(field.type) for field in pa.schema(schema)}

    def files(self) -> list[DataFile]:
        """The files of this version, without their statistics.

        Raises:
            SparkError: ``TM-SPK-018`` when rows of a file are not simply those in it.
        """
        return listed_files(self._plain_actions())

    def bounds(self, key: Mapping[str, str]) -> list[tuple[DataFile, KeyBounds]]:
        """The files of this version, each with the box that encloses its keys.

        Args:
            key: Names and Spark types of the key's columns, in order.

        Raises:
            SparkError: As ``files``.
        """
        actions = self._plain_actions()
        return list(zip(listed_files(actions), listed_bounds(actions, key), strict=True))

    def versions(self) -> Iterator[TableVersion]:
        """The versions that can still be read and whose position is known, from the newest back."""
        return iter(()) if self._table is None else self._positions.versions(self._table)

    def at(self, version: int) -> PositionedTable:
        """The table as it was at one of ``versions``, to be read only."""
        return PositionedTable(self.path, self._owner.log_id, self._owner.target, version)

    def refresh(self) -> None:
        """Takes in what others, such as a compaction, committed, or that the table is not there any more."""
        self.__dict__.pop("_actions", None)
        self.__dict__.pop("engine_only", None)
        with self._answering():
            if not DeltaTable.is_deltatable(str(self.path)):
                self._table, self._positions = None, Positions(self.path, self._owner)
            elif self._table is None:
                self._table = DeltaTable(str(self.path), version=self._fixed_version)
            elif self._fixed_version is None:
                self._table.update_incremental()
            self._check_owner()

    def checkpoint(self) -> None:
        """Writes a checkpoint of this version, which costs less to open than many commits."""
        with self._answering():
            self._opened.create_checkpoint()

    def create(self, columns: Columns, description: str, key: Sequence[str] = ()) -> None:
        """Makes the table, empty, at position 0.

        Args:
            columns: Names and Spark types.
            description: For people.
            key: Names of the key's columns: statistics of them are kept, wherever they are.
        """
        names = list(columns)
        properties = dict(_PROPERTIES)
        if key and (indexed := 1 + max(names.index(name) for name in key)) > INDEXED_COLUMNS:
            properties["delta.dataSkippingNumIndexedCols"] = str(indexed)
        with self._answering():
            if DeltaTable.is_deltatable(str(self.path)):
                raise SparkError("TM-SPK-010", f"{self.path}: another process has created the table")
            self._table = DeltaTable.create(
                str(self.path),
                schema=arrow_schema(columns),
                description=description,
                configuration=properties,
                commit_properties=self._owner.commit_properties(0, 0),
            )

    def add_columns(self, columns: Columns) -> None:
        """Adds columns, null in the rows that are there."""
        fields = Schema.from_arrow(arrow_schema(columns)).fields
        with self._committing(self.position) as properties:
            self._opened.alter.add_columns(
                [Field(field.name, field.type, nullable=True) for field in fields], commit_properties=properties
            )

    def commit(
        self, adds: Sequence[DataFile], removes: Sequence[str], position: int, *, data_change: bool = True
    ) -> None:
        """Makes one commit on the version that is open. With neither adds nor removes it moves the position.

        Args:
            adds: Files that are in the table's directory already.
            removes: Paths of files of this version.
            position: Of the table afterwards.
            data_change: False for a compaction: the rows are the same as before.

        Raises:
            SparkError: ``TM-SPK-010`` when the table has a newer version, whatever that one did, or a file to be
                removed is not in this version. Nothing is done then.
        """
        now = time.time_ns() // 1_000_000
        sizes = {file.path: file.size for file in listed_files(self._actions)} if removes else {}
        if gone := [path for path in removes if path not in sizes]:
            raise SparkError("TM-SPK-010", f"{self.path}: version {self.version} does not have the file {gone[0]}")
        actions: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.size, {}, now, data_change, file.stats) for file in adds
        ]
        actions += [RemoveAction(path, data_change, now, sizes[path], {}) for path in removes]
        with self._committing(position) as properties:
            self._opened.create_write_transaction(
                actions, "append", self._opened.schema(), commit_properties=properties
            )

    def _check_owner(self) -> None:
        if self._table is None:
            return
        if self._table.transaction_version(self._owner.position_transaction) is None:
            raise SparkError("TM-SPK-009", f"{self.path} holds a Delta table that was not kept from this change log")
        self._positions.of(self._table)

    @property
    def _opened(self) -> DeltaTable:
        assert self._table is not None, "the table is created before it is used"
        return self._table

    @cached_property
    def _actions(self) -> pa.Table:
        with self._answering():
            return pa.table(self._opened.get_add_actions(flatten=True))

    @cached_property
    def engine_only(self) -> SparkError | None:
        """Why the table's rows are not simply those in its files under the columns' own names; None where they are."""
        features = self._opened.protocol().reader_features or []
        mapping = self._opened.metadata().configuration.get("delta.columnMapping.mode", "none")
        with self._answering():
            vectors = "deletionVectors" in features and next(iter(self._opened.deletion_vectors()), None) is not None
        if not vectors and mapping == "none":
            return None
        found = "deletion vectors" if vectors else "column mapping"
        return SparkError("TM-SPK-018", f"{self.path}: another program added {found}")

    def engine_commit(self, position: int) -> EngineCommit:
        """What the next commit carries when the session's own engine makes it."""
        return self._owner.engine_commit(position, self.version + 1)

    def bytes_written(self) -> int:
        """Of new files, by what the engine that made the newest commit says of it; 0 when it says nothing."""
        commit = DeltaLog(self.path).commit(self.version)
        metrics = commit.info.get("operationMetrics", {}) if commit else {}
        return int(metrics.get("numTargetBytesAdded", 0))

    def _plain_actions(self) -> pa.Table:
        """The add actions of a table whose files are plain Parquet: all their rows, under the columns' own names."""
        if self.engine_only is not None:
            raise self.engine_only
        return self._actions

    @contextmanager
    def _committing(self, position: int) -> Iterator[CommitProperties]:
        """Surrounds a commit, after which the table is at ``position``."""
        assert self._fixed_version is None, "an old version is read only"
        self._positions.of(self._opened)  # refuses to go on from what others wrote
        version = self.version + 1
        with self._answering():
            yield self._owner.commit_properties(position, version)
            self._positions.remember(version, position)
        self.refresh()

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except CommitFailedError as error:
            raise SparkError(
                "TM-SPK-010", f"{self.path}: another process committed after version {self.version} ({_reason(error)})"
            ) from error
        except (DeltaError, OSError) as error:
            raise SparkError("TM-SPK-015", f"{self.path}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """What delta-rs says, in one line: it may come as a tree, in colours, with structures and a stack."""
    plain = re.sub(r"\x1b\[[0-9;]*m|↳", "", str(error))
    lines = [line.strip(" :") for line in plain.splitlines() if line.strip() and not re.match(r"\s*(\d+:|at) ", line)]
    told = re.sub(r'\w+ \{[^{}]*message: "([^"]*)" \}', r"\1", ": ".join(lines))
    return re.sub(r" \w+ \{.*", "", told)
