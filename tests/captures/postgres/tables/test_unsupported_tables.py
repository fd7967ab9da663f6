"""What a binding names and cannot have: said by name and kind, with what to do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.captures.postgres.captured_table import captured, columns, document, operation
from tidemark.captures.postgres.database import PostgresDatabase
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import Binding
from tidemark.testing.servers.postgres import Connection, Database

RELATIONS = """
    CREATE TABLE plain (id int PRIMARY KEY);
    CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY);
    CREATE VIEW shown AS SELECT * FROM plain;
    CREATE MATERIALIZED VIEW kept AS SELECT * FROM plain;
    CREATE SEQUENCE counter;
    CREATE TYPE pair AS (a int, b int);
    CREATE FOREIGN DATA WRAPPER wrapper;
    CREATE SERVER server FOREIGN DATA WRAPPER wrapper;
    CREATE FOREIGN TABLE remote (id int) SERVER server;
    CREATE TABLE "Orders" (id int PRIMARY KEY);
    CREATE TABLE meta (id int PRIMARY KEY, _meta text);
"""


def refused(database: Database, schema: str, table: str, **resource: Any) -> SourceError:
    """Why a binding is refused, as validate and, unless a column is in the way, also as open says it."""
    binding = Binding(resource_config={"schema": schema, "table": table, **resource}, state_key=table)
    with pytest.raises(SourceError) as raised:
        PostgresDatabase().validate(database.config(), [binding])
    return raised.value


def test_partitions_that_are_foreign_tables_are_named(any_database: Database, caplog: pytest.LogCaptureFixture) -> None:
    """Their rows are in no log of this server."""
    with any_database.connect() as session:
        session.execute(RELATIONS)
        session.execute("""
            CREATE TABLE sales (id int, n int) PARTITION BY RANGE (id);
            CREATE TABLE sales_new PARTITION OF sales FOR VALUES FROM (0) TO (100);
            CREATE TABLE sales_old PARTITION OF sales FOR VALUES FROM (-100) TO (0) PARTITION BY RANGE (id);
            CREATE FOREIGN TABLE sales_far PARTITION OF sales_old FOR VALUES FROM (-100) TO (-50) SERVER server;
            ALTER TABLE sales REPLICA IDENTITY FULL;
            ALTER TABLE sales_new REPLICA IDENTITY FULL;
        """)
    for table in ("sales", "plain"):
        PostgresDatabase().validate(
            {**any_database.config(), "slot": "s", "publication": "p"},
            [Binding(resource_config={"schema": "public", "table": table}, state_key=table)],
        )
    (said,) = [record.getMessage() for record in caplog.records if "foreign" in record.getMessage()]
    assert said.startswith("public.sales has partitions that are foreign tables: public.sales_far.")


@pytest.mark.parametrize(("columns", "exclude"), [("", []), ("a int, b int", ["a", "b"])])
def test_a_table_without_columns(database: Database, columns: str, exclude: list[str]) -> None:
    """Neither the log nor a chunk has anything of its rows."""
    with database.connect() as session:
        session.execute(f"CREATE TABLE nothing ({columns})")
        session.execute("ALTER TABLE nothing REPLICA IDENTITY FULL")
    failure = refused(database, "public", "nothing", exclude=exclude)
    assert (failure.code, failure.message) == ("TM-PG-035", "public.nothing has no columns left to capture")


def test_kinds(any_database: Database) -> None:
    with any_database.connect() as session:
        session.execute(RELATIONS)
    for name, kind, remedy in (
        ("unlogged", "an unlogged table", 'ALTER TABLE "public"."unlogged" SET LOGGED;'),
        ("shown", "a view", "tables that it reads"),
        ("kept", "a materialized view", "tables that it reads"),
        ("remote", "a foreign table", "server that has it"),
        ("counter", "a sequence", "out"),
        ("pair", "a composite type", "out"),
        ("plain_pkey", "an index", "out"),
    ):
        error = refused(any_database, "public", name)
        assert (error.code, f"public.{name} is {kind}" in str(error), remedy in error.remedy) == (
            "TM-PG-035",
            True,
            True,
        )
    assert "a system table" in str(refused(any_database, "pg_catalog", "pg_class"))
    with pytest.raises(SourceError, match=r"TM-PG-035.*public\.shown is a view"):
        binding = Binding(resource_config={"schema": "public", "table": "shown"}, state_key="v")
        PostgresDatabase().open(any_database.config(), [binding])


def test_a_name_in_another_case(any_database: Database) -> None:
    with any_database.connect() as session:
        session.execute(RELATIONS)
    error = refused(any_database, "public", "orders")
    assert error.code == "TM-PG-007" and "did you mean public.Orders?" in str(error)
    assert "did you mean" not in str(refused(any_database, "public", "order"))


def test_a_column_called_meta(any_database: Database) -> None:
    with any_database.connect() as session:
        session.execute(RELATIONS)
    assert refused(any_database, "public", "meta").code == "TM-PG-017"
    with captured(any_database, "public", "meta", exclude=["_meta"]) as table:
        assert table.chunks() == {}


# Partitions.

LEVELS = """
    CREATE TABLE root (id int, region text, at date, PRIMARY KEY (id, region, at)) PARTITION BY LIST (region);
    CREATE TABLE north PARTITION OF root FOR VALUES IN ('n') PARTITION BY RANGE (at);
    CREATE TABLE north_24 PARTITION OF north FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
    CREATE TABLE south PARTITION OF root FOR VALUES IN ('s');
    INSERT INTO root VALUES (1, 'n', '2024-05-01'), (2, 's', '2024-05-01');
