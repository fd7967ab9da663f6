"""Random schemas over all types: chunk and log give the same documents, and those give the source's values back.

With ``--hypothesis-profile=deep`` hundreds of times as many.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from tests.captures.postgres.captured_table import before, captured, columns, operation
from tests.captures.postgres.chunk_reads import opened
from tests.captures.postgres.column_chunks import alike, both
from tests.captures.postgres.random_nested_types import NAMES, OF_EXTENSIONS, any_type, identifier
from tests.captures.postgres.random_types import RandomType, Value, leaf
from tests.examples import examples
from tidemark.captures.contract.chunk_rows import ColumnRows, Rows
from tidemark.captures.postgres.values.arrow_forms import arrow_form
from tidemark.testing.servers.postgres import Connection, Database, Postgres, fresh_database

# What chunk and log sessions must not be moved by.
SETTINGS = {
    "datestyle": "SQL, DMY",
    "intervalstyle": "sql_standard",
    "timezone": "America/St_Johns",
    "extra_float_digits": "-3",
    "bytea_output": "escape",
    "xmloption": "document",
    "array_nulls": "off",
    "quote_all_identifiers": "on",
    "standard_conforming_strings": "off",
    "search_path": "made",
    "statement_timeout": "1ms",
    "default_transaction_isolation": "serializable",
}

# What this test stores values with.
OWN_SETTINGS = {
    "extra_float_digits": "3",
    "xmloption": "content",
    "array_nulls": "on",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "search_path": "public",
}


@dataclass(frozen=True)
class Server:
    """A database with a publication of all tables and a slot, whose settings are not the usual ones."""

    database: Database
    session: Connection
    types: st.SearchStrategy[RandomType]
    made: set[str] = field(default_factory=set)


_numbers = itertools.count()


@pytest.fixture(scope="module")
def server(any_postgres: Postgres) -> Iterator[Server]:
    with fresh_database(any_postgres, "tidemark_generative") as database, any_postgres.connect() as admin:
        for name, value in SETTINGS.items():
            admin.execute(f"ALTER DATABASE {database.name} SET {name} = '{value}'")
        own = " ".join(f"-c {name}={value}" for name, value in OWN_SETTINGS.items())
        with database.connect(options=own) as session:
            session.execute("CREATE SCHEMA made")
            session.execute("CREATE PUBLICATION tidemark FOR ALL TABLES WITH (publish_via_partition_root = true)")
            session.execute("SELECT pg_create_logical_replication_slot('tidemark_generative', 'pgoutput')")
            yield Server(database, session, any_type(_others(session)))


def _others(session: Connection) -> list[RandomType]:
    """The types that this server has and others do not."""
    found: list[RandomType] = []
    available = session.execute("SELECT name FROM pg_available_extensions").fetchall()
    for extension, types in OF_EXTENSIONS.items():
        if (extension,) in available:
            session.execute(f"CREATE EXTENSION {extension} SCHEMA public")
            found += types
    try:
        session.execute("SELECT '<a/>'::xml")
    except psycopg.errors.FeatureNotSupported:
        pass  # built without it
    else:
        found.append(leaf("xml", st.sampled_from(["", "a &amp; b", '<a b="c">\n<!-- é --></a>'])))
    if session.info.server_version >= 150000:
        found.append(leaf("numeric(4,-2)", st.integers(-99_999, 99_999).map(str), orders=True))
    if session.info.server_version >= 170000:
        found.append(leaf("interval", st.sampled_from(["infinity", "-infinity"]), orders=True))
    return found


@dataclass(frozen=True)
class RandomTable:
    """Columns by name, rows in their order, and which columns come before ``id`` in the key."""

    columns: dict[str, RandomType]
    rows: list[list[Value]]
    key: list[str]


@st.composite
def random_tables(draw: st.DrawFn, types: st.SearchStrategy[RandomType]) -> RandomTable:
    names = NAMES.filter(lambda name: name not in ("id", "n", "_meta"))
    columns = draw(st.dictionaries(names, types, min_size=3, max_size=7))
    ordered = [name for name, type_ in columns.items() if type_.orders]
    key = draw(st.lists(st.sampled_from(ordered), unique=True, max_size=2)) if ordered else []
    values = [type_.values if name in key else st.none() | type_.values for name, type_ in columns.items()]
    rows = draw(st.lists(st.tuples(*values).map(list), min_size=4, max_size=4))
    return RandomTable(columns, rows, key)


EXAMPLES = examples(15)
"""Each makes a table, opens a source, a log and a reader."""


of_random_tables = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    # Shrinking would make thousands of tables; an example is small enough to read.
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


@of_random_tables
@given(data=st.data())
def test_chunk_and_log_and_the_way_back(server: Server, data: st.DataObject) -> None:
    table = data.draw(random_tables(server.types))
    name = f"t{next(_numbers)}"
    make(server, name, table)
    insert(server.session, name, table, 0, 2)
    with captured(server.database, "made", name, slot="tidemark_generative") as sink:
        sink.log()
        insert(server.session, name, table, 2, 4)
        rows = sink.chunks()
        assert len(rows) == 4
        assert by_id([columns(line) for line in sink.log()]) == by_id(rows.values(), first=2)
        server.session.execute(f"UPDATE made.{name} SET n = 1")
        changed = sink.chunks()
        assert sorted(map(columns, sink.log())) == sorted(changed.values())
        server.session.execute(f"ALTER TABLE made.{name} REPLICA IDENTITY FULL")
        server.session.execute(f"UPDATE made.{name} SET n = 2")
        server.session.execute(f"UPDATE made.{name} SET id = -id")
        moved = sink.chunks()
        server.session.execute(f"DELETE FROM made.{name}")
        log = sink.log()
        assert [operation(line) for line in log] == ["u"] * 4 + ["d", "c"] * 4 + ["d"] * 4
        assert sorted(map(before, log[:4])) == sorted(changed.values())
        assert sorted(map(columns, log[5:12:2])) == sorted(map(columns, log[12:])) == sorted(moved.values())
    for row, document in zip(table.rows, by_id(rows.values()).values(), strict=True):
        written_back(server.session, table, row, document)


@of_random_tables
@given(data=st.data())
def test_the_log_gets_the_same_from_columns(server: Server, data: st.DataObject) -> None:
    table = data.draw(random_tables(server.types))
    name = f"t{next(_numbers)}"
    make(server, name, table)
    insert(server.session, name, table, 0, 4)
    with opened(server.database, table=name, schema="made") as whole:
        unfit = [column.name for column in whole.target.columns if arrow_form(column) is None]
        in_key = set(unfit) & {"id", *table.key}
    exclude = [] if in_key else unfit
    with both(server.database, table=name, schema="made", exclude=exclude) as (by_columns, documents):
        assert isinstance(alike(by_columns, documents).rows, Rows if in_key else ColumnRows)


def make(server: Server, name: str, table: RandomTable) -> None:
    for statement in dict.fromkeys(made for type_ in table.columns.values() for made in type_.makes):
        if statement not in server.made:
            server.session.execute(statement)
            server.made.add(statement)
    declared = [f"{identifier(column)} {type_.name}" for column, type_ in table.columns.items()]
    key = ", ".join([*map(identifier, table.key), "id"])
    server.session.execute(f"CREATE TABLE made.{name} (id int, n int, {', '.join(declared)}, PRIMARY KEY ({key}))")


def insert(session: Connection, name: str, table: RandomTable, start: int, stop: int) -> None:
    """Inserts some of the rows; their places are their ids, from 1 on."""
    types = list(table.columns.values())
    for place, row in enumerate(table.rows[start:stop], start + 1):
        texts = [None if v is None else type_.text(v) for v, type_ in zip(row, types, strict=True)]
        marks = ", ".join(["%s"] * len(texts))
        session.execute(f"INSERT INTO made.{name} VALUES ({place}, 0, {marks})", texts)


def written_back(session: Connection, table: RandomTable, row: list[Value], document: dict[str, Raw]) -> None:
    """Asserts that each column's JSON, read as a consumer would, is the value that was stored."""
    for (name, type_), value in zip(table.columns.items(), row, strict=True):
        stored = None if value is None else type_.plain(value)
        back = type_.back(bytes(document[name])) if bytes(document[name]) != b"null" else None
        # A row prints by the type's own output function, and tells NULL from the empty string.
        query = f"SELECT ROW(%s::{type_.name})::text, ROW(%s::{type_.name})::text"
        printed = session.execute(query, [stored, back]).fetchone()
        assert printed is not None and printed[0] == printed[1], (type_, stored, back)


def by_id(found: Iterable[bytes], first: int = 0) -> dict[int, dict[str, Raw]]:
    """Rows as their members, in the order of their ids, those after ``first``."""
    rows = {int(bytes(row["id"])): row for row in (msgspec.json.decode(text, type=dict[str, Raw]) for text in found)}
    return {number: rows[number] for number in sorted(rows) if number > first}
