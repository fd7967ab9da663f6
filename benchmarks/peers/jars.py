"""Files of Java libraries. Spark fetches them from Maven Central, and keeps them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

FETCH = """
import json, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.jars.packages", sys.argv[1]).getOrCreate()
jars = spark.sparkContext._jsc.sc().listJars()
print(json.dumps([jars.apply(number) for number in range(jars.size())]))
"""


def jars(*coordinates: str) -> list[str]:
    """The files of libraries, and of all that they need.

    Raises:
        LookupError: They cannot be had.
    """
    command = [sys.executable, "-c", FETCH, ",".join(coordinates)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        missing = sorted(set(re.findall(r":: \S+#(\S+): not found", done.stderr)))
        raise LookupError(f"{', '.join(missing or coordinates).replace(';', ' ')} cannot be had from Maven Central")
    named = [jar.rpartition("/")[2] for jar in json.loads(done.stdout.splitlines()[-1])]
    return [str(next((Path.home() / ".ivy2.5.2" / "jars").glob(name))) for name in named]
