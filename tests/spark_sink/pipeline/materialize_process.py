"""``python -m tests.spark_sink.pipeline.materialize_process LOG WAREHOUSE``: materialize, for a test to kill."""

from __future__ import annotations

import sys
from pathlib import Path

from spark_sink.pipeline.materialize import materialize
from spark_sink.source.followed_log import Limits

if __name__ == "__main__":
    materialize(Path(sys.argv[1]), Path(sys.argv[2]), {"*": ["current", "history"]}, batch=Limits(events=80))
