"""A server of Spark Connect on this machine, from the pyspark package."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers.deadline import wait_until
from tests.servers.spark_cluster import SPARK_HOME, SparkCluster
from tidemark_demo.servers.server_guard import ServerGuard

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.connect.grpc.binding.address": "127.0.0.1",
}


class SparkConnect:
    """``with SparkConnect() as server: SparkSession.builder.remote(server.url)``.

    Nothing of it outlives the context, nor the process that made it.

    Args:
        master: Where its jobs run.
        seconds: Until it takes sessions.
    """

    def __init__(self, master: str = "local[2]", seconds: float = 180) -> None:
        self._master = master
        self._seconds = seconds
        self._root = Path(tempfile.mkdtemp(prefix="tidemark-spark-connect-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: ServerGuard | None = None
        self.url = ""

    @property
    def output(self) -> str:
        """What the server said."""
        return (self._root / "server.log").read_text(errors="replace")

    def __enter__(self) -> Self:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = {**SETTINGS, "spark.connect.grpc.binding.port": str(port)}
        given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        with (self._root / "server.log").open("wb") as output:
            self._process = subprocess.Popen(
                [
                    str(SPARK_HOME / "bin" / "spark-submit"),
                    "--master",
                    self._master,
                    "--class",
                    SERVER,
                    *given,
                    "spark-internal",
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._root,
                env=SparkCluster.environment(SPARK_HOME=str(SPARK_HOME)),
                start_new_session=True,
            )
        self._guard = ServerGuard(self._process.pid, self._root, signal.SIGKILL)
        try:
            wait_until(self._listens, self._seconds, "a server of Spark Connect", every=0.1)
        except BaseException:
            self.close()
            raise
        self.url = f"sc://127.0.0.1:{port}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kills it and removes what it left."""
        if self._process is not None and self._guard is not None:
            self._guard.dismiss()
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._root, ignore_errors=True)

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the server ended: {self.output[-2000:]}"
        return re.search("Spark Connect server started at", self.output) is not None
