"""How many rows of a COPY are held at once."""

from __future__ import annotations

from contextlib import closing

from tidemark.backfill.chunk_size import CHUNK_BYTES
from tidemark.captures.postgres.chunks.copy_rows import CopyConnection
from tidemark.captures.postgres.server.config import parse_endpoint
from tidemark.captures.postgres.server.session import connect_pq
from tidemark.testing.servers.postgres import Database

WIDTH = 30_000


def test_rows_that_become_wide_are_not_held_by_the_hundred(database: Database) -> None:
    taken: list[int] = []

    def take(lines: list[bytes]) -> int:
        taken.append(sum(map(len, lines)))
        return taken[-1]

    query = f"SELECT repeat('x', CASE WHEN i <= 1000 THEN 1 ELSE {WIDTH} END) FROM generate_series(1, 1400) i"
    with closing(CopyConnection(connect_pq(parse_endpoint(database.config()), replication=False))) as connection:
        assert connection.copy(query.encode(), take, "t")
    assert sum(taken) == 1000 * 2 + 400 * (WIDTH + 1)
    assert max(taken) <= CHUNK_BYTES // 8 + WIDTH + 1
