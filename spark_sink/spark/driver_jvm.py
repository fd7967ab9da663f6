"""Starts the driver's JVM, and passes on what it says."""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from tidemark.protocol.errors import SparkError

logger = logging.getLogger(__name__)

_DRIVER_MEMORY = "2g"

AT_LAUNCH = ("spark.driver.memory", "spark.driver.extraJavaOptions", "spark.driver.extraClassPath")
"""What a driver's JVM is started with: it cannot change afterwards."""

_LOG4J = """\
rootLogger.level = fatal
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = fatal
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%ex{none}%n
"""
"""What Spark logs as an error it also raises, and an exception says it once. Of a shell, which it takes PySpark for,
Spark overrides the root level with that of the logger of its main class. Traces of exceptions are left out."""

_LAST_WORDS_SECONDS = 10
"""How long is waited for the end of what a JVM says that has ended."""

_WHY = re.compile(
    r'^(?:Exception in thread "main" (?:[\w.$]+: )?)(.+)'
    r"|^(?!WARNING|Picked up |Error occurred during initialization of VM)(\S.*)",
    re.MULTILINE,
)
"""What says why a JVM does not start, among traces and hints."""

_CHATTER = b"WARNING: Using incubator modules: jdk.incubator.vector"
"""Java says so of each JVM that Spark starts. It is no news for anybody."""

_PICKED_UP = re.compile(r"^Picked up (\w+):", re.MULTILINE)
"""Names an environment variable with options for the JVM. Its value may hold a password."""


def launch(asked: Mapping[str, str]) -> None:
    """Starts the driver's JVM. Our own wishes come in ways that lose against any other: see Spark's launcher.

    Raises:
        SparkError: ``TM-SPK-023`` with the reason that it gives when it does not start.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf()
    for name, value in asked.items():
        conf.set(name, value)
    ours = {"SPARK_DRIVER_MEMORY": os.environ.get("SPARK_DRIVER_MEMORY", _DRIVER_MEMORY)}
    if not (Path(os.environ.get("SPARK_CONF_DIR", "")) / "log4j2.properties").is_file():
        log4j = scratch_folder() / "log4j2.properties"
        log4j.write_text(_LOG4J)
        options = f"-Dlog4j2.configurationFile={log4j.as_uri()}"
        ours["SPARK_SUBMIT_OPTS"] = f"{options} {os.environ.get('SPARK_SUBMIT_OPTS', '')}".rstrip()
    said = _Said()
    try:
        with said.end, _environment(ours):
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                conf, {"stdout": said.end, "stderr": said.end}
            )
    except PySparkRuntimeError:
        raise SparkError("TM-SPK-023", f"Spark's JVM did not start: {said.why()}") from None
    said.pass_on()
    SparkContext._ensure_initialized(gateway=gateway)
    jvm = SparkContext._jvm
    assert jvm is not None
    # The JVM keeps its command line as properties. Another session of this process may be asked for otherwise.
    for name, value in asked.items():
        if jvm.java.lang.System.getProperty(name) == value and name not in AT_LAUNCH:
            jvm.java.lang.System.clearProperty(name)


class _Said:
    """What the JVM says: held back until it runs, since one that does not start says why with a trace.

    Some of it comes on stdout. Ours is for results, so all goes to stderr.

    Attributes:
        end: Where the JVM is to write.
    """

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self.end = os.fdopen(writing, "wb")
        self._held: list[bytes] | None = []
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, args=[reading], name="the JVM's output", daemon=True)
        self._reader.start()

    def pass_on(self) -> None:
        """Writes to this process's stderr what was said, and what will be."""
        with self._lock:
            held, self._held = self._held, None
            for line in held or ():
                os.write(2, line)

    def why(self) -> str:
        """The reason that a JVM gave which has ended."""
        self._reader.join(_LAST_WORDS_SECONDS)
        said = b"".join(self._held or ()).decode("utf-8", "replace")
        logger.debug("Spark's JVM said: %s", said)
        found = _WHY.search(said)
        why = (found[1] or found[2]).strip() if found else "it ended without a word, as one that was killed"
        variables = ", ".join(dict.fromkeys(_PICKED_UP.findall(said)))
        return f"{why} (Java takes options from {variables})" if variables else why

    def _read(self, reading: int) -> None:
        # Where nobody reads our stderr any more, nobody reads the JVM's, which then finds its pipe closed.
        with os.fdopen(reading, "rb") as lines, suppress(OSError):
            for line in lines:
                if line.rstrip() == _CHATTER:
                    continue
                with self._lock:
                    if self._held is None:
                        os.write(2, line)
                    else:
                        self._held.append(line)


@cache
def scratch_folder() -> Path:
    """A directory that goes with this process."""
    scratch = Path(tempfile.mkdtemp(prefix="tidemark-spark-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    return scratch


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
