"""Chunks of a table into which several connections insert without a pause."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.captures.mysql.table_chunks import table_chunks
from tidemark.backfill.fence import Fence
from tidemark.testing.servers.mariadb import Database

WRITERS = 4

SNAPSHOTS = 40


def snapshots_under_inserts(
    database: Database, inserted: Callable[[Any, int], None] = lambda cursor, key: None
) -> list[tuple[Fence, set[int]]]:
    """Of ``t (id INT PRIMARY KEY)``: the fence of each chunk, and the keys that it shows.

    Args:
        inserted: Is called after each insert with its cursor and key.
    """
    stop = threading.Event()

    def write(first: int) -> None:
        with database.connect() as connection, connection.cursor() as cursor:
            for key in range(first, first + 100_000, WRITERS):
                if stop.is_set():
                    return
                cursor.execute("INSERT INTO t VALUES (%s)", [key])
                inserted(cursor, key)

    snapshots: list[tuple[Fence, set[int]]] = []
    with ThreadPoolExecutor(WRITERS) as threads:
        writers = [threads.submit(write, first) for first in range(WRITERS)]
        try:
            with table_chunks(database, "t") as chunks:
                while len(snapshots) < SNAPSHOTS and not all(writer.done() for writer in writers):
                    chunk = chunks.read(limit=100_000)
                    if len(chunk.rows):
                        snapshots.append((chunk.fence, {int(key) for key in chunk.rows.keys}))
        finally:
            stop.set()
    for writer in writers:
        writer.result()
    assert len(snapshots) == SNAPSHOTS
    return snapshots
