"""What an engine's MERGE is given, carried out in Python, gives the rows that the events say."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spark_sink.changes.test_net_changes import CHANGE, COLUMNS, TYPES, table
from tests.spark_sink.log_builder import Event
from tests.spark_sink.replay import Row, replay
from tidemark.spark_sink.changes.key_order import in_order
from tidemark.spark_sink.changes.merge_source import KEPT, stream_merge_rows
from tidemark.spark_sink.changes.net_changes import DELETED


def merged(before: dict[int, Row], source: list[Row]) -> dict[int, Row]:
    """``WHEN MATCHED … DELETE``, ``… UPDATE`` and ``WHEN NOT MATCHED … INSERT``."""
    after = dict(before)
    for change in source:
        old = after.pop(change["id"], None)
        if not change[DELETED]:
            kept = change[KEPT] if old else []
            after[change["id"]] = {name: old[name] if old and name in kept else change[name] for name in COLUMNS}
    return after


@settings(deadline=None)
@given(st.lists(CHANGE, max_size=12), st.lists(CHANGE, min_size=1, max_size=12))
def test_merging_the_net_changes_gives_the_rows(first: list[Event], then: list[Event]) -> None:
    events = list(enumerate([*first, *then]))
    before = replay(events[: len(first)])
    changes = in_order(table(events[len(first) :]), ["id"])
    packed = changes.rename_columns([f"c{place}" for place in range(changes.num_columns)])
    source = [
        row
        for batch in stream_merge_rows(packed.to_batches(max_chunksize=5), ["id"], TYPES)
        for row in pa.Table.from_batches([batch]).to_pylist()
    ]
    assert len({row["id"] for row in source}) == len(source)
    assert merged(before, source) == replay(events)
