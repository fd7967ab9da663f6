"""What a database administrator may do to a captured table, as data for the test that does it at random.

``users`` and ``parts`` (partitioned) have a key, ``notes`` has none. The columns ``id`` and ``n`` stay. Rows to which a
change gives other values without an event, it writes once more, unless that is what it tries.
"""

from __future__ import annotations

from dataclasses import dataclass

TABLES = {
    "users": ("CREATE TABLE users (id int PRIMARY KEY, n int)",),
    "parts": (
        "CREATE TABLE parts (id int PRIMARY KEY, n int) PARTITION BY RANGE (id)",
        "CREATE TABLE parts_low PARTITION OF parts FOR VALUES FROM (MINVALUE) TO (0)",
        "CREATE TABLE parts_high PARTITION OF parts FOR VALUES FROM (0) TO (MAXVALUE)",
    ),
    "notes": ("CREATE TABLE notes (id int, n int)", "ALTER TABLE notes REPLICA IDENTITY FULL"),
}
"""The statements that make each."""

KEYED = ("users", "parts")
KEYLESS = "notes"
PLAIN = ("users", "notes")

_TOUCH = "UPDATE {t} SET n = n + 1"
_SOME = "UPDATE {t} SET n = n + 1 WHERE id % 20 = 0"
_FILL = "INSERT INTO {t} (id, n) SELECT i, 0 FROM generate_series(-40, -1) i WHERE i % 2 = 0 ON CONFLICT DO NOTHING"
_PUBLISH = "ALTER PUBLICATION tidemark ADD TABLE {t}"
_WITHDRAW = "ALTER PUBLICATION tidemark DROP TABLE {t}"


@dataclass(frozen=True)
class TableChange:
    """Statements, each in a transaction of its own unless it has several.

    In them ``{t}`` is the table, ``{new}`` the name of no column yet, ``{old}`` that of one that may go.

    Attributes:
        tables: To which it can be done.
        weight: How often, among the others.
        adds: ``{new}`` is a column afterwards.
        drops: ``{old}`` is none any more.
    """

    name: str
    statements: tuple[str, ...]
    tables: tuple[str, ...] = tuple(TABLES)
    weight: float = 1
    adds: bool = False
    drops: bool = False


