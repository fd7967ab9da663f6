"""The rows of a kept table as of an offset, without Spark: to compare them with the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tidemark.protocol.capture_file import CaptureFile
from tidemark.spark_sink.live.state_partitions import plan_state, read_state
from tidemark.spark_sink.live.table_view import table_view
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.source.log_path import places_of


def kept_rows(capture: CaptureFile, table: str, offset: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch] | None:
    """The rows of the current table that is kept of a source table.

    Those that events below the offset touched since the table was kept last are as these events leave them.

    Args:
        capture: Whose log and warehouse are read.
        table: ``schema.table``.
        offset: All events below it count, and no others.
        columns: To read; null where the table lacks one.

    Returns:
        None where no current table is kept.

    Raises:
        TidemarkError: As ``table_view``, and ``TM-SPK-015`` for a damaged table.
    """
    log, warehouse = places_of(capture)
    if warehouse is None:
        return None
    view = table_view(FollowedLog(log), table, offset, warehouse)
    if view.base.table is None:
        return None
    wanted = {name: view.columns[name] for name in columns if name in view.columns}
    return (batch for partition in plan_state(view, wanted) for batch in read_state(partition))
