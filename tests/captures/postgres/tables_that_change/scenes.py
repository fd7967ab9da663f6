"""For each row of the table in docs/postgres.md: statements that bring that change about, any number of times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.captures.postgres.tables_that_change import kept_values
from tests.captures.postgres.tables_that_change.kept_values import KeepsValues
from tidemark.captures.contract.table_changes import TableChange
from tidemark.captures.postgres.server.rewrite_trigger import SCRIPT
from tidemark.captures.postgres.tables_that_change import table_changes as changes

Statements = Callable[[int], list[str]]


def _nothing(_: int) -> list[str]:
    return []


def _same(*statements: str) -> Statements:
    return lambda _: list(statements)


def _in_turn(*turns: list[str]) -> Statements:
    return lambda number: turns[number % len(turns)]


_ROWS = "INSERT INTO t SELECT i, i FROM generate_series(1, 120) i"
_PLAIN = ["CREATE TABLE t (id int PRIMARY KEY, a int)", _ROWS]


@dataclass(frozen=True)
class Scene:
    """A change.

    Attributes:
        alter: Brings it about, for the so-manieth time.
        mend: Where it keeps the table from being captured, what ends that.
        create: Makes table ``t``, with rows.
        publication: What is published; made by the first session where it is empty.
        query: What documents have.
        key: Of the documents, after so many alterations.
        least: The least major version of the server.
        config: Of the connector.
        role: The capture is another role's, which is put in the place of ``{role}``.
    """

    alter: Statements
    mend: Statements = _nothing
    create: list[str] = field(default_factory=lambda: list(_PLAIN))
    publication: str = ""
    query: str = "SELECT * FROM t"
    key: Callable[[int], tuple[str, ...]] = lambda _: ("id",)
    least: int = 14
    role: bool = False
    config: dict[str, str] = field(default_factory=dict)


_KEYLESS = ["CREATE TABLE t (id int, a int)", "ALTER TABLE t REPLICA IDENTITY FULL", _ROWS]
_TYPED = [
    "CREATE TYPE mood AS ENUM ('m0', 'high')",
    "CREATE TYPE pair AS (x0 int, y text)",
    "CREATE TABLE t (id int PRIMARY KEY, a mood DEFAULT 'high', p pair)",
    "INSERT INTO t SELECT i, 'm0', ROW(i, 'y')::pair FROM generate_series(1, 120) i",
]
_LOST = "DELETE FROM t WHERE id % 7 = 1"
_WHOLE = "ALTER PUBLICATION tidemark SET (publish = 'insert, update, delete, truncate')"

PARTITIONED = [
    "CREATE TABLE t (id int PRIMARY KEY, a int) PARTITION BY RANGE (id)",
    "CREATE TABLE t_low PARTITION OF t FOR VALUES FROM (0) TO (60)",
    "CREATE TABLE t_high PARTITION OF t FOR VALUES FROM (60) TO (MAXVALUE)",
    *(f"CREATE TABLE t_{i} PARTITION OF t FOR VALUES FROM ({-1000 - i}) TO ({-999 - i})" for i in range(4)),
    _ROWS,
]


def _joined(number: int) -> list[str]:
    """In one transaction, as pg_partman does it, or in several."""
    low, high = -100 * number - 100, -100 * number
    statements = [
        f"CREATE TABLE t_with_rows_{number} (a int, id int PRIMARY KEY)",
        f"INSERT INTO t_with_rows_{number} SELECT i, i FROM generate_series({low}, {high - 1}) i",
        f"ALTER TABLE t ATTACH PARTITION t_with_rows_{number} FOR VALUES FROM ({low}) TO ({high})",
    ]
    return statements if number % 2 else ["; ".join(statements)]


SCENES: dict[TableChange | KeepsValues, Scene] = {
    changes.ABSENT: Scene(_same("ALTER TABLE t RENAME TO u"), _same("ALTER TABLE u RENAME TO t")),
    changes.MADE_AGAIN: Scene(
        lambda n: [f"DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, a int); INSERT INTO t VALUES ({n}, {n})"],
        publication="FOR ALL TABLES",
    ),
    changes.STORAGE: Scene(
        _same("ALTER TABLE t SET UNLOGGED", _LOST), _same("ALTER TABLE t SET LOGGED"), publication="FOR ALL TABLES"
    ),
    changes.UNLOGGED_AND_BACK: Scene(
        _same("ALTER TABLE t SET UNLOGGED", _LOST, "ALTER TABLE t SET LOGGED"), publication="FOR ALL TABLES"
    ),
    changes.REWRITTEN_BY_ALTER: Scene(
        _in_turn(["ALTER TABLE t ALTER a TYPE bigint USING a + 1"], ["ALTER TABLE t ALTER a TYPE int USING a - 1"]),
        create=[SCRIPT, *PARTITIONED],
    ),
    changes.PARTITION_JOINED: Scene(_joined, create=PARTITIONED),
    changes.PARTITION_BACK: Scene(
        _same(
            "ALTER TABLE t DETACH PARTITION t_low",
            "DELETE FROM t_low WHERE id % 7 = 1",
            "UPDATE t_low SET a = a + 1 WHERE id % 5 = 1",
            "ALTER TABLE t ATTACH PARTITION t_low FOR VALUES FROM (0) TO (60)",
        ),
        create=PARTITIONED,
    ),
    changes.PARTITION_GONE: Scene(
        _in_turn(*([f"ALTER TABLE t DETACH PARTITION t_{i}"] for i in range(4))), create=PARTITIONED
    ),
    changes.PARTITION_REMOVED: Scene(
        _in_turn(*([f"ALTER TABLE t DETACH PARTITION t_{i}"] for i in range(4))),
        create=[*PARTITIONED, "INSERT INTO t SELECT i, i FROM generate_series(-1003, -1000) i"],
        config={"on_partition_gone": "reread"},
    ),
    changes.REWRITTEN: Scene(
        _in_turn(["VACUUM FULL t"], ["ALTER TABLE t ALTER a TYPE bigint"], ["ALTER TABLE t ALTER a TYPE int"]),
        create=_KEYLESS,
        key=lambda _: (),
    ),
    changes.IDENTITY: Scene(
        _same("ALTER TABLE t REPLICA IDENTITY NOTHING"), _same("ALTER TABLE t REPLICA IDENTITY DEFAULT")
    ),
    changes.KEY: Scene(
        _in_turn(
            ["ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, a)"],
            ["ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id)"],
        ),
        create=["CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL DEFAULT 0)", _ROWS],
        key=lambda n: ("id", "a") if n % 2 else ("id",),
    ),
    changes.UNPUBLISHED: Scene(
        _same("ALTER PUBLICATION tidemark DROP TABLE t", _LOST), _same("ALTER PUBLICATION tidemark ADD TABLE t")
    ),
    changes.PUBLISHED_AGAIN: Scene(
        _same("ALTER PUBLICATION tidemark DROP TABLE t", _LOST, "ALTER PUBLICATION tidemark ADD TABLE t")
    ),
    changes.IN_PART: Scene(_same("ALTER PUBLICATION tidemark SET (publish = 'insert')", _LOST), _same(_WHOLE)),
    changes.OPTIONS: Scene(_same("ALTER PUBLICATION tidemark SET (publish = 'insert')", _LOST, _WHOLE)),
    changes.PRIVILEGES: Scene(
        _same("REVOKE SELECT ON t FROM {role}"),
        _same("GRANT SELECT ON t TO {role}"),
        publication="FOR ALL TABLES",
        role=True,
    ),
    kept_values.COLUMN_ADDED: Scene(lambda n: [f"ALTER TABLE t ADD c{n} int"]),
    changes.COLUMN_FILLED: Scene(lambda n: [f"ALTER TABLE t ADD c{n} serial"]),
    kept_values.COLUMN_CONSTANT: Scene(lambda n: [f"ALTER TABLE t ADD c{n} int DEFAULT {n}"]),
    changes.COLUMN_MADE_AGAIN: Scene(
        lambda n: [
            "ALTER TABLE t DROP a",
            f"ALTER TABLE t ADD a int DEFAULT {n + 1000}",
            "UPDATE t SET a = 3 WHERE id = 5",
        ]
    ),
    kept_values.COLUMN_DROPPED: Scene(
        lambda n: [f"ALTER TABLE t DROP c{n}"],
        create=["CREATE TABLE t (id int PRIMARY KEY, a int, c0 int, c1 int, c2 int, c3 int)", _ROWS],
    ),
    changes.COLUMN_RENAMED: Scene(
        lambda n: [
            f"ALTER TABLE t ADD c{n} int DEFAULT 1",
            f"UPDATE t SET c{n} = 3 WHERE id = 5",
            f"ALTER TABLE t DROP c{n}",
            f"ALTER TABLE t ADD c{n} int DEFAULT 2",
        ]
    ),
    kept_values.COLUMN_FOLLOWED: Scene(
        _same("ALTER TABLE t RENAME a TO b", "ALTER TABLE t RENAME c TO a", "ALTER TABLE t RENAME b TO c"),
        create=["CREATE TABLE t (id int PRIMARY KEY, a int, c int)", _ROWS],
    ),
    changes.COLUMN_WRITTEN: Scene(
        _in_turn(
            ["ALTER TABLE t ALTER a TYPE text USING 'n' || a"],
            ["ALTER TABLE t ALTER a TYPE int USING 7"],
            ["ALTER TABLE t ALTER a TYPE int USING a + 1"],
        )
    ),
    changes.COLUMN_REWRITTEN: Scene(
        _in_turn(
            ["ALTER TABLE t ALTER a TYPE text USING 'n' || a"],
            ["ALTER TABLE t ALTER a TYPE int USING 7"],
            ["ALTER TABLE t ALTER a TYPE int USING a + 1"],
        ),
        create=[SCRIPT, *_PLAIN],
    ),
    changes.KEY_ORDER: Scene(
        _in_turn(['ALTER TABLE t ALTER id TYPE text COLLATE "C"'], ["ALTER TABLE t ALTER id TYPE text"]),
        create=["CREATE TABLE t (id text PRIMARY KEY, a int)", _ROWS],
    ),
    changes.EXPRESSION_DROPPED: Scene(
        lambda n: [f"ALTER TABLE t ALTER g{n} DROP EXPRESSION, ADD h{n} int"],
        create=[
            "CREATE TABLE t (id int PRIMARY KEY, a int, "
            + ", ".join(f"g{i} int GENERATED ALWAYS AS (a + {i}) STORED" for i in range(4))
            + ")",
            _ROWS,
        ],
    ),
    kept_values.LABELS_ADDED: Scene(lambda n: [f"ALTER TYPE mood ADD VALUE 'new{n}' BEFORE 'high'"], create=_TYPED),
    changes.LABELS_RENAMED: Scene(lambda n: [f"ALTER TYPE mood RENAME VALUE 'm{n}' TO 'm{n + 1}'"], create=_TYPED),
    changes.ATTRIBUTES: Scene(lambda n: [f"ALTER TYPE pair RENAME ATTRIBUTE x{n} TO x{n + 1}"], create=_TYPED),
    changes.KEY_VALUES: Scene(
        _same("ALTER TABLE t ALTER id TYPE int USING id + 1000"),
    ),
}
"""All but those that only a change of the capture file brings about."""
