"""Has the processes that Spark runs for Python be forks of what has imported all that they would: half a second each.

Python imports this module when it starts, where this folder is in ``PYTHONPATH``. Spark forks most of them itself, from
a process that imports it all here. For each stream it starts a process: that becomes the stub of a fork.
"""

from __future__ import annotations

import importlib
import os
import sys

SERVER = "TIDEMARK_TEST_STREAMS"
"""The variable that says where the server of forks listens: see ``tests.warm_command``."""

_STREAMS = "pyspark.sql.streaming.python_streaming_source_runner"
_PLANNING = ("pyspark.sql.worker.create_data_source", "pyspark.sql.worker.plan_data_source_read", _STREAMS)
SOURCE = (
    "tidemark.spark_sink.data_source",
    "tidemark.spark_sink.live.state_reader",
    "tidemark.spark_sink.source.batch_reader",
    "tidemark.spark_sink.source.stream_reader",
)
_TASKS = ("pyspark.sql.pandas.serializers", "pandas", "deltalake")

if "pyspark.daemon" in sys.orig_argv:
    worker = sys.orig_argv[-1]
    of_worker = {"pyspark.worker": (worker, *_TASKS, *SOURCE), **{name: (name, *SOURCE) for name in _PLANNING}}
    for name in of_worker.get(worker, ()):
        importlib.import_module(name)
elif sys.orig_argv[-2:] == ["-m", _STREAMS] and SERVER in os.environ:
    stub = os.path.join(os.path.dirname(__file__), "..", "warm_stub.py")  # noqa: PTH118, PTH120 - no imports
    os.execv(sys.executable, [sys.executable, "-I", "-S", stub, os.environ[SERVER], _STREAMS])