"""


def change(session: Connection) -> None:
    """Rows come to north, change there, leave it, and go."""
    session.execute("INSERT INTO root VALUES (3, 'n', '2024-06-01'), (4, 's', '2024-06-01')")
    session.execute("UPDATE root SET id = id + 10 WHERE id IN (1, 4)")
    session.execute("UPDATE root SET region = 's' WHERE id = 11")
    session.execute("DELETE FROM root WHERE id IN (3, 2)")


@pytest.mark.parametrize("name", ["north", "north_24"])
def test_a_partition_as_a_table_of_its_own(any_database: Database, name: str) -> None:
    """At whatever level: the publication has no table above it."""
    with any_database.connect() as session:
        session.execute(LEVELS)
        with captured(any_database, "public", name) as table:
            assert list(table.chunks().values()) == [b'{"id":1,"region":"n","at":"2024-05-01"}']
            change(session)
            changes = [(operation(line), bytes(document(line)["id"])) for line in table.log()]
            assert table.chunks() == {}
    assert changes == [("c", b"3"), ("d", b"1"), ("c", b"11"), ("d", b"11"), ("d", b"3")]


def test_a_partition_beside_its_root(any_database: Database, caplog: pytest.LogCaptureFixture) -> None:
    with any_database.connect() as session:
        session.execute(LEVELS)
        session.execute("CREATE PUBLICATION tidemark FOR TABLE root WITH (publish_via_partition_root = true)")
    error = refused(any_database, "public", "north_24")
    assert error.code == "TM-PG-036" and "public.north_24" in str(error) and "public.root" in str(error)
    both = [
        Binding(resource_config={"schema": "public", "table": name}, state_key=name) for name in ("root", "north_24")
    ]
    other = {**any_database.config(), "publication": "none_yet"}
    PostgresDatabase().validate(other, both)
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert vars(warning)["code"] == "TM-PG-036"
    assert "public.north_24 is a partition" in warning.message and "public.root" in warning.message


def test_several_levels_through_the_root(any_database: Database) -> None:
    with any_database.connect() as session:
        session.execute(LEVELS)
        with captured(any_database, "public", "root") as table:
            assert len(table.chunks()) == 2
            change(session)
            kept = dict(table.chunks())
            changes = [(operation(line), columns(line)) for line in table.log()]
    assert len(changes) == 10
    moved = b'{"id":11,"region":"%b","at":"2024-05-01"}'
    assert changes[6:8] == [("d", moved % b"n"), ("c", moved % b"s")]
    assert sorted(kept.values()) == [moved % b"s", b'{"id":14,"region":"s","at":"2024-06-01"}']