CHANGES = (
    TableChange(
        "a column is added",
        ("ALTER TABLE {t} ADD COLUMN {new} int", "UPDATE {t} SET {new} = id WHERE id % 2 = 0"),
        weight=4,
        adds=True,
    ),
    TableChange(
        "a column is added with a default",
        ("ALTER TABLE {t} ADD COLUMN {new} int DEFAULT 7", _TOUCH),
        adds=True,
    ),
    TableChange(
        "a column is added that is computed for each row",
        ("ALTER TABLE {t} ADD COLUMN {new} float8 DEFAULT random()", _TOUCH),
        adds=True,
    ),
    TableChange("a column is dropped", ("ALTER TABLE {t} DROP COLUMN {old}",), weight=2, drops=True),
    TableChange(
        "a column is renamed",
        ("ALTER TABLE {t} RENAME COLUMN {old} TO {new}", _TOUCH),
        weight=2,
        adds=True,
        drops=True,
    ),
    TableChange(
        "a column gets another type",
        ("ALTER TABLE {t} ALTER COLUMN {old} TYPE text", _TOUCH),
        weight=2,
    ),
    TableChange(
        "one column is dropped and another added",
        ("ALTER TABLE {t} DROP COLUMN {old}, ADD COLUMN {new} varchar(30)", "UPDATE {t} SET {new} = 'value ' || id"),
        weight=2,
        adds=True,
        drops=True,
    ),
    TableChange("its file is written anew", ("VACUUM FULL {t}",)),
    TableChange("it is emptied", ("TRUNCATE {t}", _FILL)),
    TableChange("it is emptied and filled at once", (f"BEGIN; TRUNCATE {{t}}; {_FILL}; COMMIT",)),
    TableChange(
        "it has another name for a moment",
        ("ALTER TABLE {t} RENAME TO away", _SOME.replace("{t}", "away"), "ALTER TABLE away RENAME TO {t}"),
        tables=PLAIN,
        weight=2,
    ),
    TableChange("its log has old rows", ("ALTER TABLE {t} REPLICA IDENTITY FULL", _SOME), tables=("users",)),
    TableChange("its log has old keys", ("ALTER TABLE {t} REPLICA IDENTITY DEFAULT", _SOME), tables=("users",)),
    TableChange(
        "a partition goes and comes back at once",
        (
            "BEGIN; ALTER TABLE {t} DETACH PARTITION parts_high;"
            " ALTER TABLE {t} ATTACH PARTITION parts_high FOR VALUES FROM (0) TO (MAXVALUE); COMMIT",
            _SOME,
        ),
        tables=("parts",),
    ),
    TableChange(
        "it is made again",
        ("BEGIN; DROP TABLE {t}; CREATE TABLE {t} (id int PRIMARY KEY, n int); COMMIT", _FILL, _PUBLISH, _TOUCH),
        tables=("users",),
    ),
    TableChange(
        "another table takes its name",
        (
            "CREATE TABLE {t}_next (LIKE {t} INCLUDING ALL)",
            "INSERT INTO {t}_next SELECT * FROM {t} WHERE id % 2 = 0",
            "BEGIN; ALTER TABLE {t} RENAME TO {t}_old; ALTER TABLE {t}_next RENAME TO {t}; COMMIT",
            _PUBLISH,
            "UPDATE {t}_old SET n = -1",
            "DELETE FROM {t}_old WHERE id % 4 = 0",
            "DROP TABLE {t}_old",
        ),
        tables=("users",),
        weight=2,
    ),
    TableChange(
        "its replica identity is another index for a while",
        (
            # A sequence of nobody's: the table may be dropped while another one has its columns.
            "CREATE SEQUENCE {new}_numbers",
            "ALTER TABLE {t} ADD COLUMN {new} int NOT NULL DEFAULT nextval('{new}_numbers')",
            "CREATE UNIQUE INDEX {new}_index ON {t} ({new})",
            "ALTER TABLE {t} REPLICA IDENTITY USING INDEX {new}_index",
            "UPDATE {t} SET id = id + 10000 WHERE id % 30 = 1",
            "ALTER TABLE {t} REPLICA IDENTITY DEFAULT",
            "DROP INDEX {new}_index",
            _TOUCH,
        ),
        tables=("users",),
        adds=True,
    ),
    TableChange(
        "a partition is detached, written to and attached again",
        (
            "ALTER TABLE parts DETACH PARTITION parts_low",
            "UPDATE parts_low SET n = n + 1",
            "ALTER TABLE parts ATTACH PARTITION parts_low FOR VALUES FROM (MINVALUE) TO (0)",
        ),
        tables=("parts",),
    ),
    TableChange("a partition is truncated", ("TRUNCATE parts_low", _FILL), tables=("parts",)),
    TableChange(
        "a partition is truncated, and all are rewritten",
        ("TRUNCATE parts_low", "ALTER TABLE {t} ALTER COLUMN n TYPE int USING n + 1000", _FILL),
        tables=("parts",),
    ),
    TableChange(
        "the table is truncated, and then a partition",
        ("TRUNCATE {t}", _FILL, "TRUNCATE parts_low", _FILL),
        tables=("parts",),
    ),
    TableChange(
        "a partition is made again",
        (
            "BEGIN; DELETE FROM parts WHERE id < 0; DROP TABLE parts_low; "
            "CREATE TABLE parts_low PARTITION OF parts FOR VALUES FROM (MINVALUE) TO (0); COMMIT",
            _FILL,
        ),
        tables=("parts",),
    ),
    TableChange(
        "a partition is unlogged for a while",
        ("ALTER TABLE parts_low SET UNLOGGED", _SOME, "ALTER TABLE parts_low SET LOGGED"),
        tables=("parts",),
    ),
    TableChange(
        "a partition has a replica identity of its own for a while",
        (
            "ALTER TABLE parts_high REPLICA IDENTITY NOTHING",
            "INSERT INTO parts (id, n) SELECT max(id) + 1, 0 FROM parts",
            "ALTER TABLE parts_high REPLICA IDENTITY DEFAULT",
        ),
        tables=("parts",),
    ),
    TableChange(
        "its updates are not published for a while",
        (
            "ALTER PUBLICATION tidemark SET (publish = 'insert, delete, truncate')",
            _SOME,
            "ALTER PUBLICATION tidemark SET (publish = 'insert, update, delete, truncate')",
        ),
    ),
    TableChange("it is not published for a while", (_WITHDRAW, _SOME, _PUBLISH)),
    TableChange(
        "it is unlogged for a while",
        (_WITHDRAW, "ALTER TABLE {t} SET UNLOGGED", _SOME, "ALTER TABLE {t} SET LOGGED", _PUBLISH),
        tables=PLAIN,
    ),
    TableChange(
        "it is in another schema for a while",
        (
            "CREATE SCHEMA IF NOT EXISTS attic",
            "ALTER TABLE {t} SET SCHEMA attic",
            _SOME.replace("{t}", "attic.{t}"),
            "ALTER TABLE attic.{t} SET SCHEMA public",
        ),
        tables=PLAIN,
    ),
    TableChange(
        "the labels of a column's type are renamed",
        (
            "CREATE TYPE {new}_type AS ENUM ('a', 'b')",
            "ALTER TABLE {t} ADD COLUMN {new} {new}_type DEFAULT 'a'",
            _TOUCH,
            "ALTER TYPE {new}_type RENAME VALUE 'a' TO 'z'",
        ),
        adds=True,
    ),
    TableChange(
        "a label is added, used and renamed",
        (
            "CREATE TYPE {new}_type AS ENUM ('a', 'b')",
            "ALTER TABLE {t} ADD COLUMN {new} {new}_type",
            "ALTER TYPE {new}_type ADD VALUE 'y'",
            "UPDATE {t} SET {new} = 'y' WHERE id % 2 = 0",
            "ALTER TYPE {new}_type RENAME VALUE 'y' TO 'z'",
        ),
        adds=True,
    ),
    TableChange(
        "a column is added, used and renamed",
        (
            "ALTER TABLE {t} ADD COLUMN {new}_ int",
            "UPDATE {t} SET {new}_ = id WHERE id % 2 = 0",
            "ALTER TABLE {t} RENAME COLUMN {new}_ TO {new}",
        ),
        adds=True,
    ),
    TableChange(
        "the attributes of a column's type are renamed",
        (
            "CREATE TYPE {new}_type AS (one int, two int)",
            "ALTER TABLE {t} ADD COLUMN {new} {new}_type",
            "UPDATE {t} SET {new} = (id, n)",
            "ALTER TYPE {new}_type RENAME ATTRIBUTE two TO three",
        ),
        adds=True,
    ),
    TableChange(
        "a column has the name of a document's own member for a moment",
        ("ALTER TABLE {t} RENAME COLUMN {old} TO _meta", _SOME, "ALTER TABLE {t} RENAME COLUMN _meta TO {new}", _TOUCH),
        adds=True,
        drops=True,
    ),
    TableChange(
        "a savepoint takes an ALTER back",
        (
            f"BEGIN; SAVEPOINT s; ALTER TABLE {{t}} ADD COLUMN {{new}} int DEFAULT 7; {_TOUCH}; ROLLBACK TO s; "
            f"ALTER TABLE {{t}} ADD COLUMN {{new}} text; UPDATE {{t}} SET {{new}} = 'x' WHERE id % 2 = 0; COMMIT",
        ),
        adds=True,
    ),
    TableChange(
        "its log has old rows for a part of a transaction",
        (
            f"BEGIN; {_SOME}; ALTER TABLE {{t}} REPLICA IDENTITY FULL; DELETE FROM {{t}} WHERE id % 30 = 3; "
            f"ALTER TABLE {{t}} REPLICA IDENTITY DEFAULT; {_SOME}; COMMIT",
        ),
        tables=("users",),
    ),
    TableChange(
        "a view has its name for a moment",
        (
            "BEGIN; ALTER TABLE {t} RENAME TO away; CREATE VIEW {t} AS SELECT id, n FROM away; COMMIT",
            _SOME,
            "BEGIN; DROP VIEW {t}; ALTER TABLE away RENAME TO {t}; COMMIT",
        ),
        tables=PLAIN,
    ),
    TableChange("values change with their type", ("ALTER TABLE {t} ALTER COLUMN n TYPE int USING n + 1000",)),
    TableChange(
        "a column is dropped and comes back with other values",
        ("ALTER TABLE {t} DROP COLUMN n, ADD COLUMN n_again int DEFAULT 5", "ALTER TABLE {t} RENAME n_again TO n"),
    ),
)
