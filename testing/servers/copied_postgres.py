"""PostgreSQL servers whose data directories are copies of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tidemark.testing.servers.postgres_server import PostgresServer
from tidemark.testing.servers.templates import PASSWORD, data_directory

_LEAN = {
    "shared_buffers": "32MB",
    "max_wal_size": "192MB",
    "wal_init_zero": "off",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
}
"""Less memory to fill, and to let go of when a connection ends. Tests of a few rows have thousands of connections."""


class CopiedPostgres(PostgresServer):
    """A server as its base class starts one. All of one run have one system identifier, and one password."""

    def __init__(self, binaries: Path | None = None, *, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(binaries, settings={**_LEAN, **settings})
        self.password = PASSWORD
        self._installation = binaries or self.binaries

    def _initialize(self) -> None:
        data_directory(self._installation, super()._initialize, self.data)

    def _initdb_options(self) -> Sequence[str]:
        """Passwords are hashed once instead of 4,096 times, by which each connection takes 2 ms less of a processor."""
        return ("-c", "scram_iterations=1") if self.version >= 16 else ()
