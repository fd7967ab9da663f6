"""PostgreSQL servers whose data directories are copies of one: initdb takes a second of a processor, and cp none."""

from __future__ import annotations

import atexit
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tidemark_demo.servers.postgres_server import PostgresServer

_PASSWORD = secrets.token_hex(16)
"""Of the servers of this process, as their data directories are copies of one."""

_templates: dict[Path, Path] = {}
"""By an installation, a data directory that was never used."""


class CopiedPostgres(PostgresServer):
    """A server as its base class starts one. All of one process have one system identifier, and one password."""

    def __init__(self, binaries: Path | None = None, *, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(binaries, settings=settings)
        self.password = _PASSWORD
        self._installation = binaries or self.binaries

    def _initialize(self) -> None:
        template = _templates.get(self._installation)
        if template is not None:
            _copy(template, self.data)
            return
        super()._initialize()
        folder = Path(tempfile.mkdtemp(prefix="tidemark-pg-template-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _copy(self.data, folder / "data")
        _templates[self._installation] = folder / "data"


def _copy(data: Path, to: Path) -> None:
    """With owners and modes, which the server insists on."""
    subprocess.run(["cp", "-a", data, to], check=True, capture_output=True)
