from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tidemark.spark_sink.source.arrow_handover import packed, unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_rows_arrive_as_they_are(spark: SparkSession) -> None:
    rows = [(1, None, ["a"]), (2, [], None), (3, [None, 7], ["b", "c"]), (4, None, None), (5, [], [])]
    schema = "`id.1` bigint, `a b` array<bigint>, `c``d` array<string>"

    def arrived(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"text": [str(unpacked(batch, names).to_pylist())]})

    frame = spark.createDataFrame(rows, schema).coalesce(1)
    names = frame.columns
    found = [row["text"] for row in packed(frame).mapInArrow(arrived, "text string").collect()]

    assert found == [str([{"id.1": id, "a b": first, "c`d": second} for id, first, second in rows])]
