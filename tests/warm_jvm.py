"""One JVM for the Spark commands that a process of tests runs one after the other.

A JVM takes four seconds of a processor until it has a session, and three until its jobs are quick. A command
that is given this one has a session of its own in it, as it has in the JVM that ``spark-submit`` starts. What tests how
a JVM is started, how it ends, or what it says, gives it to no command.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.spark_python import preload

SHARED = pytest.mark.xdist_group("warm_jvm")
"""Tests that use it share it in a run over several processes as well."""

_LOG4J = """\
rootLogger.level = fatal
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
"""
"""What Spark logs as an error a command says as well."""


@cache
def warm_jvm() -> Mapping[str, str]:
    """The variables that tell PySpark of it, as ``spark-submit`` does.

    It is started the first time, and ends with this process.
    """
    from pyspark.java_gateway import launch_gateway

    folder = tempfile.TemporaryDirectory(prefix="tidemark-jvm-")
    log4j, output = Path(folder.name) / "log4j2.properties", Path(folder.name) / "output"
    log4j.write_text(_LOG4J)
    options = f"-Dlog4j2.configurationFile={log4j.as_uri()} {os.environ.get('SPARK_SUBMIT_OPTS', '')}"
    with output.open("wb") as said, pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_SUBMIT_OPTS", options)
        environment.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        preload(environment)
        gateway: Any = launch_gateway(popen_kwargs={"stdout": said, "stderr": said})  # type: ignore[no-untyped-call]

    def end() -> None:
        gateway.proc.stdin.close()  # The JVM ends with it.
        gateway.proc.wait()
        folder.cleanup()

    atexit.register(end)
    parameters = gateway.gateway_parameters
    return {"PYSPARK_GATEWAY_PORT": str(parameters.port), "PYSPARK_GATEWAY_SECRET": parameters.auth_token}
