"""The oracle itself: a change log written by hand, replayed and compared; every kind of mistake is found."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.workload.replay import MISSING, compare_with_source, replay
from tests.workload.tables import Database, source_of
from tidemark.protocol.changelog import ChangeLog, Column, Commit, LogHeader, Segment, TableSchema
from tidemark.protocol.changelog.layout import COMMITS, HEADER, commit_name, segment_path

NOW = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = TableSchema(
    collection="public/parts",
    columns=[
        Column(name="id", type="bigint"),
        Column(name="name", type="string"),
        Column(name="data", type="string", json_text=True),
    ],
    key=["id"],
)
ARROW_TYPES: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "name": pa.string(),
    "data": pa.string(),
    "_op": pa.string(),
    "_offset": pa.int64(),
    "_unchanged": pa.list_(pa.string()),
}
ARROW = pa.schema(ARROW_TYPES)

Event = tuple[str, int | None, str | None, str | None, list[str] | None]

EVENTS: list[Event] = [
    ("c", 9, "gone with the truncate", None, None),
    ("t", None, None, None, None),
    ("c", 1, "one", '{"big": 1.50}', None),
    ("c", 2, "two", None, None),
    ("c", 3, "three", None, None),
    ("u", 1, "uno", None, ["data"]),
    ("d", 2, None, None, None),
    ("d", 3, None, None, None),
    ("c", 4, "three", None, None),
]


def write_log(root: Path, schema: str, *commits: list[Event], first: int = 0) -> Path:
    collection = f"{schema}/parts"
    table = SCHEMA.model_copy(update={"collection": collection})
    root.mkdir()
    header = LogHeader(log_id="0", capture="test", created=NOW)
    (root / HEADER).write_text(header.model_dump_json())
    (root / COMMITS).mkdir()
    offset = 0
    for number, events in enumerate(commits):
        path = segment_path(collection, number, 1, 0)
        rows: list[dict[str, Any]] = [
            {
                "_op": op,
                "id": key,
                "name": name,
                "data": data,
                "_unchanged": unchanged,
                "_offset": first + offset + place,
            }
            for place, (op, key, name, data, unchanged) in enumerate(events)
        ]
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, ARROW), root / path)
        segment = Segment(
            collection=collection,
            path=path,
            rows=len(events),
            size=1,
            uncompressed=1,
            first_offset=offset,
            last_offset=offset + len(events) - 1,
            fingerprint=table.fingerprint,
        )
        commit = Commit(
            number=number,
            epoch=1,
            time=NOW,
            first_offset=offset,
            next_offset=offset + len(events),
            schemas={table.fingerprint: table} if number == 0 else {},
            segments=[segment],
        )
        (root / COMMITS / commit_name(number)).write_text(commit.model_dump_json())
        offset += len(events)
    return root


@pytest.mark.parametrize("cut", range(1, len(EVENTS)))
def test_events_are_applied_in_order_wherever_commits_are_cut(tmp_path: Path, cut: int) -> None:
    log = ChangeLog(write_log(tmp_path / "log", "public", EVENTS[:cut], EVENTS[cut:]))
    assert replay(log, "public/parts") == {
        (1,): {"id": 1, "name": "uno", "data": '{"big": 1.50}'},
        (4,): {"id": 4, "name": "three", "data": None},
    }


def test_a_column_that_no_event_carried_is_not_null(tmp_path: Path) -> None:
    log = ChangeLog(write_log(tmp_path / "log", "public", [("u", 1, "uno", None, ["data"])]))
    assert replay(log, "public/parts")[(1,)]["data"] == MISSING


def test_a_log_whose_offsets_are_not_what_its_commits_say_is_refused(tmp_path: Path) -> None:
    log = ChangeLog(write_log(tmp_path / "log", "public", EVENTS, first=3))
    with pytest.raises(AssertionError, match="its commit says otherwise"):
        replay(log, "public/parts")


@pytest.mark.parametrize(
    ("more", "differences"),
    [
        ([], []),
        ([("d", 4, None, None, None)], ["parts (4) is missing in the target"]),
        ([("c", 2, "two", None, None)], ["parts (2) is not in the source"]),
        ([("u", 1, "uno", '{"big": 1.5}', None)], ["parts (1) differs in data"]),
        ([("u", 4, None, None, ["name"])], []),
        ([("t", None, None, None, None), ("u", 1, "uno", None, ["data"]), ("c", 4, "three", None, None)],
         ["parts (1) differs in data"]),
    ],
)  # fmt: skip
def test_the_log_is_compared_with_the_source(
    each_database: Database, tmp_path: Path, more: list[Event], differences: list[str]
) -> None:
    if getattr(each_database, "is_mysql", False):
        pytest.skip("1.50 and 1.5 are the same in a json of MySQL")
    source = source_of(each_database)
    with closing(source.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("CREATE TABLE parts (id bigint PRIMARY KEY, name text, data json)")
        cursor.execute("""INSERT INTO parts VALUES (1, 'uno', '{"big":1.50}'), (4, 'three', NULL)""")
        connection.commit()
    log = write_log(tmp_path / "log", source.schema, EVENTS, *([more] if more else []))
    found = compare_with_source(log, each_database, {f"{source.schema}.parts": ["id"]})
    assert found == [f"{source.schema}.{difference}" for difference in differences]
