"""``python -m tests.spark_sink.materialize_process LOG WAREHOUSE``: a run of materialize that a test may kill."""

from __future__ import annotations

import sys
from pathlib import Path

from spark_sink.followed_log import Limits
from spark_sink.materialize import materialize

if __name__ == "__main__":
    materialize(Path(sys.argv[1]), Path(sys.argv[2]), {"*": ["current", "history"]}, batch=Limits(events=80))
