"""Memory is bounded whatever one transaction holds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.runtime.changelog.shop import ORDER_SCHEMA, ORDERS, data_files, named_files, order, stored
from tidemark.protocol.changelog.columns.table_schema import table_schema
from tidemark.protocol.changelog.layout import HEADER
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.changelog.batch import BLOCK_ROWS, LARGE_BYTES, QUEUED_BLOCKS, Batch
from tidemark.runtime.changelog.documents.bound_collection import BoundCollection
from tidemark.runtime.changelog.segments.threads import SegmentThreads
from tidemark.runtime.changelog.writer import LogWriter

pytestmark = pytest.mark.heavy

SCRIPT = """
import sys
from pathlib import Path
from tidemark.runtime.changelog.writer import LogWriter
from tests.runtime.changelog.shop import ORDER_SCHEMA, ORDERS, closed, document, order

def peak():
    # Not ru_maxrss: that of a new process begins with what the process that started it had.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) // 1024

log = LogWriter.open(Path(sys.argv[1]), "shop")
tables = [log.bind(ORDERS, ORDER_SCHEMA)]
tables += [log.bind(f"public/t{n}", ORDER_SCHEMA) for n in range(1, int(sys.argv[2]))]
rows, size = int(sys.argv[3]), int(sys.argv[4])
line = bytearray(order(123456, note="x" * size, total="1234.50"))
batch = log.begin()
early = None
for start in range(0, rows, 500):
    for table in tables:
        batch.add(table, [bytes(line) for _ in range(500 // len(tables))])
    if early is None and start >= rows // 4:
        early = peak()
commit = log.commit(batch, {}, 1)
log.close()
sys.stdout.write(f"{commit.next_offset} {early} {peak()}")
"""


@pytest.mark.drawn(1)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from Linux's /proc")
@pytest.mark.parametrize(
    ("tables", "rows", "size"),
    [(1, 2_000_000, 10), (50, 800_000, 500), (1, 40_000, 10_000)],
    ids=["small rows", "many tables", "wide rows"],
)
def test_one_huge_batch(tmp_path: Path, tables: int, rows: int, size: int) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(tables), str(rows), str(size)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    events, early, peak = map(int, run.stdout.split())
    assert events == rows
    # The queue of a disk that is slow for a moment may fill later. What is kept of each row is 150 MiB at least.
    assert peak - early < 96, f"{early} MiB after a quarter of the rows, {peak} MiB after all"
    assert peak < 400
    assert data_files(tmp_path) == named_files(tmp_path)
    assert any(ORDERS in path for path in named_files(tmp_path))


class SlowestDisk(Executor):
    """Does its work only when somebody cannot go on without the result.

    Attributes:
        most: How many pieces of work ever waited.
    """

    def __init__(self) -> None:
        self.waiting = self.most = 0

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        executor = self

        class Late(Future[Any]):
            def result(self, timeout: float | None = None) -> Any:
                if not self.done():
                    self.set_result(work(*args, **kwargs))
                    executor.waiting -= 1
                return super().result(timeout)

        self.waiting += 1
        self.most = max(self.most, self.waiting)
        return Late()


def test_decoded_blocks_do_not_pile_up_before_a_slow_disk(tmp_path: Path) -> None:
    disk = SlowestDisk()
    (tmp_path / HEADER).touch()
    batch = Batch(DirectoryStore(tmp_path), 1, 1, 0, SegmentThreads(disk, disk))
    schema = table_schema(ORDERS, ORDER_SCHEMA)
    for id in range(8):
        # Bound anew, which ends the block before.
        batch.add(BoundCollection(schema), [order(id)])
    assert disk.most == QUEUED_BLOCKS + 1
    (segment,) = batch.finish()
    assert segment.rows == 8


def test_a_large_document_is_written_before_more_is_read(tmp_path: Path) -> None:
    disk = SlowestDisk()
    (tmp_path / HEADER).touch()
    batch = Batch(DirectoryStore(tmp_path), 1, 1, 0, SegmentThreads(disk, disk))
    orders = BoundCollection(table_schema(ORDERS, ORDER_SCHEMA, ["id"]))
    batch.add(orders, [order(1), order(2)])
    for id in range(3, 6):
        batch.add(orders, [order(id, note="x" * 2 * LARGE_BYTES)])
        batch.settle()
        assert disk.waiting == 0
    batch.add(orders, [order(6), order(7)])
    (segment,) = batch.finish()
    assert (segment.first_offset, segment.last_offset, segment.rows) == (0, 6, 7)


def test_values_of_many_megabytes_and_doubles_have_no_statistics(tmp_path: Path) -> None:
    """Computing them takes memory for two copies of such a value, and Parquet does not keep them.

    Those of doubles leave NaN out, for Spark the greatest number: its reader would skip rows that a filter asks for.
    """
    schema = {**ORDER_SCHEMA, "properties": {**ORDER_SCHEMA["properties"], "ratio": {"type": "number"}}}
    with LogWriter.open(tmp_path, "shop") as log:
        orders, batch = log.bind(ORDERS, schema, ["id"]), log.begin()
        batch.add(orders, [order(id) for id in range(BLOCK_ROWS)])
        batch.add(orders, [order(BLOCK_ROWS, note="x" * LARGE_BYTES)])
        batch.add(orders, [order(BLOCK_ROWS + 1)])
        usual, large = log.commit(batch, {}, 1).segments
    assert (usual.rows, large.rows, large.first_offset) == (BLOCK_ROWS, 2, BLOCK_ROWS)
    assert with_statistics(tmp_path / usual.path) >= {"id", "note", "_offset", "_commit_ts"}
    assert "ratio" not in with_statistics(tmp_path / usual.path)
    assert with_statistics(tmp_path / large.path) == {"id", "_offset", "_commit_ts"}
    assert [len(row["note"] or "") for row in stored(tmp_path)[BLOCK_ROWS:]] == [LARGE_BYTES, 0]


def with_statistics(path: Path) -> set[str]:
    """The columns that have statistics in the first row group of a file, though of nulls only."""
    group = pq.read_metadata(path).row_group(0)
    return {column.path_in_schema for column in map(group.column, range(group.num_columns)) if column.is_stats_set}
