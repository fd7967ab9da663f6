"""Starts drivers for a test to kill, or to run side by side."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

from tests.spark_sink.pipeline.driver_process import Ended, Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Driver(AbstractContextManager["Driver"]):
    """A process that performs runs one after the other, each in a process of its own.

    Args:
        spark: The session whose JVM they use.
    """

    def __init__(self, spark: SparkSession) -> None:
        parameters: Any = spark.sparkContext._gateway.gateway_parameters  # type: ignore[union-attr]
        command = [sys.executable, "-m", "tests.spark_sink.pipeline.driver_process"]
        self._process = subprocess.Popen(
            [*command, str(parameters.port), parameters.auth_token],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def __exit__(self, *_: object) -> None:
        with self._process:
            # The run that it waits for is in its group.
            os.killpg(self._process.pid, signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def begin(self, run: Run) -> None:
        """Begins a run."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(asdict(run)) + "\n")
        self._process.stdin.flush()

    def ended(self) -> Ended:
        """Waits until the run that was begun has ended."""
        assert self._process.stdout
        return Ended(**json.loads(self._process.stdout.readline()))

    def perform(self, run: Run) -> Ended:
        """Begins a run and waits until it has ended."""
        self.begin(run)
        return self.ended()
