"""A process of a server that stands still."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from psycopg.abc import Query

from tidemark.testing.servers.postgres import Database


@contextmanager
def halted(database: Database, process: Query) -> Iterator[None]:
    """Inside, one of the server's processes stands still. Skips a test whose server runs elsewhere.

    Args:
        process: Selects its id, and nothing else.
    """
    if database.server is None:
        pytest.skip("the server's processes are not ours to halt")
    with database.connect() as admin:
        ((found,),) = admin.execute(process).fetchall()
    os.kill(found, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(found, signal.SIGCONT)
