"""What a connector and its readers hold in memory while the rows are as large as they may be."""

from __future__ import annotations

import resource
import sys
import threading
from pathlib import Path

import pytest

from tests.captures.session import Session, apply, bindings, session
from tests.captures.source_tables import endpoint, prepare
from tests.servers.postgres import Database

LIMIT_BYTES = 200 * 1024 * 1024

ROWS = 4


def resident_bytes(pid: int) -> int:
    """Of a process and its children, as proc(5) shows them; of one that has ended, nothing."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = [
            int(c) for task in Path(f"/proc/{pid}/task").iterdir() for c in (task / "children").read_text().split()
        ]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return pages * resource.getpagesize() + sum(map(resident_bytes, children))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the C library decides what stays")
def test_rows_of_sixteen_megabytes(database: Database) -> None:
    prepare(
        database,
        "CREATE TABLE users (id int PRIMARY KEY, name text)",
        f"INSERT INTO users SELECT i, repeat(md5(i::text), 500000) FROM generate_series(1, {ROWS}) i",
    )
    bound = bindings("public.users")
    config = endpoint(database)
    apply(config, bound)
    held: list[int] = []
    over = threading.Event()
    with session(config, bound) as capture:
        pid = capture.process.pid

        def watch() -> None:
            while not over.wait(0.01):
                held.append(resident_bytes(pid))

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            capture.until(Session.done)
        finally:
            over.set()
            thread.join()
        assert len(capture.documents) == ROWS
    assert max(held) < LIMIT_BYTES
