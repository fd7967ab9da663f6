"""A server of Spark Connect on this machine, from the pyspark package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidemark.testing.servers.server_process import ServerProcess
from tidemark.testing.spark_cluster import SPARK_HOME, SparkCluster

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.connect.grpc.binding.address": "127.0.0.1",
}


class SparkConnect(ServerProcess):
    """``with SparkConnect() as server: SparkSession.builder.remote(server.url)``.

    Args:
        master: Where its jobs run.
    """

    product = "Spark-Connect"

    def __init__(self, master: str = "local[2]") -> None:
        super().__init__()
        self._master = master

    @property
    def url(self) -> str:
        return f"sc://{self.host}:{self.port}"

    def start(self, seconds: float = 180.0) -> None:
        super().start(seconds)

    def stop(self, *, seconds: float = 20.0) -> None:
        self.kill()  # It keeps nothing that a shutdown would save.

    def _make_data_directory(self) -> None:
        self.data.mkdir()

    def _command(self) -> Sequence[str | Path]:
        settings = {**SETTINGS, "spark.connect.grpc.binding.port": str(self.port)}
        given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        submit = SPARK_HOME / "bin" / "spark-submit"
        return [submit, "--master", self._master, "--class", SERVER, *given, "spark-internal"]

    def _run_as(self) -> dict[str, Any]:
        return {**super()._run_as(), "env": SparkCluster.environment(SPARK_HOME=str(SPARK_HOME))}

    def _takes_connections(self) -> bool:
        return "Spark Connect server started at" in self.output.read_text(errors="replace")
