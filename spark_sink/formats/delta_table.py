"""A Delta table that knows up to which log offset it is: every commit of data carries the offset.

The offset is the version of an application transaction (Delta protocol, ``txn`` action) whose application is the change
log, so it changes with the data or not at all. Two processes that go on from the same version of the table cannot both
commit: the second one's transaction conflicts. Written through ``deltalake`` (delta-rs), without any jar.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from protocol.errors import SparkError
from spark_sink.changes.net_changes import DELETED, PartialColumn
from spark_sink.tables.column_types import Columns, arrow_schema, quoted, spark_type

_EXACT_STATISTICS = ("bigint", "date")
"""Types whose extremes in a Delta file's statistics are exact: strings may be cut short, times are in milliseconds."""


class PositionedTable:
    """One Delta table and its position in a change log.

    Args:
        path: The table's directory.
        log_id: Of the change log.

    Raises:
        SparkError: ``TM-SPK-009`` when there is a table that was not kept from this log. Every method may raise
            ``TM-SPK-010`` when another process committed first, ``TM-SPK-015`` when the table is damaged.
    """

    def __init__(self, path: Path, log_id: str) -> None:
        self.path = path
        self._application = f"tidemark:{log_id}"
        with self._answering():
            self._table = DeltaTable(str(path)) if DeltaTable.is_deltatable(str(path)) else None
        if self._table is not None and self._table.transaction_version(self._application) is None:
            raise SparkError("TM-SPK-009", f"{path} holds a Delta table that was not kept from this change log")

    @property
    def exists(self) -> bool:
        return self._table is not None

    @property
    def position(self) -> int:
        """All events below this offset are applied."""
        return (self._table and self._table.transaction_version(self._application)) or 0

    @property
    def version(self) -> int:
        """Of the Delta table."""
        return self._opened.version()

    @property
    def rows(self) -> int:
        """How many rows the table has, from its files' statistics."""
        counts = self._opened.get_add_actions(flatten=True).column("num_records")
        return sum(count for count in counts.to_pylist() if count is not None)

    @property
    def columns(self) -> dict[str, str]:
        """Names and Spark types of the table's columns."""
        schema: Any = self._opened.schema()
        return {field.name: spark_type(field.type) for field in pa.schema(schema)}

    def refresh(self) -> None:
        """Takes in what others, such as a compaction, committed."""
        if self._table is not None:
            with self._answering():
                self._table.update_incremental()

    def create(self, columns: Columns, description: str) -> None:
        """Makes the table, empty, at position 0."""
        schema = arrow_schema(columns)
        with self._answering():
            self._table = DeltaTable.create(
                str(self.path), schema=schema, description=description, commit_properties=self._properties(0)
            )

    def add_columns(self, columns: Columns) -> None:
        """Adds columns, null in the rows that are there."""
        fields = Schema.from_arrow(arrow_schema(columns)).fields
        with self._answering():
            self._opened.alter.add_columns([Field(field.name, field.type, nullable=True) for field in fields])

    def append(self, rows: pa.Table, position: int) -> None:
        """Adds rows."""
        self._write(rows, position, "append")

    def replace(self, rows: pa.Table, position: int) -> None:
        """Makes ``rows`` all that the table holds."""
        self._write(rows, position, "overwrite")

    def merge(self, changes: pa.Table, key: Sequence[str], partial: Sequence[PartialColumn], position: int) -> None:
        """Applies one change per key: deletes, updates or inserts its row.

        Args:
            changes: As ``net_changes`` gives them: the table's columns, ``DELETED``, and the flags of ``partial``.
            key: Names of the key's columns.
            partial: Columns that may keep the target's value.
            position: Of the table afterwards.
        """
        written = {quoted(name): f"s.{quoted(name)}" for name in self.columns}
        updated = dict(written)
        for column in partial:
            name = quoted(column.name)
            updated[name] = f"CASE WHEN s.{column.kept} THEN t.{name} ELSE s.{name} END"
        with self._answering():
            (
                self._opened.merge(
                    changes,
                    predicate=" AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in key),
                    source_alias="s",
                    target_alias="t",
                    # The changes are in memory anyway; so their key range prunes the target's files.
                    streamed_exec=False,
                    commit_properties=self._properties(position),
                )
                .when_matched_delete(f"s.{DELETED}")
                .when_matched_update(updated)
                .when_not_matched_insert(written, predicate=f"NOT s.{DELETED}")
                .execute()
            )

    def surely_lacks(self, rows: pa.Table, key: Sequence[str]) -> bool:
        """Whether the files' statistics prove that none of the rows' keys is in the table."""
        files = self._opened.get_add_actions(flatten=True)
        if not files.num_rows or not rows.num_rows:
            return True
        name = key[0]
        low, high = f"min.{name}", f"max.{name}"
        if spark_type(rows.schema.field(name).type) not in _EXACT_STATISTICS or low not in files.schema.names:
            return False
        values: Any = pc.min_max(rows.column(name)).as_py()
        for smallest, largest in zip(files.column(low).to_pylist(), files.column(high).to_pylist(), strict=True):
            if smallest is None or largest is None or not (largest < values["min"] or smallest > values["max"]):
                return False
        return True

    def _write(self, rows: pa.Table, position: int, mode: Literal["append", "overwrite"]) -> None:
        with self._answering():
            write_deltalake(self._opened, rows, mode=mode, commit_properties=self._properties(position))

    @property
    def _opened(self) -> DeltaTable:
        assert self._table is not None, "the table is created before it is used"
        return self._table

    def _properties(self, position: int) -> CommitProperties:
        return CommitProperties(app_transactions=[Transaction(self._application, position)])

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except CommitFailedError as error:
            raise SparkError("TM-SPK-010", f"{self.path}: {error}") from error
        except DeltaError as error:
            raise SparkError("TM-SPK-015", f"{self.path}: {str(error).splitlines()[0]}") from error
