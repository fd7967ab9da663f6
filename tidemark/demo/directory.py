"""The directory that the demo leaves behind, and the capture file in it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tidemark.protocol.errors import UsageError
from tidemark.testing.servers.postgres_server import SUPERUSER, PostgresServer

MARKER = ".tidemark-demo"
"""A file that says that the directory is the demo's own, so that the next demo may replace it."""

_CAPTURE_FILE = """\
# Written by `tidemark demo`: what to capture, with which connector, into which change log.
capture: shop

connector:
  command: [python, -m, tidemark.connectors.postgres]
  config:
    host: {host}
    port: {port}
    database: postgres
    user: {user}
    password: {{file: password}}
    backfill: {{chunk_rows: {chunk_rows}}}      # small chunks, so that the backfill can be killed in the middle

tables: ["public.*"]
log: ./shop.log                          # the change log: typed Parquet segments and JSON commits
commit: {{interval: 250ms}}

spark:
  format: delta
  warehouse: ./lake
  tables: {{"*": current}}
"""


@dataclass(frozen=True, slots=True)
class DemoDirectory:
    """Where everything of one demo run lies."""

    root: Path

    @property
    def capture_file(self) -> Path:
        return self.root / "capture.yaml"

    @property
    def change_log(self) -> Path:
        return self.root / "shop.log"

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    def table(self, name: str) -> Path:
        """The Delta table that Spark keeps of the captured table ``schema.table``."""
        return self.lake / Path(*name.split(".")) / "current"

    def output(self, name: str) -> Path:
        """The file that holds what a process printed."""
        return self.root / "logs" / f"{name}.log"

    @classmethod
    def make(cls, root: Path) -> DemoDirectory:
        """Makes the directory, replacing what an earlier demo left.

        Raises:
            UsageError: ``TM-DEMO-002`` when there is something else at ``root``.
        """
        if root.exists() and not root.is_dir():
            raise UsageError("TM-DEMO-002", f"{root} is a file")
        if root.is_dir() and any(root.iterdir()):
            if not (root / MARKER).is_file():
                raise UsageError("TM-DEMO-002", f"{root} exists and was not made by an earlier demo")
            for entry in root.iterdir():
                # The marker goes last: a removal that is interrupted can be taken up again.
                if entry.name != MARKER:
                    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        (root / "logs").mkdir(parents=True)
        (root / MARKER).write_text("Written by `tidemark demo`, and replaced by the next one.\n")
        return cls(root)

    def write_capture_file(self, server: PostgresServer, chunk_rows: int) -> None:
        secret = self.root / "password"
        secret.touch(mode=0o600)
        secret.write_text(server.password)
        self.capture_file.write_text(
            _CAPTURE_FILE.format(host=server.host, port=server.port, user=SUPERUSER, chunk_rows=chunk_rows)
        )
