"""What the catalog is read as."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tidemark.captures.postgres.catalog.columns import Table
from tidemark.captures.postgres.catalog.reading import read_tables, read_types
from tidemark.captures.postgres.server.config import parse_endpoint
from tidemark.captures.postgres.server.session import connect
from tidemark.captures.postgres.tables.bindings import captured_columns
from tidemark.captures.postgres.tables.document_schema import document_schema
from tidemark.testing.servers.postgres import Connection, Database


@pytest.fixture
def session(any_database: Database) -> Iterator[Connection]:
    with connect(parse_endpoint(any_database.config())) as connection:
        yield connection


def table(session: Connection, name: str, schema: str = "public") -> Table:
    (found,) = read_tables(session, [(schema, name)])
    return found


def test_which_tables(session: Connection) -> None:
    session.execute("""
        CREATE SCHEMA "b S";
        CREATE SCHEMA a;
        CREATE TABLE "b S"."T" (id int PRIMARY KEY);
        CREATE TABLE a.z (id int PRIMARY KEY);
        CREATE TABLE a."Z" (id int);
        CREATE UNLOGGED TABLE a.unlogged (id int PRIMARY KEY);
        CREATE TEMPORARY TABLE temporary (id int PRIMARY KEY);
        CREATE VIEW a.view AS SELECT 1 AS id;
        CREATE MATERIALIZED VIEW a.materialized AS SELECT 1 AS id;
        CREATE SEQUENCE a.sequence;
        CREATE FOREIGN DATA WRAPPER wrapper;
        CREATE SERVER server FOREIGN DATA WRAPPER wrapper;
        CREATE FOREIGN TABLE a.remote (id int) SERVER server;
        CREATE TABLE a.root (id int PRIMARY KEY) PARTITION BY RANGE (id);
        CREATE TABLE a.part PARTITION OF a.root FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id);
        CREATE TABLE a.leaf PARTITION OF a.part FOR VALUES FROM (0) TO (5);
        CREATE TABLE a.parent (id int PRIMARY KEY);
        CREATE TABLE a.child () INHERITS (a.parent);
    """)
    found = read_tables(session)
    assert [t.path for t in found] == [
        ("a", "Z"),
        ("a", "child"),
        ("a", "parent"),
        ("a", "root"),
        ("a", "z"),
        ("b S", "T"),
    ]
    assert [t.name for t in found if t.partitioned] == ["root"]
    wanted = [("b S", "T"), ("a", "z"), ("a", "leaf"), ("a", "unlogged"), ("a", "no such"), ("b S", "z")]
    named = read_tables(session, wanted)
    assert [(t.path, t.partition) for t in named] == [(("a", "leaf"), True), (("a", "z"), False), (("b S", "T"), False)]
    assert read_tables(session, []) == []
    assert found[-1].qualified_name == "b S.T"


@pytest.mark.parametrize(
    "meanwhile",
    [
        "DROP TABLE t",
        "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, b text)",
        "ALTER TABLE t RENAME id TO key",
        "ALTER TABLE t DROP CONSTRAINT t_pkey",
        "ALTER TABLE t DROP a, ADD b int; ALTER TABLE t RENAME TO u",
    ],
)
@pytest.mark.parametrize("after", ["pg_catalog.pg_attribute a", "relreplident", "pg_catalog.pg_type t"])
def test_a_table_is_read_as_of_one_moment(
    database: Database, monkeypatch: pytest.MonkeyPatch, meanwhile: str, after: str
) -> None:
    with database.connect() as other, connect(parse_endpoint(database.config())) as session:
        other.execute("CREATE TABLE t (id int PRIMARY KEY, a text)")
        before = table(session, "t")
        run, left = session.execute, [meanwhile]

        def execute(query: Any, *more: Any, **options: Any) -> Any:
            result = run(query, *more, **options)
            if after in str(query) and left:
                other.execute(left.pop())
            return result

        monkeypatch.setattr(session, "execute", execute)
        assert table(session, "t") == before
        assert not left


def test_columns(session: Connection) -> None:
    session.execute("""
        CREATE TABLE public.t (
            gone int, "Id" bigint PRIMARY KEY, price numeric(12,4) NOT NULL, tags varchar(7)[], grid int[][],
            twice int GENERATED ALWAYS AS (1 + 1) STORED, flag bool);
        ALTER TABLE public.t DROP gone, ADD later text;
        COMMENT ON TABLE public.t IS 'what it''s for';
        COMMENT ON COLUMN public.t."Id" IS 'the id';
    """)
    found = table(session, "t")
    assert found.description == "what it's for"
    assert [(c.name, c.type.name, c.type.kind, c.nullable, c.generated, c.description) for c in found.columns] == [
        ("Id", "bigint", "base", False, "", "the id"),
        ("price", "numeric(12,4)", "base", False, "", ""),
        ("tags", "character varying(7)[]", "array", True, "", ""),
        ("grid", "integer[]", "array", True, "", ""),
        ("twice", "integer", "base", True, "s", ""),
        ("flag", "boolean", "base", True, "", ""),
        ("later", "text", "base", True, "", ""),
    ]
    _, price, tags, grid, *_ = found.columns
    assert price.type.typmod == (12 << 16 | 4) + 4
    assert tags.type.element is not None and grid.type.element is not None
    assert (tags.type.element.name, tags.type.element.typmod, tags.type.dimensions) == ("character varying", 11, 1)
    assert (grid.type.element.oid, grid.type.dimensions) == (23, 2)


def test_virtual_columns(session: Connection) -> None:
    if session.info.server_version < 180000:
        pytest.skip("virtual generated columns came with version 18")
    session.execute("CREATE TABLE public.t (id int PRIMARY KEY, v int GENERATED ALWAYS AS (id + 1) VIRTUAL)")
    found = table(session, "t")
    assert [(c.name, c.generated) for c in found.columns] == [("id", ""), ("v", "v")]
    assert [c.name for c in captured_columns(found.columns)] == ["id"]
    schema = document_schema(found, tuple(captured_columns(found.columns)), found.key, truncates=False)
    assert schema["description"] == "Generated columns are left out: v."


def test_not_null_that_was_not_checked(session: Connection) -> None:
    if session.info.server_version < 180000:
        pytest.skip("NOT NULL constraints that are NOT VALID came with version 18")
    session.execute("""
        CREATE TABLE public.t (a int, b int NOT NULL, UNIQUE (a));
        ALTER TABLE public.t ADD CONSTRAINT present NOT NULL a NOT VALID;
    """)
    found = table(session, "t")
    assert [c.nullable for c in found.columns] == [True, False]
    assert found.key == ()


@pytest.mark.parametrize(
    ("statements", "key", "fallback"),
    [
        ("CREATE TABLE public.t (a int, b int, c int, PRIMARY KEY (c, a))", ("c", "a"), False),
        ("CREATE TABLE public.t (a int, b int, PRIMARY KEY (a) INCLUDE (b))", ("a",), False),
        ("CREATE TABLE public.t (a int NOT NULL UNIQUE, b int PRIMARY KEY)", ("b",), False),
        ("CREATE TABLE public.t (a int NOT NULL, b int NOT NULL, UNIQUE (b, a))", ("b", "a"), True),
        ("CREATE TABLE public.t (a int NOT NULL, b int NOT NULL, UNIQUE (b, a), UNIQUE (b))", ("b",), True),
        ("CREATE TABLE public.t (a int UNIQUE, b int NOT NULL)", (), False),
        ("CREATE TABLE public.t (a int NOT NULL); CREATE UNIQUE INDEX ON public.t (a) WHERE a > 0", (), False),
        ("CREATE TABLE public.t (a int NOT NULL); CREATE UNIQUE INDEX ON public.t ((a + 1))", (), False),
        ("CREATE TABLE public.t (a int NOT NULL); CREATE INDEX ON public.t (a)", (), False),
        ("CREATE TABLE public.t (a int PRIMARY KEY DEFERRABLE)", (), False),
        (
            "CREATE TABLE public.t (a int NOT NULL UNIQUE, b int NOT NULL, c int NOT NULL, UNIQUE (b, c));"
            "ALTER TABLE public.t REPLICA IDENTITY USING INDEX t_b_c_key",
            ("b", "c"),
            True,
        ),
        ("CREATE TABLE public.t (a int, b int, PRIMARY KEY (b, a)) PARTITION BY LIST (a)", ("b", "a"), False),
        ("CREATE TABLE public.t (a int)", (), False),
        ("CREATE TABLE public.t ()", (), False),
    ],
)
def test_keys(session: Connection, statements: str, key: tuple[str, ...], fallback: bool) -> None:
    session.execute(statements)
    found = table(session, "t")
    assert (found.key, found.key_is_fallback) == (key, fallback)


def test_an_index_that_could_not_be_built_is_no_key(session: Connection) -> None:
    session.execute("CREATE TABLE public.t (a int NOT NULL); INSERT INTO public.t VALUES (1), (1)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        session.execute("CREATE UNIQUE INDEX CONCURRENTLY ON public.t (a)")
    session.execute("DELETE FROM public.t")
    assert table(session, "t").key == ()


def test_replica_identities(session: Connection) -> None:
    session.execute("CREATE TABLE public.t (a int PRIMARY KEY, b int NOT NULL UNIQUE)")
    for clause, identity in (("DEFAULT", "d"), ("FULL", "f"), ("NOTHING", "n"), ("USING INDEX t_b_key", "i")):
        session.execute(f"ALTER TABLE public.t REPLICA IDENTITY {clause}")
        assert table(session, "t").replica_identity == identity


def test_estimates(session: Connection) -> None:
    session.execute("""
        CREATE TABLE public.t (id int PRIMARY KEY);
        CREATE TABLE public.p (id int PRIMARY KEY) PARTITION BY RANGE (id);
        CREATE TABLE public.p1 PARTITION OF public.p FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id);
        CREATE TABLE public.p11 PARTITION OF public.p1 FOR VALUES FROM (0) TO (50);
        CREATE TABLE public.p12 PARTITION OF public.p1 FOR VALUES FROM (50) TO (100);
        INSERT INTO public.t SELECT generate_series(1, 1000);
        INSERT INTO public.p SELECT generate_series(0, 99);
    """)
    assert [(t.estimated_rows, t.size_bytes > 0) for t in read_tables(session)] == [(None, True), (None, True)]
    session.execute("ANALYZE")
    partitioned, plain = read_tables(session)
    assert (plain.estimated_rows, partitioned.estimated_rows) == (1000, 100)
    assert plain.size_bytes >= 1000 * 28 and partitioned.size_bytes >= 2 * 8192


def test_nested_types(session: Connection) -> None:
    session.execute("""
        CREATE TYPE public.mood AS ENUM ('sad', 'glad');
        ALTER TYPE public.mood ADD VALUE 'so so' AFTER 'sad';
        CREATE DOMAIN public.cents AS numeric(8,2)[];
        CREATE TYPE public.thing AS (mood public.mood, gone int, costs public.cents, boxes box[][]);
        ALTER TYPE public.thing DROP ATTRIBUTE gone;
        CREATE TABLE public.t (id int PRIMARY KEY, things public.thing[], during tstzmultirange);
    """)
    _, things, during = (column.type for column in table(session, "t").columns)
    thing = things.element
    assert (things.kind, things.dimensions) == ("array", 1)
    assert thing is not None and (thing.kind, thing.name) == ("composite", "public.thing")
    mood, costs, boxes = thing.fields
    assert [field.name for field in thing.fields] == ["mood", "costs", "boxes"]
    assert (mood.type.kind, mood.type.labels) == ("enum", ("sad", "so so", "glad"))
    assert costs.type.kind == "domain" and costs.type.base is not None and costs.type.base.element is not None
    assert costs.type.base.element.typmod == (8 << 16 | 2) + 4
    assert boxes.type.element is not None and boxes.type.element.delimiter == ";"
    assert boxes.type.dimensions == 2
    assert during.kind == "range" and during.element is not None and during.element.oid == 1184
    thing_oid, mood_oid = thing.oid, mood.type.oid
    types = read_types(session, [thing_oid, mood_oid, 1700, 1_999_999_999])
    assert types[thing_oid] == thing and types[mood_oid] == mood.type
    assert (types[1700].kind, types[1700].name, types[1700].typmod) == ("base", "numeric", -1)
    assert types[1_999_999_999].kind == "other"


class CountingConnection(psycopg.Connection[tuple[Any, ...]]):
    """Counts its statements."""

    executed = 0

    def execute(self, *arguments: Any, **options: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        self.executed += 1
        return super().execute(*arguments, **options)


def test_a_fixed_number_of_queries(database: Database) -> None:
    """However many tables there are."""
    with CountingConnection.connect(database.dsn, autocommit=True) as session:
        session.execute("""
            DO $$ BEGIN
                FOR n IN 1..200 LOOP
                    EXECUTE format('CREATE TABLE public.t%s (id int PRIMARY KEY, a text[])', n);
                END LOOP;
            END $$
        """)
        session.executed = 0
        assert len(read_tables(session)) == 200
        assert session.executed <= 6
