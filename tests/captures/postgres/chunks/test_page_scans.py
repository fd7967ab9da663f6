"""Physical scans: pages of tables and partitions, what is written meanwhile, and tables without a key."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.captures.postgres.chunk_reads import Table, after, opened
from tidemark.captures.postgres.chunks.copy_rows import ChunkLimits
from tidemark.captures.postgres.chunks.pages import File, Place, Rewritten, next_pages, page_bounds
from tidemark.captures.postgres.tables.snapshots import ImportedSnapshot
from tidemark.protocol.errors import SourceError
from tidemark.testing.servers.postgres import Database

FILLER = "x text DEFAULT repeat('x', 200)"
FILL = "INSERT INTO t SELECT i FROM generate_series(1, 1000) i"
KEYED = (f"CREATE TABLE t (v int PRIMARY KEY, {FILLER})", FILL)
KEYLESS = (f"CREATE TABLE t (v int, {FILLER})", FILL)
PARTITIONED = (
    f"CREATE TABLE t (v int, {FILLER}) PARTITION BY RANGE (v)",
    "CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (300) PARTITION BY RANGE (v)",
    "CREATE TABLE t_1a PARTITION OF t_1 FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE t_1b PARTITION OF t_1 FOR VALUES FROM (100) TO (300)",
    f"CREATE TABLE t_2 ({FILLER}, gone int, v int)",
    "ALTER TABLE t_2 DROP COLUMN gone",
    "CREATE TABLE t_empty PARTITION OF t FOR VALUES FROM (5000) TO (6000)",
    "ALTER TABLE t ATTACH PARTITION t_2 FOR VALUES FROM (300) TO (5000)",
    FILL,
)


def values(documents: list[dict[str, Any]]) -> list[int]:
    return [document["v"] for document in documents]


def rows_read(table: Table, limit: int, **request: Any) -> list[int]:
    return sorted(values(table.scan(limit, physical=True, **request)))


@pytest.mark.parametrize("statements", [KEYED, KEYLESS, PARTITIONED], ids=["keyed", "keyless", "partitioned"])
@pytest.mark.parametrize("limit", [30, 5000])
def test_every_row_comes_once(any_database: Database, statements: tuple[str, ...], limit: int) -> None:
    with opened(any_database, *statements) as table:
        assert rows_read(table, limit) == list(range(1, 1001))
        table.session.execute("ANALYZE t")
        assert rows_read(table, limit) == list(range(1, 1001))


def test_pages_are_read_by_their_tids(database: Database) -> None:
    with opened(database, *KEYED) as table:
        query = table.target.pages("public.t", (3, 4), 9, None, 50)
        with table.session.cursor() as cursor:
            plan = "\n".join(row[0] for row in cursor.execute(b"EXPLAIN " + query.as_bytes(None)))
        assert "Tid Range Scan" in plan


def test_rows_have_their_keys_where_the_table_has_one(database: Database) -> None:
    with opened(database, *KEYED) as table:
        assert list(table.chunk(3, physical=True).rows.keys) == [b"1", b"2", b"3"]
    with opened(database, *(statement.replace(" t ", " u ") for statement in KEYLESS), table="u") as table:
        assert list(table.chunk(3, physical=True).rows.keys) == [b"", b"", b""]


@pytest.mark.parametrize("statements", [KEYED, PARTITIONED], ids=["plain", "partitioned"])
@pytest.mark.parametrize("parts", [2, 5, 1000])
def test_ranges_cover_every_row_once(database: Database, statements: tuple[str, ...], parts: int) -> None:
    with opened(database, *statements) as table:
        files = table.reader.files(table.target)
        bounds = [place.key() for place in page_bounds(files, None, None, parts)]
        assert min(parts, 20) - 1 <= len(bounds) < parts
        ranges = zip([None, *bounds], [*bounds, None], strict=True)
        found = [v for cursor, until in ranges for v in rows_read(table, 70, cursor=cursor, until=until)]
        assert found == list(dict.fromkeys(found)) and sorted(found) == list(range(1, 1001))


def test_pages_that_came_later_are_left_to_the_log(database: Database) -> None:
    with opened(database, *KEYED) as table:
        chunk = table.chunk(50, physical=True)
        table.session.execute("INSERT INTO t SELECT i FROM generate_series(2001, 9000) i")
        rest = rows_read(table, 5000, cursor=after(chunk))
        assert rest[: 1000 - len(chunk.rows)] == list(range(len(chunk.rows) + 1, 1001))
        assert len(rest) < 1100  # There was room for a few in the last page.


@pytest.mark.parametrize("rewrite", ["VACUUM FULL t", "CLUSTER t USING t_pkey", "ALTER TABLE t ALTER v TYPE bigint"])
def test_a_rewritten_table_is_noticed(database: Database, rewrite: str) -> None:
    with opened(database, *KEYED) as table:
        cursor = after(table.chunk(50, physical=True))
        (bound,) = page_bounds(table.reader.files(table.target), None, None, 2)
        table.session.execute(rewrite)
        if "TYPE" in rewrite:
            with pytest.raises(SourceError, match="TM-PG-030"):
                table.chunk(50, physical=True, cursor=cursor)
            return
        for request in ({"cursor": cursor}, {"until": bound.key()}):
            chunk = table.chunk(50, physical=True, **request)
            assert chunk.rewritten and not len(chunk.rows) and not chunk.end
        assert rows_read(table, 50) == list(range(1, 1001))


def test_a_partition_that_goes_away_is_passed_over(database: Database) -> None:
    with opened(database, *PARTITIONED) as table:
        chunk = table.chunk(30, physical=True)
        assert all(v < 100 for v in values(table.documents(chunk.rows)))
        table.session.execute("DROP TABLE t_1a")
        assert rows_read(table, 30, cursor=after(chunk)) == list(range(100, 1001))


def test_names_and_partitions_are_those_of_now_in_a_snapshot_of_before(database: Database) -> None:
    """Chunks of a table without a key import the snapshot of its base, which may be of a moment without its name."""
    with opened(database, *PARTITIONED) as table, database.connect() as holder:
        for old, new in (("t", "away"), ("t_2", "Away 2"), ("t_1b", "u")):
            table.session.execute(f'ALTER TABLE {old} RENAME TO "{new}"')
        holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        (exported,) = holder.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
        snapshot = ImportedSnapshot(exported)
        table.session.execute("ALTER TABLE away RENAME TO t")
        table.session.execute("ALTER TABLE u RENAME TO t_1b")
        table.session.execute("CREATE SCHEMA s")
        table.session.execute("ALTER TABLE t_1b SET SCHEMA s")
        assert rows_read(table, 70, snapshot=snapshot) == list(range(1, 1001))
        table.session.execute("DROP TABLE t_1a")
        assert rows_read(table, 70, snapshot=snapshot) == list(range(100, 1001))


def test_a_condition_bounds_what_is_looked_at(database: Database) -> None:
    with opened(database, *KEYED, "ANALYZE t", where="v > 990") as table:
        read = list(table.chunks(100, physical=True))
        assert len(read) >= 9 and all(chunk.scanned for chunk in read)
        assert [v for chunk in read for v in values(table.documents(chunk.rows))] == list(range(991, 1001))


def test_a_chunk_that_is_cut_short_goes_on_in_the_middle_of_a_page(database: Database) -> None:
    with opened(database, *KEYED, limits=ChunkLimits(3000, decode_rows=5)) as table:
        assert len(table.chunk(1000, physical=True).rows) < 100
        assert values(table.scan(1000, physical=True)) == list(range(1, 1001))


# Tables without a key.


def test_rows_without_a_key_have_places_of_their_own(database: Database) -> None:
    with opened(database, *PARTITIONED) as table:
        documents = table.scan(100, physical=True)
    places = Counter(tuple(document["_meta"]["source"]["loc"]) for document in documents)
    assert len(places) == 1000 and {place[0] for place in places} == {1}


# The pure part.

ONE, TWO = File(7, "s.one", 70, 100, 10.0), File(9, "s.two", 90, 40, 10.0)


def test_pages_of_about_the_wanted_number_of_rows() -> None:
    pages = next_pages([ONE, TWO], None, None, 95)
    assert pages is not None and (pages.file, pages.start, pages.stop) == (ONE, Place(7, 70, 0, 0, 100), 10)
    assert pages.after == Place(7, 70, 10, 0, 100)
    last = next_pages([ONE, TWO], Place(7, 70, 99, 3, 100), None, 95)
    assert last is not None and (last.start.line, last.stop, last.after) == (3, 100, Place(9, 90, 0, 0, 40))
    end = next_pages([ONE, TWO], last.after, None, 10**9)
    assert end is not None and (end.stop, end.after) == (40, None)


def test_places_are_text() -> None:
    for place in (Place(1, 2, 3), Place(1, 2, 3, 4), Place(1, 2, 3, 4, 5)):
        assert Place.parse(place.key()) == place
    for text in (b"", b"1/2", b"1/2/3", b"a/2/3.4", b"1/2/3.4/5/6"):
        with pytest.raises(SourceError, match="TM-PG-024"):
            Place.parse(text)


def test_a_file_that_is_not_there_any_more() -> None:
    for cursor, until in ((Place(7, 71, 0), None), (None, Place(9, 91, 5)), (Place(7, 70, 3), Place(7, 71, 9))):
        with pytest.raises(Rewritten):
            next_pages([ONE, TWO], cursor, until, 10)
    assert next_pages([TWO], Place(7, 71, 0), None, 10) is not None


@pytest.mark.parametrize("parts", range(1, 12))
def test_bounds_lie_inside_and_grow(parts: int) -> None:
    cursor, until = Place(7, 70, 90, 5, 100), Place(9, 90, 4)
    bounds = page_bounds([ONE, TWO], cursor, until, parts)
    order = [(bound.oid, bound.page) for bound in bounds]
    assert order == sorted(set(order)) and len(bounds) == parts - 1
    assert all((7, 90) < place < (9, 4) for place in order)
    assert page_bounds([], None, None, parts) == []


def test_a_condition_that_the_server_has_an_index_for_changes_no_order(database: Database) -> None:
    """A chunk that is full goes on after its last row, which must be the furthest one."""
    settings = [
        f"ALTER DATABASE {database.name} SET enable_{plan} = off" for plan in ("tidscan", "seqscan", "bitmapscan")
    ]
    fill = "INSERT INTO t SELECT i FROM generate_series(1000, 1, -1) i"
    with opened(
        database, *settings, "CREATE TABLE t (v int PRIMARY KEY)", fill, scan="physical", where="v > 10"
    ) as table:
        assert rows_read(table, 30) == list(range(11, 1001))
