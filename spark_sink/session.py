"""A local Spark session, for those who bring none."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from protocol.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JAVA_AT_LEAST = 17
_OLDEST, _BELOW = (4, 0), (4, 4)
_DELTALAKE_AT_LEAST = (1, 6, 6)

_LOG4J = """\
rootLogger.level = fatal
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = fatal
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""
"""What Spark logs as an error it also raises, and an exception says it once. Of a shell, which it takes PySpark for,
Spark overrides the root level with that of the logger of its main class."""


def local_session(name: str = "tidemark") -> SparkSession:
    """The active session if there is one, else a new local one: all cores, UTC, no web page, nothing left behind.

    Raises:
        SparkError: ``TM-SPK-001`` without a Java that Spark runs on, ``TM-SPK-002`` without the right PySpark.
    """
    check_packages()
    from pyspark.sql import SparkSession

    if active := SparkSession.getActiveSession():
        return active
    check_java()
    # Spark starts Python by this name, and python3 from PATH otherwise, which may be another one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    scratch = Path(tempfile.mkdtemp(prefix="tidemark-spark-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    log4j = scratch / "log4j2.properties"
    log4j.write_text(_LOG4J)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(max(cores, 2)),
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        "spark.local.dir": str(scratch / "local"),
        "spark.driver.memory": "2g",
        "spark.driver.maxResultSize": "0",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j.as_uri()}",
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    for setting, value in settings.items():
        builder = builder.config(setting, value)
    return builder.getOrCreate()


def check_java() -> None:
    """Makes sure that the Java which Spark will start is new enough.

    Raises:
        SparkError: ``TM-SPK-001`` naming what was found.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    try:
        found = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        raise SparkError("TM-SPK-001", f"{java} cannot be run") from None
    match = re.search(r'version "(?:1\.)?(\d+)', found)
    if not match or int(match[1]) < _JAVA_AT_LEAST:
        first = found.splitlines()[0] if found else "no version"
        raise SparkError("TM-SPK-001", f"{java} is too old: {first}")


def check_packages() -> None:
    """Makes sure that PySpark and deltalake are there, in versions this room is written for.

    Raises:
        SparkError: ``TM-SPK-002`` naming the package and what was found.
    """
    pyspark = _installed("pyspark")
    if not _OLDEST <= pyspark < _BELOW:
        raise SparkError("TM-SPK-002", f"pyspark {version('pyspark')} is installed; this version works with 4.0 to 4.3")
    if _installed("deltalake") < _DELTALAKE_AT_LEAST:
        raise SparkError("TM-SPK-002", f"deltalake {version('deltalake')} is installed; this version needs 1.6.6")


def _installed(package: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in re.findall(r"\d+", version(package))[:3])
    except PackageNotFoundError:
        raise SparkError("TM-SPK-002", f"{package} is not installed") from None
