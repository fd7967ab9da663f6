"""The rows of kept tables as of an offset, as digests: to compare them with the source.

Where tables are kept on a cluster, its tasks read and digest the rows, and only digests come here. Elsewhere that is
done here: to start a session takes longer than to read millions of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import partial
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from tidemark.protocol.capture_file import CaptureFile
from tidemark.protocol.changelog import TableSchema
from tidemark.protocol.verification.chunk_files import digested
from tidemark.spark_sink.live.state_partitions import plan_state, read_state
from tidemark.spark_sink.live.table_view import TableView, table_view
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.source.log_path import places_of
from tidemark.spark_sink.spark.executors import checked_session
from tidemark.spark_sink.spark.failures import spark_exceptions, tidemark_error
from tidemark.spark_sink.spark.opening import OpeningSession
from tidemark.spark_sink.spark.spark_session import cancel_jobs, is_local_master, master_of
from tidemark.spark_sink.tables.column_types import arrow_schema, conformed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_ONCE = 16
"""Tasks whose digests are in memory at once. Those of narrow rows are about as large as their files: see ``runs``."""

ANSWER_SECONDS = 120.0
"""How long executors may take to come: another application may have all of the cluster's cores, for ever."""


class KeptRows:
    """Reads tables. A session on a cluster is opened for the first table that is kept, and ends with the context.

    Args:
        capture: Whose log and warehouse are read.
    """

    def __init__(self, capture: CaptureFile) -> None:
        self._log, self._warehouse = places_of(capture)
        self._session: OpeningSession | None = None
        entry = capture.spark
        if entry is not None and not is_local_master(master_of(entry.master, entry.conf)):
            in_objects = self._warehouse is not None and None in (self._log.directory, self._warehouse.directory)
            opened = partial(checked_session, in_objects=in_objects, seconds=ANSWER_SECONDS)
            self._session = OpeningSession(partial(opened, entry.master, entry.conf))

    def of(self, table: str, offset: int, schema: TableSchema) -> Iterator[pa.Table] | None:
        """The rows of the current table that is kept of a source table, as ``digested`` gives them.

        Those that events below the offset touched since the table was kept last are as these events leave them.

        Args:
            table: ``schema.table``.
            offset: All events below it count, and no others.
            schema: With the columns to read, and their types; null where the table lacks one.

        Returns:
            None where no current table is kept.

        Raises:
            TidemarkError: As ``table_view``, and ``TM-SPK-015`` for a damaged table; on a cluster also as
                ``checked_session``, and ``TM-SPK-013`` where Spark fails.
        """
        view = self._view(table, offset)
        if view is None:
            return None
        work = plan_state(view, [column.name for column in schema.columns])
        if self._session is None:
            return (rows for partition in work for rows in _digested(partition, schema))
        return _in_tasks(self._session.session(), work, schema)

    def reach(self, table: str, offset: int) -> None:
        """Looks whether the table that is kept can be read, on a cluster whether its executors answer. Reads no row.

        Args:
            table: ``schema.table``.
            offset: As of ``of``.

        Raises:
            TidemarkError: As ``of``.
        """
        if self._view(table, offset) is not None and self._session is not None:
            self._session.session()

    def _view(self, table: str, offset: int) -> TableView | None:
        """None where no current table is kept."""
        if self._warehouse is None:
            return None
        view = table_view(FollowedLog(self._log), table, offset, self._warehouse)
        return None if view.base.table is None else view

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._session is not None:
            self._session.__exit__(kind, error, at)


def _digested(partition: InputPartition, schema: TableSchema) -> Iterator[pa.Table]:
    """The rows of a partition."""
    types = arrow_schema({column.name: column.type for column in schema.columns})
    for batch in read_state(partition):
        yield digested(conformed(pa.Table.from_batches([batch]), types), schema)


def _in_tasks(session: SparkSession, work: Iterable[InputPartition], schema: TableSchema) -> Iterator[pa.Table]:
    """The same of several partitions. Each is a job: Spark would hold the digests of one with all of them."""

    def run(partition: InputPartition) -> list[pa.Table]:
        try:
            frame = session.range(0, 1, 1, 1).mapInArrow(_task(partition, schema), "digests binary")
            return [pa.ipc.open_stream(bytes(row.digests)).read_all() for row in frame.collect()]
        except spark_exceptions() as error:
            raise tidemark_error(error) from error

    left = iter(work)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="digests") as threads:
        running = {threads.submit(run, partition) for partition in islice(left, AT_ONCE)}
        try:
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for each in done:
                    yield from each.result()
                running |= {threads.submit(run, partition) for partition in islice(left, len(done))}
        except BaseException:  # Also where whoever asked wants no more.
            threads.shutdown(wait=False, cancel_futures=True)
            cancel_jobs(session)
            raise


def _task(
    partition: InputPartition, schema: TableSchema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does, once for the one row that it gets. A row of its own is a stream of Arrow's with digests."""

    def run(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            for _ in range(batch.num_rows):
                for found in _digested(partition, schema):
                    sink = pa.BufferOutputStream()
                    with pa.ipc.new_stream(sink, found.schema) as stream:
                        stream.write_table(found)
                    yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()])], names=["digests"])

    return run
