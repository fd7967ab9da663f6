"""What needs Delta Lake for Spark is tested with a PySpark that it has jars for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidemark.testing.missing import lacks

ROOT = Path(__file__).parents[2]
PYSPARK = ROOT / ".venv/delta"
"""Another PySpark alone: all else is this environment's."""

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_PARTS = ["merged_tables", "deletion_vectors", "new_rows or come_to_nothing", "restored or one_version"]


# A merge of a few rows is a second of a processor.
@pytest.mark.drawn(5, of="a JVM of its own")
@pytest.mark.parametrize("which", [*_PARTS, f"not ({' or '.join(_PARTS)})"])
def test_tables_are_kept_by_the_merge_of_delta_lake_for_spark(which: str, tmp_path: Path) -> None:
    if not (PYSPARK / ".installed").exists():
        pytest.skip(lacks("there is no PySpark that Delta Lake for Spark comes for", "make delta"))
    # This environment's Spark is another one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    environment["PYTHONPATH"] = str(PYSPARK)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        f"--basetemp={tmp_path / 'tests'}",
        "-k",
        which,
    ]
    done = subprocess.run(
        [*command, "tests/spark_sink/engine"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout.splitlines()[-1]
