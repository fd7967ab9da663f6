"""A Delta table with a position: every commit of data holds the log offset up to which the table is applied.

The table is written through ``deltalake`` (delta-rs), without any jar. If two processes commit on the same version of
the table, the second commit is refused.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Field, Schema, TableFeatures
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.formats.data_files import DataFile, KeyBounds, listed_bounds, listed_files
from tidemark.spark_sink.formats.delta_failures import ask_again, failed, reason_of
from tidemark.spark_sink.formats.delta_log import DeltaLog
from tidemark.spark_sink.formats.delta_storage import delta_storage
from tidemark.spark_sink.formats.file_statistics import INDEXED_COLUMNS
from tidemark.spark_sink.formats.positions import Owner, Position, Positions, TableVersion
from tidemark.spark_sink.tables.column_types import Columns, arrow_schema, spark_type
from tidemark.spark_sink.tables.store_place import StorePlace

RETENTION = timedelta(days=1)
"""How long removed files are kept at most, for reads of old versions."""

SOURCE_NAME = "tidemark.source"
"""In the metadata of a column: its name in the source, where that is another one."""

COLUMN_ID = "tidemark.column"
"""In the metadata of a column: which column of the source it is, whatever its name, where the log tells."""

_WRITTEN = frozenset(
    {
        "appendOnly", "changeDataFeed", "checkConstraints", "columnMapping", "deletionVectors", "generatedColumns",
        "invariants", "timestampNtz", "v2Checkpoint", "variantType", "variantType-preview",
    }
)  # fmt: skip
"""Features of tables that delta-rs writes. It refuses to commit to tables with others."""

_PROPERTIES = {
    "delta.checkpointInterval": "100",
    "delta.enableDeletionVectors": "false",
    "delta.logRetentionDuration": "interval 7 days",
    "delta.deletedFileRetentionDuration": f"interval {RETENTION.days} days",
}


class PositionedTable:
    """One Delta table and its position in a change log.

    Args:
        place: The table's.
        log_id: The id of the change log.
        target: The name of the ``Target``, which is stored with the position.
        version: The version to read; by default the newest. An older version cannot be written.

    Attributes:
        sources: By name, what the source calls columns that get another name, for the columns that are written next.
        ids: By name, the identities of the columns that are written next.

    Raises:
        SparkError: ``TM-SPK-009``: the table was not kept from this log. ``TM-SPK-016``: others changed its rows.
            ``TM-SPK-017``: it is a copy of another target. Every method may raise ``TM-SPK-010``: another process
            committed first, and ``TM-SPK-015``: the table is damaged.
    """

    def __init__(self, place: StorePlace, log_id: str, target: str, version: int | None = None) -> None:
        self.place = place
        self._owner = Owner(log_id, target)
        self._positions = Positions(place, self._owner)
        self._table: DeltaTable | None = None
        self._fixed_version = version
        self._storage = delta_storage(place)
        self.sources: Mapping[str, str] = {}
        self.ids: Mapping[str, str] = {}
        self.refresh()

    @property
    def exists(self) -> bool:
        return self._table is not None

    @property
    def position(self) -> int:
        """The offset below which all events are applied; 0 if there is no table."""
        return 0 if self._table is None else self.standing.offset

    @property
    def standing(self) -> Position:
        """The whole position."""
        return self._positions.of(self._opened)

    @property
    def version(self) -> int:
        """The version of the Delta table."""
        return self._opened.version()

    @property
    def rows(self) -> int:
        """How many rows the table has, from its files' statistics."""
        return int(pc.sum(self._actions.column("num_records")).as_py() or 0)

    @property
    def size(self) -> int:
        """The size of this version's files in bytes."""
        return int(pc.sum(self._actions.column("size_bytes")).as_py() or 0)

    @property
    def columns(self) -> dict[str, str]:
        """Names and Spark types of the table's columns.

        Raises:
            SparkError: ``TM-SPK-016`` for a column of a type that no table is kept with, so another program's.
        """
        schema: Any = self._opened.schema()
        columns = {}
        for field in pa.schema(schema):
            try:
                columns[field.name] = spark_type(field.type)
            except SparkError as error:
                what = f"{self.place}: another program added the column {field.name}: {error.message}"
                raise SparkError("TM-SPK-016", what) from None
        return columns

    @property
    def column_ids(self) -> dict[str, str]:
        """The identities of the table's columns by name, of those that have one."""
        fields = self._opened.schema().fields
        return {field.name: str(field.metadata[COLUMN_ID]) for field in fields if COLUMN_ID in field.metadata}

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
        """The versions that can be read and whose position is known, from the newest back."""
        return iter(()) if self._table is None else self._positions.versions(self._table)

    def at(self, version: int) -> PositionedTable:
        """The table at one of ``versions``, only for reading."""
        return PositionedTable(self.place, self._owner.log_id, self._owner.target, version)

    def refresh(self) -> None:
        """Opens the newest version, which others may have committed. The table may also be gone."""
        self.__dict__.pop("_actions", None)
        self.__dict__.pop("engine_only", None)
        with self._answering():
            ask_again(self._open)

    def _open(self) -> None:
        if self._storage != (storage := delta_storage(self.place)):
            self._storage, self._table = storage, None  # Keys were changed: a table that is open has the old ones.
        if not DeltaTable.is_deltatable(self.place.text, self._storage):
            self._table, self._positions = None, Positions(self.place, self._owner)
        elif self._table is None:
            self._table = DeltaTable(self.place.text, self._fixed_version, self._storage)
        elif self._fixed_version is None:
            self._table.update_incremental()
        if self._table is not None:
            self._positions.check_owner(self._table)

    def checkpoint(self) -> None:
        """Writes a checkpoint of this version. A checkpoint is cheaper to open than many commits."""
        with self._answering():
            ask_again(self._opened.create_checkpoint)

    def create(self, columns: Columns, description: str, key: Sequence[str] = (), generation: int = 1) -> None:
        """Creates the table, empty, at offset 0.

        Args:
            columns: Names and Spark types.
            description: The table's description.
            key: Names of the key's columns, which always get statistics.
            generation: Of the rows that it will have: see ``Position``.
        """
        names = list(columns)
        properties = dict(_PROPERTIES)
        if key and (indexed := 1 + max(names.index(name) for name in key)) > INDEXED_COLUMNS:
            properties["delta.dataSkippingNumIndexedCols"] = str(indexed)
        with self._answering():
            try:
                self._table = DeltaTable.create(
                    self.place.text,
                    schema=self._schema(columns),
                    storage_options=self._storage,
                    description=description,
                    configuration=properties,
                    commit_properties=self._owner.commit_properties(Position(0, 0, generation, 0), 0),
                )
            except DeltaError:
                if not DeltaTable.is_deltatable(self.place.text, self._storage):
                    raise
                raise SparkError("TM-SPK-010", f"{self.place}: another process has created the table") from None

    def add_columns(self, columns: Columns) -> None:
        """Adds columns, which are null in existing rows."""
        with self._committing(self.standing) as properties:
            self._opened.alter.add_columns(self._schema(columns).fields, commit_properties=properties)

    def commit(
        self, adds: Sequence[DataFile], removes: Sequence[str], position: Position, *, data_change: bool = True
    ) -> None:
        """Makes one commit on the version that is open. With neither adds nor removes it moves the position.

        Args:
            adds: New files, already at the table's place.
            removes: Paths of files of this version.
            position: The table's position after the commit.
            data_change: False for a compaction, which does not change rows.

        Raises:
            SparkError: ``TM-SPK-010``: the table has a newer version, or a file to remove is not in this version.
                Then nothing is committed.
        """
        now = time.time_ns() // 1_000_000
        sizes = {file.path: file.size for file in listed_files(self._actions)} if removes else {}
        if gone := [path for path in removes if path not in sizes]:
            raise SparkError("TM-SPK-010", f"{self.place}: version {self.version} does not have the file {gone[0]}")
        actions: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.size, {}, now, data_change, file.stats) for file in adds
        ]
        actions += [RemoveAction(path, data_change, now, sizes[path], {}) for path in removes]
        with self._committing(position) as properties:
            self._opened.create_write_transaction(
                actions, "append", self._opened.schema(), commit_properties=properties
            )

    def replace(self, adds: Sequence[DataFile], columns: Columns, position: Position) -> None:
        """Makes one commit after which the table has these files and columns alone.

        Args:
            adds: New files, already at the table's place.
            columns: Names and Spark types.
            position: The table's position after the commit.

        Raises:
            SparkError: ``TM-SPK-010``: the table has a newer version. Then its rows stay as they are.
        """
        now = time.time_ns() // 1_000_000
        schema = self._schema(columns)
        self._enable_features(columns)
        actions: list[AddAction | RemoveAction] = [
            AddAction(file.path, file.size, {}, now, True, file.stats) for file in adds
        ]
        with self._committing(position) as properties:
            self._opened.create_write_transaction(actions, "overwrite", schema, commit_properties=properties)

    def _schema(self, columns: Columns) -> Schema:
        """Columns as Delta has them, all of them nullable, with the names and identities that the source has."""
        return Schema(
            [
                Field(field.name, field.type, nullable=True, metadata=self._metadata(field.name))
                for field in Schema.from_arrow(arrow_schema(columns)).fields
            ]
        )

    def _metadata(self, name: str) -> dict[str, str]:
        told = {SOURCE_NAME: self.sources.get(name), COLUMN_ID: self.ids.get(name)}
        return {key: value for key, value in told.items() if value is not None}

    def _enable_features(self, columns: Columns) -> None:
        """Enables what readers need for these columns. Without it they could not read a table that has some later."""
        features = self._opened.protocol().reader_features or []
        if "timestampNtz" in features or not any("timestamp_ntz" in type_ for type_ in columns.values()):
            return
        with self._committing(self.standing) as properties:
            self._opened.alter.add_feature(
                TableFeatures.TimestampWithoutTimezone,
                allow_protocol_versions_increase=True,
                commit_properties=properties,
            )

    @property
    def _opened(self) -> DeltaTable:
        assert self._table is not None, "the table is created before it is used"
        return self._table

    @cached_property
    def _actions(self) -> pa.Table:
        with self._answering():
            return ask_again(lambda: pa.table(self._opened.get_add_actions(flatten=True)))

    @cached_property
    def engine_only(self) -> SparkError | None:
        """The reason why the table's files do not have exactly its rows and columns; None if they do."""
        features = self._opened.protocol().reader_features or []
        mapping = self._opened.metadata().configuration.get("delta.columnMapping.mode", "none")
        with self._answering():
            vectors = "deletionVectors" in features and ask_again(self._has_vectors)
        if not vectors and mapping == "none":
            return None
        return self._added("deletion vectors" if vectors else "column mapping")

    @property
    def engine_written(self) -> SparkError | None:
        """The reason why only an engine for the format can write the table, which others may read; None if we can."""
        unknown = sorted({*(self._opened.protocol().writer_features or [])} - _WRITTEN)
        return self.engine_only or (self._added(f"the feature {', '.join(unknown)}") if unknown else None)

    def _added(self, what: str) -> SparkError:
        return SparkError("TM-SPK-018", f"{self.place}: another program added {what}")

    def _has_vectors(self) -> bool:
        return next(iter(self._opened.deletion_vectors()), None) is not None

    def engine_settings(self, position: Position) -> dict[str, str]:
        """Spark's settings for the next commit, by the session's engine."""
        return self._owner.engine_settings(position, self.version + 1)

    def bytes_written(self) -> int:
        """The bytes of new files, as the engine of the newest commit states them; 0 if it does not."""
        commit = DeltaLog(self.place).commit(self.version)
        metrics = commit.info.get("operationMetrics", {}) if commit else {}
        return int(metrics.get("numTargetBytesAdded", 0))

    def _plain_actions(self) -> pa.Table:
        """The add actions of a table whose files have exactly its rows and columns."""
        if self.engine_only is not None:
            raise self.engine_only
        return self._actions

    @contextmanager
    def _committing(self, position: Position) -> Iterator[CommitProperties]:
        """Surrounds a commit that moves the table to ``position``."""
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
            if "append-only" in str(error):
                raise SparkError(
                    "TM-SPK-018",
                    f"{self.place}: another program set delta.appendOnly, so that no row may change",
                    remedy=(
                        "Take the table's property away: "
                        f"ALTER TABLE delta.`{self.place}` UNSET TBLPROPERTIES ('delta.appendOnly')."
                    ),
                ) from error
            raise SparkError(
                "TM-SPK-010",
                f"{self.place}: another process committed after version {self.version} ({reason_of(error)})",
            ) from error
        except (DeltaError, OSError) as error:
            raise failed(self.place, error) from error
