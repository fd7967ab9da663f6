"""What a warehouse holds, and what it should hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tests.spark_sink.log_builder import LogBuilder
from tests.spark_sink.replay import Row, replay
from tidemark.spark_sink.formats.delta_table import PositionedTable

ITEMS = "public/items"


class Lake:
    """A warehouse kept from one log."""

    def __init__(self, log: LogBuilder, warehouse: Path) -> None:
        self.log = log
        self.warehouse = warehouse

    def delta(self, kind: str, collection: str = ITEMS) -> DeltaTable:
        return DeltaTable(str(self.warehouse / collection / kind))

    def rows(self, kind: str, collection: str = ITEMS) -> list[Row]:
        """A table's rows, by offset."""
        rows: list[Row] = self.delta(kind, collection).to_pyarrow_table().to_pylist()
        return sorted(rows, key=lambda row: row["_offset"])

    def assert_true(self, collection: str = ITEMS) -> None:
        """The current table is what replaying the events gives, and the history has each of them once."""
        self.assert_current(collection)
        offsets = [offset for offset, event in self.log.events if event.table == collection]
        assert [row["_offset"] for row in self.rows("history", collection)] == offsets

    def assert_current(self, collection: str = ITEMS) -> None:
        """The current table is what replaying the events gives that are shown."""
        events = self.log.shown_events(collection)
        current = [_values({**row, "_commit_ts": None}) for row in self.rows("current", collection)]
        of = self.log.schemas[collection]
        columns: Sequence[str] = self.log.columns.get(collection, ())
        if any(column.id is not None for column in of.columns):
            # Of two columns that were dropped under one name, a table has one at most.
            columns = [column.name for column in of.columns]
            current = [{n: v for n, v in row.items() if n in columns or n == "_offset"} for row in current]
        expected = replay(events, of.key, columns)
        assert current == [_values(row) for row in sorted(expected.values(), key=lambda row: row["_offset"])]


def directory(table: PositionedTable) -> Path:
    """Of a table that is in one."""
    found = table.place.directory
    assert found is not None
    return found


def _values(row: Mapping[str, Any]) -> Row:
    """What a row has. A table that was read again lacks columns that were dropped before."""
    return {name: value for name, value in row.items() if value is not None}
