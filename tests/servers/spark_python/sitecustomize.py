"""Has the processes that Spark forks Python workers from import what each worker would: half a second each time.

Python imports this module when it starts, where this folder is in ``PYTHONPATH``.
"""

from __future__ import annotations

import importlib
import sys

_PLANNING = (
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.streaming.python_streaming_source_runner",
)
_SOURCE = (
    "tidemark.spark_sink.data_source",
    "tidemark.spark_sink.live.state_reader",
    "tidemark.spark_sink.source.batch_reader",
    "tidemark.spark_sink.source.stream_reader",
)
_TASKS = ("pyspark.sql.pandas.serializers", "pandas", "deltalake")

if "pyspark.daemon" in sys.orig_argv:
    worker = sys.orig_argv[-1]
    of_worker = {"pyspark.worker": (worker, *_TASKS, *_SOURCE), **{name: (name, *_SOURCE) for name in _PLANNING}}
    for name in of_worker.get(worker, ()):
        importlib.import_module(name)
