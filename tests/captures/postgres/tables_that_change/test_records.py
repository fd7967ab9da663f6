"""The record of a table, and what it says has changed: each ALTER with what is found of it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tidemark.captures.postgres.catalog.columns import Table
from tidemark.captures.postgres.catalog.table_record import read_digests
from tidemark.captures.postgres.server.config import ResourceConfig, parse_endpoint, parse_resource
from tidemark.captures.postgres.server.session import connect
from tidemark.captures.postgres.tables.bindings import bound_tables
from tidemark.captures.postgres.tables.noted_table import NotedTable
from tidemark.captures.postgres.tables_that_change.table_fingerprint import Difference, difference, fingerprint
from tidemark.testing.servers.postgres import Database

PATH = ("public", "t")
PLAIN = ["CREATE TABLE t (id int PRIMARY KEY, a text, b text)", "INSERT INTO t VALUES (1, 'a', 'b')"]
TYPED = [
    "CREATE TYPE mood AS ENUM ('low', 'high')",
    "CREATE TYPE pair AS (x int, y text)",
    "CREATE DOMAIN pairs AS pair[]",
    "CREATE TABLE t (id mood PRIMARY KEY, a mood[], b pairs)",
    "INSERT INTO t VALUES ('low', '{high}', '{}')",
]


@pytest.fixture
def session(any_database: Database) -> Iterator[psycopg.Connection]:
    with connect(parse_endpoint(any_database.config())) as opened:
        opened.execute("SET search_path = public")
        yield opened


def _resource(**options: object) -> ResourceConfig:
    return parse_resource({"schema": "public", "table": "t", **options})


def _table(session: psycopg.Connection) -> Table:
    (found,) = bound_tables(session, [_resource()], "pub")
    assert found is not None and found.record is not None
    return found


def _changes(
    session: psycopg.Connection, prepare: list[str], alter: str, before: ResourceConfig, after: ResourceConfig
) -> Difference:
    for statement in prepare:
        session.execute(statement)
    table = _table(session)
    assert table.record is not None
    kept = fingerprint(table.record, before, table.key, "3")
    digests = read_digests(session, "pub", [PATH])
    assert read_digests(session, "pub", [PATH]) == digests
    unchanged = _table(session).record
    assert unchanged is not None
    assert difference(kept, unchanged, before, table.key) == Difference(())
    if alter:
        session.execute(alter)
        assert read_digests(session, "pub", [PATH]) != digests
    now = _table(session)
    assert now.record is not None
    return difference(kept, now.record, after, now.key)


WRITES = ("VACUUM", "TRUNCATE", "USING", "(10)", "clock_timestamp()", "IDENTITY", "serial")
"""What has statements write all rows to another file."""

PUBLISHED = [*PLAIN, "CREATE PUBLICATION pub FOR TABLE t"]


@pytest.mark.parametrize(
    ("prepare", "alter", "found"),
    [
        (PLAIN, "DROP TABLE t; CREATE TABLE t (id int)", {"made_again": ()}),
        (PLAIN, "ALTER TABLE t ADD c int", {}),
        (PLAIN, "ALTER TABLE t ADD c int DEFAULT 7", {"column_filled": ("c",)}),
        (PLAIN, "ALTER TABLE t ADD c timestamptz DEFAULT clock_timestamp()", {"column_filled": ("c",)}),
        (PLAIN, "ALTER TABLE t ADD c int GENERATED ALWAYS AS IDENTITY", {"column_filled": ("c",)}),
        (PLAIN, "ALTER TABLE t ADD c serial", {"column_filled": ("c",)}),
        (PLAIN, "ALTER TABLE t DROP a", {}),
        (
            PLAIN,
            "ALTER TABLE t DROP a; ALTER TABLE t ADD a text",
            {"column_made_again": ("a",)},
        ),
        (PLAIN, "ALTER TABLE t RENAME a TO c", {"column_renamed": ("c",)}),
        (
            PLAIN,
            "ALTER TABLE t RENAME a TO c; ALTER TABLE t RENAME b TO a; ALTER TABLE t RENAME c TO b",
            {"column_renamed": ("b", "a")},
        ),
        (PLAIN, "ALTER TABLE t ALTER a TYPE varchar(10)", {"column_written": ("a",)}),
        (PLAIN, "ALTER TABLE t ALTER a TYPE varchar", {}),
        (PLAIN, "ALTER TABLE t ALTER a TYPE text USING upper(a)", {"column_written": ("a",)}),
        (PLAIN, "ALTER TABLE t ALTER id TYPE int USING id + 1", {"column_written": ("id",), "key_values": ()}),
        (PLAIN, "ALTER TABLE t ALTER a SET STATISTICS 7", {}),
        (PLAIN, "ALTER TABLE t ALTER a SET DEFAULT 'x'", {}),
        (PLAIN, "VACUUM FULL t", {}),
        (PLAIN, "TRUNCATE t", {}),
        (PLAIN, "ALTER TABLE t DROP CONSTRAINT t_pkey", {"key": ()}),
        (
            ["CREATE TABLE t (id int PRIMARY KEY, a int, b int GENERATED ALWAYS AS (a + 1) STORED)"],
            "ALTER TABLE t ALTER b DROP EXPRESSION",
            {"expression_dropped": ("b",)},
        ),
        (TYPED, "ALTER TYPE mood ADD VALUE 'middle' BEFORE 'high'", {}),
        (TYPED, "ALTER TYPE mood RENAME VALUE 'low' TO 'bad'", {"labels_renamed": ("id", "a"), "key_values": ()}),
        (TYPED, "ALTER TYPE pair ADD ATTRIBUTE z int", {"attributes": ("b",)}),
        (TYPED, "ALTER TYPE pair RENAME ATTRIBUTE x TO z", {"attributes": ("b",)}),
        (TYPED, "ALTER TYPE pair DROP ATTRIBUTE x", {"attributes": ("b",)}),
        (PUBLISHED, "ALTER PUBLICATION pub DROP TABLE t; ALTER PUBLICATION pub ADD TABLE t", {"published_again": ()}),
        (PUBLISHED, "ALTER PUBLICATION pub SET (publish = 'insert')", {"options": ()}),
        (PUBLISHED, "ALTER PUBLICATION pub SET (publish_via_partition_root = true)", {"options": ()}),
        (PUBLISHED, "ALTER TABLE t RENAME TO s; ALTER TABLE s RENAME TO t", None),
    ],
)
def test_what_an_alter_changes(
    session: psycopg.Connection, prepare: list[str], alter: str, found: dict[str, tuple[str, ...]] | None
) -> None:
    if found is None:
        for statement in prepare:
            session.execute(statement)
        digests = read_digests(session, "pub", [PATH])
        session.execute(alter)
        assert read_digests(session, "pub", [PATH]) == digests
        return
    changed = _changes(session, prepare, alter, _resource(), _resource())
    assert {each.change.name: each.columns for each in changed.found} == found
    written = any(word in alter for word in WRITES)
    assert bool(changed.rewritten) == written


def test_a_table_that_left_its_published_schema(session: psycopg.Connection) -> None:
    if session.info.server_version < 150000:
        pytest.skip("publications of schemas came with version 15")
    there_and_back = "CREATE SCHEMA s; ALTER TABLE t SET SCHEMA s; ALTER TABLE s.t SET SCHEMA public"
    prepare = [*PLAIN, "CREATE PUBLICATION pub FOR TABLES IN SCHEMA public"]
    changed = _changes(session, prepare, there_and_back, _resource(), _resource())
    assert [each.change.name for each in changed.found] == ["published_again"]


def test_a_column_that_is_no_longer_excluded(session: psycopg.Connection) -> None:
    changed = _changes(session, PLAIN, "", _resource(exclude=["a"], hash=["b"]), _resource())
    assert {each.change.name: each.columns for each in changed.found} == {"included": ("a", "b")}


@pytest.mark.parametrize(
    ("alter", "written"),
    [
        ("ALTER TYPE mood RENAME VALUE 'low' TO 'bad'; TRUNCATE part", ["part"]),
        ("ALTER TABLE t ADD c int DEFAULT 7; TRUNCATE part", ["part"]),
        ("ALTER TABLE t ALTER a TYPE text", ["part", "rest"]),
        ("TRUNCATE part; ALTER TABLE t ALTER a TYPE text", ["part", "rest"]),
    ],
)
def test_a_partition_that_is_truncated_beside_an_alter(
    session: psycopg.Connection, alter: str, written: list[str]
) -> None:
    """An ALTER that writes rows to other files does not explain them: a partition may have lost rows before."""
    prepare = [
        "CREATE TYPE mood AS ENUM ('low', 'high')",
        "CREATE TABLE t (id int PRIMARY KEY, a mood) PARTITION BY RANGE (id)",
        "CREATE TABLE part PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE rest PARTITION OF t DEFAULT",
    ]
    changed = _changes(session, prepare, alter, _resource(), _resource())
    assert [store.name for store in changed.rewritten] == written


def test_partitions_have_identities_and_files_of_their_own(session: psycopg.Connection) -> None:
    prepare = [
        "CREATE TABLE t (id int PRIMARY KEY, a text) PARTITION BY RANGE (id)",
        "CREATE TABLE first PARTITION OF t FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id)",
        "CREATE TABLE part PARTITION OF first FOR VALUES FROM (0) TO (5)",
    ]
    changed = _changes(session, prepare, "ALTER TABLE part REPLICA IDENTITY FULL", _resource(), _resource())
    assert changed == Difference(())
    record = _table(session).record
    assert record is not None
    assert [(store.name, store.identity, store.identified_by) for store in record.stores] == [
        ("t", "d", ("id",)),
        ("part", "f", ()),
    ]
    assert record.files == {}
    session.execute("VACUUM FULL part")
    record = _table(session).record
    assert record is not None
    assert list(record.files) == [str(record.stores[1].oid)]


def test_a_fingerprint_of_an_earlier_version(session: psycopg.Connection) -> None:
    """It had no names of partitions, and no collations."""
    for statement in (
        "CREATE TABLE t (id text PRIMARY KEY, a text) PARTITION BY LIST (id)",
        "CREATE TABLE first PARTITION OF t FOR VALUES IN ('a')",
        "CREATE TABLE rest PARTITION OF t DEFAULT",
    ):
        session.execute(statement)
    table = _table(session)
    assert table.record is not None and table.record.partitions is not None
    known = fingerprint(table.record, _resource(), table.key, "3")
    state = known.to_state()
    assert NotedTable.of(state) == known
    partitions = {oid: each.joined for oid, each in table.record.partitions.items()}
    columns = {number: column[:6] for number, column in state["columns"].items()}
    earlier = NotedTable.of({**state, "partitions": partitions, "columns": columns})
    assert difference(earlier, table.record, _resource(), table.key) == Difference(())
    first = next(store.oid for store in table.stores if store.name == "first")
    session.execute("DROP TABLE first")
    now = _table(session).record
    assert now is not None
    for noted, name in ((known, "public.first"), (earlier, f"oid {first}")):
        (found,) = difference(noted, now, _resource(), table.key).found
        assert (found.change.name, found.columns) == ("partition_gone", (name,))
