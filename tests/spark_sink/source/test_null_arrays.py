from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from spark_sink.source.null_arrays import flagged, unflagged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_arrays_arrive_as_they_are(spark: SparkSession) -> None:
    rows = [(1, None, ["a"]), (2, [], None), (3, [None, 7], ["b", "c"]), (4, None, None), (5, [], [])]
    schema = "id bigint, `a b` array<bigint>, `c``d` array<string>"

    def arrived(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"text": [str(unflagged(batch).to_pylist())]})

    frame = flagged(spark.createDataFrame(rows, schema).coalesce(1))
    found = [row["text"] for row in frame.mapInArrow(arrived, "text string").collect()]

    assert found == [str([{"id": id, "a b": first, "c`d": second} for id, first, second in rows])]
