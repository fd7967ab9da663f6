"""A standalone cluster of Spark on this machine: a master and two workers, from the pyspark package."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

import pyspark

from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.server_guard import ServerGuard

SPARK_HOME = Path(pyspark.__file__).parent

JAVA_OPTIONS = os.environ.get("SPARK_SUBMIT_OPTS", "")
"""Options of drivers, as tests/conftest.py sets them; for executors they become ``spark.executor.extraJavaOptions``."""

SETTINGS = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    # So that neither executor has done all the work before the other one has come.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.locality.wait": "0",
}
"""Settings of drivers whose ``spark.eventLog.dir`` tells what ran where."""


class SparkCluster:
    """``with SparkCluster() as cluster: subprocess.run([…, "--master", cluster.url], env=cluster.environment())``.

    Nothing of it outlives the context, nor the process that made it. Executors start Python by what a driver has in
    ``PYSPARK_PYTHON``.

    Args:
        workers: How many.
        cores: Of each.
        memory: Of each, as Spark writes it.
        seconds: Until all have registered with the master.
    """

    def __init__(self, workers: int = 2, cores: int = 1, memory: str = "1g", seconds: float = 180) -> None:
        self._workers = workers
        self._of_each = ["--cores", str(cores), "--memory", memory]
        self._seconds = seconds
        self._root = Path(tempfile.mkdtemp(prefix="tidemark-spark-cluster-"))
        self._running: list[tuple[subprocess.Popen[bytes], ServerGuard]] = []
        self.url = ""

    @property
    def output(self) -> str:
        """What the master said."""
        return (self._root / "master.log").read_text(errors="replace")

    @staticmethod
    def environment(**more: str) -> dict[str, str]:
        """The environment of a driver on this machine whose executors have this Python."""
        return {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **more}

    def __enter__(self) -> Self:
        try:
            place = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
            self._start("master", "org.apache.spark.deploy.master.Master", *place)
            started = r"Starting Spark master at (spark://\S+)"
            found = wait_until(lambda: re.search(started, self.output), self._seconds, "a master of Spark", every=0.1)
            self.url = found[1]
            for number in range(self._workers):
                work = ["--work-dir", str(self._root / f"work-{number}")]
                worker = f"worker-{number}"
                self._start(worker, "org.apache.spark.deploy.worker.Worker", *place, *self._of_each, *work, self.url)
            wait_until(self._all_registered, self._seconds, f"{self._workers} workers of Spark", every=0.1)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kills everything and removes what it left."""
        for process, guard in reversed(self._running):
            guard.dismiss()
            # A worker's executors are in its group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._running.clear()
        shutil.rmtree(self._root, ignore_errors=True)

    def _start(self, name: str, main: str, *arguments: str) -> None:
        with (self._root / f"{name}.log").open("wb") as output:
            process = subprocess.Popen(
                [str(SPARK_HOME / "bin" / "spark-class"), main, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._root,
                env=self.environment(
                    SPARK_HOME=str(SPARK_HOME), SPARK_DAEMON_MEMORY="256m", SPARK_DAEMON_JAVA_OPTS=JAVA_OPTIONS
                ),
                start_new_session=True,
            )
        self._running.append((process, ServerGuard(process.pid, self._root, signal.SIGKILL)))

    def _all_registered(self) -> bool:
        for process, _ in self._running:
            assert process.poll() is None, f"{process.args!r} ended: {self.output[-2000:]}"
        return len(re.findall("Registering worker ", self.output)) == self._workers
