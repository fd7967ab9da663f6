"""Columns that are renamed, replaced, and added with a constant: schemas say which is which, and no row is read again.

Each case is a table of one capture, once as an ordinary table and once partitioned. What a consumer has at the end is
compared with what a new capture reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import pytest

from tests.captures.postgres.log_reading import capturing as log_of
from tests.captures.postgres.tables_that_change.capturing import SECONDS, capturing
from tests.captures.session import Json, Session
from tests.captures.source_tables import prepare
from tests.examples import sample
from tidemark.captures.postgres.catalog.columns import Table
from tidemark.captures.postgres.tables.bindings import bound_tables
from tidemark.captures.postgres.tables_that_change import comparison
from tidemark.protocol.messages import COLUMN_FILL
from tidemark.testing.servers.postgres import Database

ROWS = 40

MAKE = {
    "plain": ["CREATE TABLE {t} (id int PRIMARY KEY, n int, a text, b text)"],
    "parts": [
        "CREATE TABLE {t} (id int PRIMARY KEY, n int, a text, b text) PARTITION BY RANGE (id)",
        "CREATE TABLE {t}_low PARTITION OF {t} FOR VALUES FROM (MINVALUE) TO (10)",
        "CREATE TABLE {t}_high PARTITION OF {t} FOR VALUES FROM (10) TO (MAXVALUE) PARTITION BY RANGE (id)",
        # Its columns have other numbers.
        "CREATE TABLE {t}_first (x int, b text, n int, id int NOT NULL, a text)",
        "ALTER TABLE {t}_first DROP x",
        "ALTER TABLE {t}_high ATTACH PARTITION {t}_first FOR VALUES FROM (10) TO (20)",
        "CREATE TABLE {t}_rest PARTITION OF {t}_high DEFAULT",
    ],
}
FILL = "INSERT INTO {t} SELECT i, 0, 'a' || i, 'b' || i FROM generate_series(1, 40) i"
TYPES = [
    "CREATE TYPE mood AS ENUM ('low', 'high')",
    "CREATE TYPE pair AS (x int, y text)",
    "CREATE DOMAIN seven AS int DEFAULT 7",
    "CREATE DOMAIN small AS int CHECK (VALUE < 10)",
]
SWAP = ["ALTER TABLE {t} RENAME a TO c", "ALTER TABLE {t} RENAME b TO a", "ALTER TABLE {t} RENAME c TO b"]


@dataclass(frozen=True)
class Case:
    """Statements, and whether rows are read again for them: ``busy`` if rows change meanwhile, None for perhaps."""

    statements: Sequence[str]
    reread: bool | None = False
    busy: bool | None = False


def _added(definition: str, *more: str) -> Case:
    return Case([f"ALTER TABLE {{t}} ADD c {definition}", *more])


CASES = {
    "int": _added("int DEFAULT 7"),
    "required": _added("int NOT NULL DEFAULT 7"),
    "text": _added("""text DEFAULT 'it''s, "x" {y} \\N \\\\ ' || E'\\n\\t\u00e9'"""),
    "empty": _added("text DEFAULT ''"),
    "null_text": _added("text DEFAULT 'NULL'"),
    "timestamptz": _added("timestamptz DEFAULT '2024-02-29 12:00:00.5+02'"),
    "now": _added("timestamptz DEFAULT now()"),
    "today": _added("date DEFAULT current_date"),
    "numeric": _added("numeric(10,2) DEFAULT 1.5"),
    "nan": _added("float8 DEFAULT 'NaN'"),
    "real": _added("real DEFAULT 0.1"),
    "bytea": _added("bytea DEFAULT '\\x00ff5c22'"),
    "bool": _added("bool DEFAULT true"),
    "ints": _added("int[] DEFAULT '{1,2,NULL}'"),
    "texts": _added("""text[] DEFAULT '{"a,b","NULL",NULL,"q\\"q\\\\"}'"""),
    "nested": _added("int[][] DEFAULT '{{1,2},{3,4}}'"),
    "json": _added("json DEFAULT '[1,2.5]'"),
    "jsonb": _added("jsonb DEFAULT '{}'"),
    "mood": _added("mood DEFAULT 'low'"),
    "moods": _added("mood[] DEFAULT '{low,high}'"),
    "interval": _added("interval DEFAULT '1 day 2 hours'"),
    "inet": _added("inet DEFAULT '10.0.0.1/8'"),
    "span": _added("int4range DEFAULT '[1,5)'"),
    "no_default": _added("int DEFAULT 7", "ALTER TABLE {t} ALTER c DROP DEFAULT"),
    "other_default": _added("int DEFAULT 7", "ALTER TABLE {t} ALTER c SET DEFAULT 8"),
    "two": _added("int DEFAULT 7, ADD d text DEFAULT 'x'", "ALTER TABLE {t} ADD e int"),
    "renamed": Case(["ALTER TABLE {t} RENAME a TO z"]),
    "swapped": Case(SWAP),
    "swapped_back": Case([*SWAP, *SWAP]),
    "other_type": Case(["ALTER TABLE {t} DROP b", "ALTER TABLE {t} ADD b int DEFAULT 5"]),
    "same_type": Case(["ALTER TABLE {t} DROP a", "ALTER TABLE {t} ADD a text DEFAULT 'new'"], busy=None),
    "at_once": Case(["ALTER TABLE {t} DROP a, ADD a text"], busy=None),
    "in_turn": _added("int DEFAULT 7", "ALTER TABLE {t} RENAME c TO d", "ALTER TABLE {t} ADD c int DEFAULT 8"),
    "used": _added("int DEFAULT 7", "UPDATE {t} SET c = 1 WHERE id % 3 = 0", "ALTER TABLE {t} RENAME c TO d"),
    "wider": _added("varchar(10) DEFAULT 'x'", "ALTER TABLE {t} ALTER c TYPE varchar(20)"),
    # These are read again.
    "gone_between": Case(
        [
            "ALTER TABLE {t} ADD c int DEFAULT 1",
            "UPDATE {t} SET c = 3 WHERE id = 5",
            "ALTER TABLE {t} DROP c",
            "ALTER TABLE {t} ADD c int DEFAULT 2",
        ],
        reread=None,
        busy=None,
    ),
    "shifted": Case(
        [
            "ALTER TABLE {t} DROP a",
            "ALTER TABLE {t} RENAME b TO a",
            "ALTER TABLE {t} ADD b text DEFAULT 'new'",
            "UPDATE {t} SET a = 'used' WHERE id = 6",
            "ALTER TABLE {t} RENAME b TO c",
        ],
        reread=None,
        busy=None,
    ),
    "taken_over": Case(
        [
            "ALTER TABLE {t} RENAME b TO c",
            "UPDATE {t} SET c = 'used' WHERE id = 6",
            "ALTER TABLE {t} DROP c",
            "ALTER TABLE {t} ADD c text DEFAULT 'new'",
        ],
        reread=None,
        busy=None,
    ),
    "pair": Case(["ALTER TABLE {t} ADD c pair DEFAULT ROW(1, 'x')::pair"], reread=True, busy=True),
    "spaced": Case(["""ALTER TABLE {t} ADD c jsonb DEFAULT '{"a": 1}'"""], reread=True, busy=True),
    "digits": Case(["ALTER TABLE {t} ADD c json DEFAULT '[2.50]'"], reread=True, busy=True),
    "random": Case(["ALTER TABLE {t} ADD c float8 DEFAULT random()"], reread=True, busy=True),
    "serial": Case(["ALTER TABLE {t} ADD c serial"], reread=True, busy=True),
    "domain": Case(["ALTER TABLE {t} ADD c seven"], reread=None, busy=None),
    "checked": Case(["ALTER TABLE {t} ADD c small DEFAULT 3"], reread=None, busy=None),
    "vacuumed": Case(["ALTER TABLE {t} ADD c int DEFAULT 7", "VACUUM FULL {t}"], reread=None, busy=None),
    "retyped": Case(
        ["ALTER TABLE {t} RENAME a TO z", "ALTER TABLE {t} ALTER z TYPE varchar(9)"], reread=None, busy=None
    ),
}

TABLES = [f"{name}_{shape}" for name in CASES for shape in MAKE if (name, shape) != ("serial", "parts")]

SHAPES = list(MAKE)
HALVES = [
    [table for place, name in enumerate(CASES) if (table := f"{name}_{SHAPES[(place + half) % 2]}") in TABLES]
    for half in (0, 1)
]
"""Each case is in both, in one of them as an ordinary table. ``make test`` tries each half once with rows that change
meanwhile, and once without."""


def _case(table: str) -> Case:
    return CASES[table.rpartition("_")[0]]


def _make(database: Database, tables: Sequence[str]) -> None:
    prepare(database, *TYPES)
    for table in tables:
        prepare(database, *(statement.replace("{t}", table) for statement in (*MAKE[table.rpartition("_")[2]], FILL)))


def _alter(database: Database, tables: Sequence[str], *, busy: bool) -> None:
    rows = iter(range(1, 100))
    for table in tables:
        statements = list(_case(table).statements)
        if busy:
            statements = [
                part for each in statements for part in (each, f"UPDATE {{t}} SET n = 1 WHERE id = {next(rows)}")
            ]
            statements.insert(0, "UPDATE {t} SET n = n + 1 WHERE id = 39")
            rows = iter(range(1, 100))
        prepare(database, *(statement.replace("{t}", table) for statement in statements))


def _capturing(database: Database, tables: Sequence[str], state: Json | None = None, **options: Any) -> Any:
    return capturing(database, state, tables=[f"public.{table}" for table in tables], **options)


def _anew(database: Database, tables: Sequence[str]) -> list[dict[tuple[Any, ...], Json]]:
    """What a new capture reads of each table."""
    with _capturing(database, tables, stop=True, slot=f"{database.name}_anew"[-60:]) as capture:
        assert capture.finish() == 0, capture.last_words()
    return [capture.rows(binding) for binding in range(len(tables))]


def _without_nulls(rows: dict[tuple[Any, ...], Json]) -> dict[tuple[Any, ...], Json]:
    return {key: {name: value for name, value in row.items() if value is not None} for key, row in rows.items()}


def _different(capture: Session, tables: Sequence[str], wanted: list[dict[tuple[Any, ...], Json]]) -> dict[str, Any]:
    """The tables that are not as they should be, each with an example."""
    found = {}
    for binding, table in enumerate(tables):
        rows, right = _without_nulls(capture.rows(binding)), _without_nulls(wanted[binding])
        if rows != right:
            key = next(each for each in rows.keys() | right.keys() if rows.get(each) != right.get(each))
            found[table] = key, rows.get(key), right.get(key)
    return found


def _until_right(capture: Session, tables: Sequence[str], wanted: list[dict[tuple[Any, ...], Json]]) -> None:
    try:
        capture.until(lambda c: c.done() and not _different(c, tables, wanted), SECONDS)
    except AssertionError as late:
        raise AssertionError(f"{_different(capture, tables, wanted)}") from late


def _reread(capture: Session, tables: Sequence[str]) -> Counter[str]:
    """How many rows of each table backfills brought more than once."""
    read = Counter(
        tables[binding]
        for binding, document in capture.documents
        if document["_meta"]["op"] == "c" and document["_meta"]["source"].get("snapshot")
    )
    return Counter({table: count - ROWS for table, count in read.items()})


def _check_reread(capture: Session, tables: Sequence[str], *, busy: bool) -> None:
    reread = _reread(capture, tables)
    expected = {table: _case(table).busy if busy else _case(table).reread for table in tables}
    assert [table for table in tables if expected[table] is False and reread[table]] == []
    assert [table for table in tables if expected[table] is True and not reread[table]] == []


@pytest.mark.drawn(1)
@pytest.mark.parametrize("busy", [False, True], ids=["quiet", "busy"])
def test_columns_that_change_while_the_capture_runs(any_database: Database, busy: bool) -> None:
    tables = sample(TABLES, HALVES[busy])
    _make(any_database, tables)
    with _capturing(any_database, tables) as capture:
        capture.until(Session.done, SECONDS)
        _alter(any_database, tables, busy=busy)
        wanted = _anew(any_database, tables)
        _until_right(capture, tables, wanted)
    with _capturing(any_database, tables, capture.state, stop=True) as again:
        assert again.finish() == 0, again.last_words()
        again.documents[:0] = capture.documents
        assert _different(again, tables, wanted) == {}
        _check_reread(again, tables, busy=busy)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("busy", [False, True], ids=["quiet", "busy"])
def test_columns_that_changed_while_nobody_listened(any_database: Database, busy: bool) -> None:
    """The log lags behind the catalogs, and the capture is killed before it has read all of it."""
    tables = sample(TABLES, HALVES[not busy])
    _make(any_database, tables)
    with _capturing(any_database, tables, stop=True) as first:
        assert first.finish() == 0
    _alter(any_database, tables, busy=busy)
    wanted = _anew(any_database, tables)
    with _capturing(any_database, tables, first.state) as killed:
        killed.until(lambda c: c.checkpoints > 0, SECONDS)
    with _capturing(any_database, tables, killed.state) as again:
        again.documents[:0] = first.documents + killed.documents
        _until_right(again, tables, wanted)
        _check_reread(again, tables, busy=busy)


ALTERED = ["ALTER TABLE {t} RENAME a TO z", "ALTER TABLE {t} ADD c int DEFAULT 7", "UPDATE {t} SET n = 2 WHERE id = 3"]


def _altered_tables(database: Database, statements: Sequence[str] = ALTERED) -> None:
    prepare(database, *(statement.replace("{t}", table) for table in ("t", "p") for statement in statements))


def _two(database: Database) -> None:
    for table, shape in (("t", "plain"), ("p", "parts")):
        prepare(database, *(statement.replace("{t}", table) for statement in (*MAKE[shape], FILL)))


BOTH = ("public.t", "public.p")


def test_what_a_schema_says_of_a_column(database: Database) -> None:
    _two(database)
    with capturing(database, tables=BOTH) as capture:
        capture.until(Session.done, SECONDS)
        numbers = {name: part.get("x-column") for name, part in capture.schemas[0][1]["properties"].items()}
        assert numbers == {"_meta": None, "id": "1", "n": "2", "a": "3", "b": "4"}
        _altered_tables(database, [*SWAP, "ALTER TABLE {t} ADD c text DEFAULT 'it''s', DROP n"])
        capture.until(lambda c: {"0", "1"} == {str(b) for b, s in c.schemas if "c" in s["properties"]}, SECONDS)
        for binding in (0, 1):
            schema = next(s for b, s in reversed(capture.schemas) if b == binding)
            columns = {name: part for name, part in schema["properties"].items() if name != "_meta"}
            assert {name: part["x-column"] for name, part in columns.items()} == {
                "id": "1",
                "b": "3",
                "a": "4",
                "c": "5",
            }
            assert columns["c"]["x-fill"] == "it's"
            assert "x-column" not in schema["properties"]["_meta"]["properties"]["before"]["properties"]["id"]
            assert capture.rows(binding)[1,] == {"id": 1, "b": "a1", "a": "b1", "c": "it's"}


def test_a_schema_marks_where_a_table_became_another_one(database: Database) -> None:
    """Also where the session began with the same schema, ahead of the log, and no row of the table follows."""
    _two(database)
    with capturing(database, tables=BOTH, stop=True) as first:
        assert first.finish() == 0
    _altered_tables(database, ["UPDATE {t} SET n = 5 WHERE id = 3", *ALTERED[:2]])
    with capturing(database, first.state, tables=BOTH, stop=True) as again:
        assert again.finish() == 0
    for binding in (0, 1):
        kinds = [
            "c" in body["properties"] if kind == "schema" else kind for kind, b, body in again.events if b == binding
        ]
        assert kinds == [True, False, "doc", True]
        last = next(body for kind, b, body in reversed(again.events) if (kind, b) == ("schema", binding))
        assert last["properties"]["c"]["x-fill"] == 7 and last["properties"]["z"]["x-column"] == "3"
    # Nothing but the ALTER came since then.
    _altered_tables(database, ["ALTER TABLE {t} ADD d int DEFAULT 8"])
    with capturing(database, again.state, tables=BOTH, stop=True) as quiet:
        assert quiet.finish() == 0
    assert [binding for _, binding, _ in quiet.events] == [0, 1, 0, 1]
    assert all(body["properties"]["d"]["x-fill"] == 8 for _, _, body in quiet.events)


@pytest.mark.parametrize("how", ["another runtime", "an earlier version"])
def test_columns_without_identities(database: Database, how: str) -> None:
    """Names tell which is which, so rows are read again; of a partitioned table, too."""
    _two(database)
    env = {"TIDEMARK_RUNTIME": ""} if how == "another runtime" else {}
    with capturing(database, tables=BOTH, stop=True, env=env) as first:
        assert first.finish() == 0
    state = first.state
    for table in state["source"]["tables"].values():
        assert table.pop("identified", False) is (how == "an earlier version")
    with capturing(database, state, tables=BOTH, env=env) as again:
        again.until(lambda c: c.checkpoints > 0, SECONDS)
        assert not any("x-column" in str(schema) or "x-fill" in str(schema) for _, schema in again.schemas)
        _altered_tables(database)
        again.until(lambda c: c.done() and len(c.rows(0)) == ROWS and len(c.rows(1)) == ROWS, SECONDS)
        again.until(lambda c: all(r.get("c") == 7 and r.get("z") for b in (0, 1) for r in c.rows(b).values()), SECONDS)
        assert not any("x-column" in str(schema) or "x-fill" in str(schema) for _, schema in again.schemas)
        assert not any("identified" in table for table in again.state["source"]["tables"].values())


AT_ONCE = "; ".join(SWAP)
HASHED = sha256(b"pepperx").hexdigest()


@pytest.mark.parametrize(
    ("resource", "alters", "right"),
    [
        ({"hash": ["a"]}, [AT_ONCE], lambda row: row["b"] == f"a{row['id']}" and len(row["a"]) == 64),
        ({"exclude": ["a"]}, [AT_ONCE], lambda row: row.get("b") == f"a{row['id']}" and "a" not in row),
        (
            {"exclude": ["a"]},
            [AT_ONCE, "UPDATE {t} SET a = 'x' || id", AT_ONCE],
            lambda row: row.get("b") == f"x{row['id']}" and "a" not in row,
        ),
        (
            {"exclude": ["a"]},
            [
                "ALTER TABLE {t} DROP a, ADD a int DEFAULT 7",
                "UPDATE {t} SET a = 8 WHERE id = 1",
                "ALTER TABLE {t} RENAME a TO d; ALTER TABLE {t} ADD a text",
            ],
            lambda row: row.get("d") == (8 if row["id"] == 1 else 7) and "a" not in row,
        ),
        (
            {"hash": ["a"]},
            ["ALTER TABLE {t} DROP a, ADD a text DEFAULT 'x'"],
            lambda row: len(row["a"]) == 64 and row["a"] == HASHED,
        ),
        (
            {"on_bad_value": {"n": "text"}},
            ["ALTER TABLE {t} RENAME n TO m; ALTER TABLE {t} ADD n int DEFAULT 5"],
            lambda row: row.get("m") == 0 and row.get("n") == 5,
        ),
    ],
    ids=["hash", "exclude", "exclude for a while", "exclude a new one for a while", "hash a new one", "policy"],
)
def test_names_by_which_values_are_handled(database: Database, resource: Json, alters: list[str], right: Any) -> None:
    """A column that gets such a name, or had one, is read again."""
    _two(database)
    with capturing(database, tables=BOTH, resource=resource, hash_salt="pepper") as capture:
        capture.until(Session.done, SECONDS)
        _altered_tables(database, alters)
        capture.until(lambda c: c.done() and all(map(right, [*c.rows(0).values(), *c.rows(1).values()])), SECONDS)


def test_a_column_that_comes_while_a_capture_opens(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first schema that has it says what fills older rows, also where the table's record was read before."""
    prepare(database, "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")

    def torn(*arguments: Any) -> list[Table | None]:
        prepare(database, "ALTER TABLE t DROP IF EXISTS c")
        before = bound_tables(*arguments)
        prepare(database, "ALTER TABLE t ADD c int DEFAULT 7")
        after = bound_tables(*arguments)
        return [replace(now, record=then.record) for now, then in zip(after, before, strict=True) if now and then]

    monkeypatch.setattr(comparison, "bound_tables", torn)
    with log_of(database, "t") as reader:
        (table,) = reader.source.tables
        assert table.document_schema["properties"]["c"][COLUMN_FILL] == 7
