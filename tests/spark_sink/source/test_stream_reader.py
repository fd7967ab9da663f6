from __future__ import annotations

import json
import shutil
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.datasource import DataSourceStreamReader

from tests.spark_sink.log_builder import Event, LogBuilder, create, schema
from tidemark.protocol.changelog import Column, Commit, TableSchema, layout
from tidemark.spark_sink.spark.failures import tidemark_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

admission = pytest.mark.skipif(
    not hasattr(DataSourceStreamReader, "getDefaultReadLimit"),
    reason="before PySpark 4.2 a Python source cannot say how much a batch may hold",
)


class Sink:
    """Runs AvailableNow queries with one checkpoint and notes the offsets of every batch."""

    def __init__(self, spark: SparkSession, checkpoint: Path) -> None:
        self.spark = spark
        self.checkpoint = checkpoint
        self.batches: list[list[int]] = []
        self.columns: list[str] = []
        self.fail = False

    @property
    def offsets(self) -> list[int]:
        """Of all batches of the last query."""
        return [offset for batch in self.batches for offset in batch]

    def run(self, log: LogBuilder, **options: Any) -> StreamingQuery:
        return self.start(self.query(log, **options))

    def query(self, log: LogBuilder, pinned: str = "", **options: Any) -> DataFrame:
        stream = self.spark.readStream.format("tidemark").options(
            **{"path": str(log.root), "table": "public.items", **options}
        )
        return (stream.schema(pinned) if pinned else stream).load()

    def start(self, stream: DataFrame) -> StreamingQuery:
        self.batches = []
        self.columns = stream.columns
        query = (
            stream.writeStream.foreachBatch(self._note)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query

    def _note(self, batch: DataFrame, number: int) -> None:
        if self.fail:
            raise RuntimeError("a batch that fails")
        self.batches.append(sorted(row["_offset"] for row in batch.select("_offset").collect()))


@pytest.fixture
def sink(spark: SparkSession, tmp_path: Path) -> Sink:
    return Sink(spark, tmp_path / "checkpoint")


@admission
def test_batches_end_on_commits_and_a_restart_goes_on(sink: Sink, log: LogBuilder) -> None:
    for size in (2, 2, 3, 1):
        log.commit(*map(create, range(size)))

    query = sink.run(log, maxEventsPerBatch=4)

    assert sink.batches == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert query.lastProgress
    source = query.lastProgress.sources[0]
    ended = json.loads(source.endOffset)
    assert ended == json.loads(source.latestOffset) == {"v": 1, "log": "log-1", "offset": 8, "before": ended["before"]}

    sink.run(log)
    assert sink.batches == []

    log.commit(create(1))
    sink.run(log)
    assert sink.batches == [[8]]


def test_without_its_checkpoint_it_reads_the_same_again(sink: Sink, log: LogBuilder) -> None:
    log.commit(create(1), create(2))
    sink.run(log)
    shutil.rmtree(sink.checkpoint)

    sink.run(log)

    assert sink.batches == [[0, 1]]


@admission
def test_bytes_limit_batches(sink: Sink, log: LogBuilder) -> None:
    size = max(log.commit(create(i)).segments[0].uncompressed for i in range(4))

    sink.run(log, maxBytesPerBatch=2 * size)

    assert sink.batches == [[0, 1], [2, 3]]


def test_it_starts_where_it_is_told_to(sink: Sink, log: LogBuilder) -> None:
    for i in range(3):
        log.commit(create(i), create(i))

    sink.run(log, startingOffset=3)

    assert sink.batches == [[3, 4, 5]]


@admission
def test_other_tables_do_not_wake_it(sink: Sink, log: LogBuilder) -> None:
    log.change_schema(schema("public/others"))
    log.commit(create(1))
    sink.run(log)
    log.commit(create(1, table="public/others"))

    sink.run(log)
    assert sink.batches == []

    log.commit(create(2))
    sink.run(log)
    assert sink.batches == [[2]]


def failure(sink: Sink, log: LogBuilder, **options: Any) -> str:
    with pytest.raises(StreamingQueryException) as caught:
        sink.run(log, **options)
    return str(tidemark_error(caught.value))


def test_a_name_in_another_case_is_an_error_and_not_null(sink: Sink, log: LogBuilder) -> None:
    log.commit(create(1))
    assert failure(sink, log, pinned="ID bigint, _offset bigint").startswith("TM-SPK-003: the reader's schema has ID")


def test_a_checkpoint_of_another_log_is_refused(sink: Sink, log: LogBuilder, tmp_path: Path) -> None:
    log.commit(create(1))
    sink.run(log)
    replaced = LogBuilder(tmp_path / "other", log_id="log-2")
    for i in range(3):
        replaced.commit(create(i))

    assert failure(sink, replaced).startswith("TM-SPK-006: the checkpoint does not belong to the change log")


def test_a_log_that_lost_commits_is_refused(sink: Sink, log: LogBuilder, tmp_path: Path) -> None:
    log.commit(create(1))
    log.commit(create(2))
    sink.run(log)
    restored = LogBuilder(tmp_path / "restored")
    restored.commit(create(1))

    assert failure(sink, restored).startswith("TM-SPK-006: the checkpoint is at offset 2")


@pytest.mark.parametrize("more", [1, 3])
def test_a_log_that_was_restored_and_has_grown_since_is_refused(
    sink: Sink, log: LogBuilder, tmp_path: Path, more: int
) -> None:
    log.commit(create(1))
    shutil.copytree(log.root, tmp_path / "copy")
    log.commit(create(2))
    sink.run(log)
    log.restore(tmp_path / "copy")
    for i in range(more):
        log.commit(create(10 + i))

    assert "restored from an older copy, has other events before that offset" in failure(sink, log)


def test_a_checkpoint_of_an_earlier_version_goes_on(sink: Sink, log: LogBuilder) -> None:
    """Its offsets have no hash."""
    log.commit(create(1))
    sink.run(log)
    for path in (sink.checkpoint / "offsets").glob("[0-9]*"):
        *head, offset = path.read_text().splitlines()
        known = json.loads(offset)
        assert known.pop("before")
        path.write_text("\n".join([*head, json.dumps(known)]))
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    log.commit(create(2))
    sink.run(log)
    assert sink.offsets == [1]


def test_an_end_is_not_for_streams(sink: Sink, log: LogBuilder) -> None:
    log.commit(create(1))

    assert failure(sink, log, endingOffset=1).startswith("TM-SPK-003")


ID_AND_NOTE = schema(id="bigint", note="string")
ID_NOTE_AND_NEW = schema(id="bigint", note="string", new="date")


@pytest.fixture
def noted(tmp_path: Path) -> LogBuilder:
    """A log of ``public/items`` with the columns ``id`` and ``note``, and three events."""
    log = LogBuilder(tmp_path / "noted", ID_AND_NOTE)
    log.commit(*(Event("c", {"id": i, "note": "x"}) for i in range(3)))
    return log


def changed_under(sink: Sink, log: LogBuilder, *later: tuple[TableSchema, int]) -> str:
    """What a query says that is made, and then the log goes on with so many events of each schema."""
    query = sink.query(log)
    for new, events in later:
        log.change_schema(new)
        log.commit(*(Event("c", {"id": i}) for i in range(events)))
    with pytest.raises(StreamingQueryException) as caught:
        sink.start(query)
    return str(tidemark_error(caught.value))


@admission
def test_a_changed_schema_stops_a_query_where_it_changes(sink: Sink, noted: LogBuilder) -> None:
    said = changed_under(sink, noted, (ID_AND_NOTE, 2), (ID_NOTE_AND_NEW, 2))

    assert said.startswith("TM-SPK-019: from offset 5 on, public.items has the new column new")
    assert sink.offsets == [0, 1, 2, 3, 4]


@admission
def test_a_restart_reads_on_with_the_new_schema(sink: Sink, noted: LogBuilder) -> None:
    changed_under(sink, noted, (schema(id="bigint"), 1))

    sink.run(noted)

    assert sink.batches == [[3]]
    assert sink.columns[:2] == ["id", "_op"]


def join_last_commits(log: LogBuilder) -> None:
    """Makes one commit of the last two."""
    paths = [log.root / layout.COMMITS / layout.commit_name(log.number - back) for back in (2, 1)]
    first, second = (Commit.model_validate_json(path.read_bytes()) for path in paths)
    joined = first.model_copy(
        update={
            "next_offset": second.next_offset,
            "schemas": {**first.schemas, **second.schemas},
            "segments": [*first.segments, *second.segments],
        }
    )
    paths[0].write_text(joined.model_dump_json())
    paths[1].unlink()
    log.number -= 1


@admission
def test_a_schema_may_change_inside_a_commit(sink: Sink, noted: LogBuilder) -> None:
    query = sink.query(noted)
    noted.change_schema(schema("public/others"))
    noted.commit(create(1, table="public/others"), Event("c", {"id": 3, "note": "y"}))
    noted.change_schema(ID_NOTE_AND_NEW)
    noted.commit(create(2, table="public/others"), Event("c", {"id": 4, "new": date(2026, 1, 1)}))
    join_last_commits(noted)

    with pytest.raises(StreamingQueryException, match="TM-SPK-019: from offset 6 on"):
        sink.start(query)
    assert sink.offsets == [0, 1, 2, 4]

    sink.run(noted)
    assert sink.batches == [[6]]
    assert "new" in sink.columns


def test_columns_of_a_given_schema_are_read_whatever_changes(sink: Sink, noted: LogBuilder) -> None:
    query = sink.query(noted, "note string, _offset bigint")
    noted.change_schema(schema(id="bigint", new="date"))
    noted.commit(Event("c", {"id": 3}))

    sink.start(query)

    assert sink.offsets == [0, 1, 2, 3]


def identified(**ids: str) -> TableSchema:
    """Columns of one type, by name: which they are."""
    columns = [Column(name=name, type="string", id=id) for name, id in ids.items()]
    return TableSchema(collection="public/items", columns=[Column(name="id", type="bigint", id="1"), *columns])


@admission
def test_another_column_under_a_known_name_stops_a_query(sink: Sink, log: LogBuilder) -> None:
    """Two columns swap their names: the rows that a query has had would have them the other way round."""
    log.change_schema(identified(a="2", b="3"))
    log.commit(Event("c", {"id": 1, "a": "x", "b": "y"}))
    query = sink.query(log)
    log.change_schema(identified(a="3", b="2"))
    log.commit(Event("c", {"id": 2, "a": "y", "b": "x"}))

    with pytest.raises(StreamingQueryException) as caught:
        sink.start(query)
    said = str(tidemark_error(caught.value))
    assert "public.items has another column under the name a and has another column under the name b" in said
    assert sink.batches == [[0]]

    sink.run(log)
    assert sink.batches == [[1]]


def test_what_is_no_change_of_columns_stops_nothing(sink: Sink, noted: LogBuilder) -> None:
    query = sink.query(noted)
    noted.change_schema(schema(key=("note",), id="bigint", note="string"))
    noted.commit(Event("c", {"id": 3, "note": "y"}))
    noted.change_schema(schema("public/others", id="bigint", other="date"))
    noted.commit(Event("c", {"id": 3}, table="public/others"))

    sink.start(query)

    assert sink.offsets == [0, 1, 2, 3]


def test_a_new_query_reads_older_events_by_the_newest_schema(sink: Sink, noted: LogBuilder) -> None:
    noted.change_schema(schema(id="bigint", new="date"))
    noted.commit(Event("c", {"id": 3}))

    sink.run(noted)

    assert sink.offsets == [0, 1, 2, 3]


def test_a_column_dropped_between_two_runs_is_not_left_out_unnoticed(sink: Sink, noted: LogBuilder) -> None:
    sink.run(noted)
    noted.commit(Event("c", {"id": 3, "note": "the last"}))
    noted.change_schema(schema(id="bigint", new="date"))
    noted.commit(Event("c", {"id": 4}))

    said = failure(sink, noted)
    assert said.startswith("TM-SPK-019: from offset 3 on, public.items has column note, which was dropped later")
    assert sink.batches == []

    sink.start(sink.query(noted, "id bigint, note string, new date, _offset bigint"))
    assert sink.offsets == [3, 4]


def test_a_column_added_between_two_runs_is_read(sink: Sink, noted: LogBuilder) -> None:
    sink.run(noted)
    noted.commit(Event("c", {"id": 3, "note": "y"}))
    noted.change_schema(ID_NOTE_AND_NEW)
    noted.commit(Event("c", {"id": 4}))

    sink.run(noted)

    assert sink.offsets == [3, 4]
    assert "new" in sink.columns


def test_a_batch_of_the_checkpoint_is_not_read_without_its_columns(sink: Sink, noted: LogBuilder) -> None:
    """A batch was planned and not done when its process ended; then a column was dropped."""
    sink.run(noted)
    noted.commit(Event("c", {"id": 3, "note": "y"}))
    sink.fail = True
    with pytest.raises(StreamingQueryException):
        sink.run(noted)
    sink.fail = False
    noted.change_schema(schema(id="bigint"))
    noted.commit(Event("c", {"id": 4}))

    assert failure(sink, noted).startswith("TM-SPK-019: from offset 3 on, public.items has column note")
