"""What a connector and its readers hold in memory while the rows are as large as they may be."""

from __future__ import annotations

import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.captures.session import COMMAND, Session, apply, bindings, cold, session
from tests.captures.source_tables import endpoint, prepare
from tidemark.testing.servers.postgres import Database

pytestmark = pytest.mark.heavy

MB = 1024 * 1024

COPIES = 6
"""Of the largest row, at most, besides 200 MB: what libpq holds of it, its text, its JSON, its line, and these in the
process that reads chunks and in the other one. Measured: 4.5 for chunks, 5.5 for the log, with rows of 50 MB."""

ROWS = 4

FILL = "INSERT INTO users SELECT i, repeat(md5(i::text), {} * 32768) FROM generate_series(1, {}) i"
"""Rows of so many megabytes."""


def limit_bytes(row_megabytes: int) -> int:
    """What a connector with rows as large as that may hold."""
    return (200 + COPIES * row_megabytes) * MB


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


@contextmanager
def watched(capture: Session) -> Iterator[list[int]]:
    """What the connector and its readers hold, again and again."""
    held: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.01):
            held.append(resident_bytes(capture.process.pid))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield held
    finally:
        over.set()
        thread.join()


@pytest.mark.drawn(1)
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the C library decides what stays")
@pytest.mark.parametrize("megabytes", [16, pytest.param(40, marks=pytest.mark.slow)])
def test_large_rows(database: Database, megabytes: int) -> None:
    """From chunks, and then from the log."""
    prepare(database, "CREATE TABLE users (id int PRIMARY KEY, name text)", FILL.format(megabytes, ROWS))
    bound = bindings("public.users")
    config = endpoint(database)
    apply(config, bound)
    with session(config, bound, command=cold(COMMAND)) as capture:
        with watched(capture) as held:
            capture.until(Session.done)
            assert len(capture.documents) == ROWS
        assert max(held) < limit_bytes(megabytes)
        with watched(capture) as held:
            prepare(database, "TRUNCATE users", FILL.format(megabytes, ROWS))
            capture.until(lambda c: len(c.documents) > 2 * ROWS)
        assert max(held) < limit_bytes(megabytes)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the C library decides what stays")
def test_large_rows_that_are_read_again_by_their_keys(database: Database) -> None:
    prepare(database, "CREATE TABLE users (id int PRIMARY KEY, name text)", FILL.format(16, 3 * ROWS))
    bound = bindings("public.users", scan="none")
    config = endpoint(database)
    apply(config, bound)
    with session(config, bound, command=cold(COMMAND)) as capture, watched(capture) as held:
        # The log has the rows' new keys, and not the large values, which did not change.
        prepare(database, "UPDATE users SET id = id + 100")
        capture.until(lambda c: sum("name" in doc for _, doc in c.documents) >= 3 * ROWS and c.done())
    assert max(held) < limit_bytes(16)
