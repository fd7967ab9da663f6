from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from tests.spark_sink.lake import directory
from tests.spark_sink.live.kept_base import fold, kept
from tests.spark_sink.log_builder import EPOCH, Event, LogBuilder, create, schema
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.live.state_partitions import plan_state
from tidemark.spark_sink.live.table_view import AsOf, TableView, end_of, table_view
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.store_place import StorePlace

OWN = {"id": "bigint", "name": "string", "note": "string"}
META = {"_offset": "bigint", "_commit_ts": "timestamp"}


def viewed(
    log: LogBuilder, as_of: AsOf = None, warehouse: Path | None = None, table: str = "public.items"
) -> TableView:
    opened = FollowedLog(log.root)
    return table_view(opened, table, end_of(opened, as_of), StorePlace.of(warehouse) if warehouse else None)


def folded(log: LogBuilder, warehouse: Path, position: int) -> Path:
    """Keeps a table with one row, whatever the log says; returns its directory."""
    table = kept(log, warehouse)
    fold(table, OWN, ["id"], [{"id": 1, "name": "a", "note": None, "_offset": 0, "_commit_ts": None}], position)
    return directory(table)


@pytest.mark.parametrize(
    ("as_of", "end"),
    [
        (None, 4),
        (0, 0),
        (3, 3),
        ("3", 3),
        ("2026-01-01T00:00:01Z", 2),
        (EPOCH + timedelta(seconds=1), 2),
        (datetime(2026, 1, 1, 0, 0, 1), 2),
        ((EPOCH + timedelta(seconds=1)).astimezone(), 2),
        (datetime(2026, 1, 2, tzinfo=UTC), 4),
        ("latest", 4),
    ],
)
def test_a_moment_is_an_offset_or_a_time(log: LogBuilder, as_of: AsOf, end: int) -> None:
    log.commit(create(1), create(2))
    log.commit(create(3), create(4))

    assert viewed(log, as_of).end == end


def test_what_has_no_state_is_an_error_with_a_code(log: LogBuilder) -> None:
    log.change_schema(schema("public/keyless", key=[]))
    log.commit(create(1), create(1, table="public/keyless"))
    log.change_schema(schema("public/items", key=["name"]))
    log.commit(create(2))

    with pytest.raises(SparkError, match=r"TM-SPK-004.*did you mean public.items"):
        viewed(log, table="public.item")
    with pytest.raises(SparkError, match=r"TM-SPK-007.*public.keyless"):
        viewed(log, table="public.keyless")
    with pytest.raises(SparkError, match=r"TM-SPK-012.*\(id\), \(name\)"):
        viewed(log)
    assert viewed(log, 2).key == ("id",)
    with pytest.raises(SparkError, match="TM-SPK-006"):
        viewed(log, 4)
    with pytest.raises(SparkError, match="TM-SPK-003"):
        viewed(log, "yesterday")


def test_a_table_that_was_not_there_yet_is_unknown(log: LogBuilder) -> None:
    log.commit(create(1))
    log.change_schema(schema("public/later"))
    log.commit(create(1, table="public/later"))

    assert viewed(log, table="public.later").segments
    with pytest.raises(SparkError, match="TM-SPK-004"):
        viewed(log, 1, table="public.later")


def test_columns_are_those_of_the_log_at_that_offset(log: LogBuilder, tmp_path: Path) -> None:
    log.commit(create(1))
    log.change_schema(schema(id="bigint", name="string", added="date"))
    log.commit(Event("c", {"id": 2}))
    folded(log, tmp_path, 1)

    assert viewed(log, 1, tmp_path).columns == {**OWN, **META}
    # What the source has dropped a kept table keeps.
    assert viewed(log, 2, tmp_path).columns == {**OWN, "added": "date", **META}
    assert viewed(log, 2).columns == {"id": "bigint", "name": "string", "added": "date", "note": "string", **META}


def test_a_type_that_the_kept_table_cannot_hold_is_an_error(log: LogBuilder, tmp_path: Path) -> None:
    log.commit(create(1))
    folded(log, tmp_path, 1)
    log.change_schema(schema(id="bigint", name="double", note="string"))
    log.commit(Event("c", {"id": 2}))

    with pytest.raises(SparkError, match=r"TM-SPK-005.*name"):
        viewed(log, None, tmp_path)


def test_a_table_of_another_log_is_refused(log: LogBuilder, tmp_path: Path) -> None:
    other = LogBuilder(tmp_path / "another", log_id="log-2")
    other.commit(create(1))
    log.commit(create(1))
    folded(log, tmp_path, 1)

    with pytest.raises(SparkError, match="TM-SPK-009"):
        viewed(other, None, tmp_path)


@pytest.mark.parametrize("added", ["rows", "a column"])
def test_rows_of_a_table_that_another_program_wrote_are_left_out(
    log: LogBuilder, tmp_path: Path, caplog: pytest.LogCaptureFixture, added: str
) -> None:
    log.commit(create(1))
    table = DeltaTable(str(folded(log, tmp_path, 1)))
    if added == "rows":
        write_deltalake(table, table.to_pyarrow_table(), mode="append")
    else:
        table.alter.add_columns([Field("mine", PrimitiveType("integer"))])

    with caplog.at_level(logging.WARNING):
        view = viewed(log, None, tmp_path)

    assert (view.base.files, view.start) == ((), 0)
    assert "TM-SPK-016" in caplog.text
    assert added == "rows" or "added the column mine" in caplog.text


def map_columns(table: Path) -> None:
    """Makes it a table whose columns have other names in its files, as its log says."""
    first = table / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in action:
            action["metaData"]["configuration"]["delta.columnMapping.mode"] = "name"
            columns = json.loads(action["metaData"]["schemaString"])
            for number, field in enumerate(columns["fields"], 1):
                mapped = {"id": number, "physicalName": field["name"]}
                field["metadata"] |= {f"delta.columnMapping.{name}": value for name, value in mapped.items()}
            action["metaData"]["schemaString"] = json.dumps(columns)
    first.write_text("".join(json.dumps(action) + "\n" for action in actions))


def test_a_base_that_is_more_than_its_files_is_left_to_its_engine(log: LogBuilder, tmp_path: Path) -> None:
    log.commit(create(1))
    path = folded(log, tmp_path, 1)
    map_columns(path)

    view = viewed(log, None, tmp_path)

    assert ([file.path for file in view.base.files], view.base.version) == ([""], 1)
    with pytest.raises(SparkError, match=r"TM-SPK-018.*column mapping"):
        plan_state(view, view.columns)


def test_a_truncate_ends_what_was_before(log: LogBuilder, tmp_path: Path) -> None:
    log.commit(create(1), create(2))
    folded(log, tmp_path, 2)
    log.commit(create(3), Event("t"), create(4), Event("t"), create(5))

    def parts(end: int) -> tuple[int, int, int]:
        view = viewed(log, end, tmp_path)
        return len(view.base.files), view.start, view.end

    assert [parts(end) for end in (3, 4, 5, 6, 7)] == [(1, 2, 3), (0, 4, 4), (0, 4, 5), (0, 6, 6), (0, 6, 7)]
