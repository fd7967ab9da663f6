"""Data directories that no server has used, made once for all processes of a run of tests, and copied for each server.

To make one takes a second of a processor for PostgreSQL and seconds for MySQL; to copy one takes next to nothing.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID")
"""What pytest-xdist names a run by in each of its processes; without it a process is a run of its own."""

PASSWORD = hashlib.sha256(_RUN.encode()).hexdigest()[:32] if _RUN else secrets.token_hex(16)
"""The password of the superusers in them."""


def data_directory(program: Path, make: Callable[[], None], data: Path) -> None:
    """Makes a server's data directory ``data``.

    Args:
        program: Of the server; each has a data directory of its own.
        make: Makes ``data`` where there is nothing to copy yet.
        data: Where it is to be.
    """
    template = _folder() / hashlib.sha256(os.fsencode(program)).hexdigest()[:16]
    with (template.with_suffix(".lock")).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            make()
            part = template.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
            _copy(data, part)
            (part / "auto.cnf").unlink(missing_ok=True)  # the identity of one server of MySQL's
            part.rename(template)
            return
    _copy(template, data)


@cache
def _folder() -> Path:
    """The run's. The process that controls a run removes it, see ``tests/conftest.py``."""
    if _RUN:
        folder = folder_of(_RUN)
        folder.mkdir(mode=0o700, exist_ok=True)
    else:
        folder = Path(tempfile.mkdtemp(prefix="tidemark-templates-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def folder_of(run: str) -> Path:
    return Path(tempfile.gettempdir()) / f"tidemark-templates-{run}"


def _copy(data: Path, to: Path) -> None:
    """With owners and modes, which servers insist on."""
    subprocess.run(["cp", "-a", data, to], check=True, capture_output=True)
