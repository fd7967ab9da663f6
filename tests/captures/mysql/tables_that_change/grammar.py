"""The clauses of ALTER TABLE, as the documentation of MySQL and MariaDB lists them, and what they are tried on.

https://dev.mysql.com/doc/refman/en/alter-table.html, https://mariadb.com/kb/en/alter-table/. Each server refuses some.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from random import Random

from tidemark.captures.mysql.statements import keeping_clauses

ROWS = 6

_COLUMNS = """
    id INT NOT NULL, k INT NOT NULL, a INT, n INT, v VARCHAR(20) CHARACTER SET latin1, c CHAR(9), e ENUM('x', 'y'),
    d DECIMAL(10, 3), ts TIMESTAMP NULL, g INT AS (a + 1) VIRTUAL, s VARCHAR(80) AS (CONCAT(HEX(v), c = 'X')) STORED,
    PRIMARY KEY (id), INDEX j (a), CONSTRAINT {t}_ck CHECK (a < 1000)
"""
TABLE = f"CREATE TABLE {{t}} ({_COLUMNS}, UNIQUE i (k))"
PARTITIONED = f"""
    CREATE TABLE {{t}} ({_COLUMNS}) PARTITION BY RANGE (id)
    (PARTITION p0 VALUES LESS THAN (3), PARTITION p1 VALUES LESS THAN (5), PARTITION p2 VALUES LESS THAN (1000))
"""
FILL = """
    INSERT INTO {t} (id, k, a, n, v, c, e, d, ts) VALUES (1, 10, 1, NULL, 'é', 'x', 'x', 1.234, '2026-01-01'),
    (2, 20, 2, 2, 'a ', 'y ', 'y', 2.345, NULL), (3, 0, 0, 0, '', '', NULL, 0, '2026-01-03 04:05:06'),
    (4, 40, NULL, 4, NULL, NULL, 'x', NULL, NULL), (5, 50, 5, 5, 'eeeeeeeee', 'z', 'y', -5.555, '2026-05-05'),
    (6, 60, 6, NULL, 'F', 'F', 'y', 6, '2026-06-06')
"""


MODES = (
    "STRICT_TRANS_TABLES",
    "",
    "STRICT_ALL_TABLES,PAD_CHAR_TO_FULL_LENGTH,ANSI_QUOTES",
    "NO_AUTO_VALUE_ON_ZERO,NO_BACKSLASH_ESCAPES",
)


@dataclass(frozen=True)
class Clause:
    """A clause.

    Attributes:
        text: In SQL.
        keeps: The entry of the list that has it; or ``definition``: the definitions before and after it tell that it
            keeps all values, or a constant fills the rows. Empty: rows are read again, or it depends.
        before: Statements before the one that has it.
        after: Statements after it.
        table: Of what it is tried on.
        mode: The ``sql_mode`` in which it is tried alone.
    """

    text: str
    keeps: str = ""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    table: str = TABLE
    mode: str = MODES[0]


def _of(
    keeps: str, *texts: str, table: str = TABLE, before: tuple[str, ...] = (), mode: str = MODES[0]
) -> Iterator[Clause]:
    return (Clause(text, keeps, before, table=table, mode=mode) for text in texts)


PARENT = "CREATE TABLE {t}_p (id INT PRIMARY KEY)"
FILL_PARENT = "INSERT INTO {t}_p VALUES (0), (2), (4), (5), (9)"
FOREIGN_KEY = "ADD CONSTRAINT {t}_fk FOREIGN KEY (n) REFERENCES {t}_p (id) ON DELETE SET NULL"
HASHED = ("ALTER TABLE {t} PARTITION BY HASH (id) PARTITIONS 4",)
COPY = (
    "CREATE TABLE {t}_x LIKE {t}",
    "ALTER TABLE {t}_x REMOVE PARTITIONING",
    "INSERT INTO {t}_x (id, k, v) VALUES (0, 7, 'other')",
)

KEEPING = (
    *_of(
        keeping_clauses.INDEXES.name,
        "ADD INDEX (n)",
        "ADD KEY x USING BTREE (a, n) COMMENT 'DROP a'",
        "ADD UNIQUE (d)",
        "ADD CONSTRAINT x UNIQUE KEY (d, k)",
        "ADD FULLTEXT INDEX (v)",
        "DROP INDEX j",
        "DROP KEY i",
        "RENAME INDEX j TO x",
        "ALTER INDEX j INVISIBLE",
        "ALTER INDEX j IGNORED",
        "DISABLE KEYS",
        "ENABLE KEYS",
    ),
    *_of(keeping_clauses.CONSTRAINTS.name, FOREIGN_KEY, before=(PARENT, FILL_PARENT)),
    *_of(
        keeping_clauses.CONSTRAINTS.name,
        "DROP FOREIGN KEY {t}_fk",
        "DROP CONSTRAINT {t}_fk",
        before=(PARENT, FILL_PARENT, "ALTER TABLE {t} " + FOREIGN_KEY),
    ),
    *_of(
        keeping_clauses.CONSTRAINTS.name,
        "ADD CHECK (n < 1000)",
        "ADD CONSTRAINT x CHECK (n < 1000) NOT ENFORCED",
        "DROP CONSTRAINT {t}_ck",
        "DROP CHECK {t}_ck",
        "ALTER CHECK {t}_ck NOT ENFORCED",
    ),
    *_of(
        keeping_clauses.DEFAULTS.name,
        "ALTER n SET DEFAULT 7",
        "ALTER COLUMN n SET DEFAULT (1 + 1)",
        "ALTER n DROP DEFAULT",
        "ALTER COLUMN n SET INVISIBLE",
    ),
    *_of(
        keeping_clauses.OPTIONS.name,
        "AUTO_INCREMENT = 100",
        "AVG_ROW_LENGTH 100",
        "CHECKSUM = 1",
        "COMMENT 'why, DROP COLUMN a'",
        "COMPRESSION = 'NONE'",
        "DEFAULT CHARACTER SET = utf8mb3",
        "CHARSET ascii",
        "COLLATE utf8mb4_bin",
        "ENCRYPTION = 'N'",
        "ENGINE = InnoDB",
        "ENGINE 'InnoDB'",
        "ENGINE = MyISAM",
        "ENGINE = Aria",
        "MAX_ROWS = 1000 MIN_ROWS = 1",
        "PACK_KEYS = 1",
        "PAGE_CHECKSUM = 1",
        "PAGE_COMPRESSED = 1",
        "ROW_FORMAT = COMPACT",
        "ROW_FORMAT = COMPRESSED KEY_BLOCK_SIZE = 8",
        "STATS_PERSISTENT = 1, STATS_AUTO_RECALC = DEFAULT, STATS_SAMPLE_PAGES = 9",
        "TABLESPACE innodb_file_per_table",
        "TRANSACTIONAL = 1",
    ),
    *_of(
        keeping_clauses.REBUILDS.name,
        "FORCE",
        "FORCE, ALGORITHM = COPY",
        "FORCE, ALGORITHM INPLACE, LOCK = NONE",
        "ORDER BY n DESC, a",
        "WITHOUT VALIDATION",
    ),
    *_of(
        keeping_clauses.PARTITIONS.name,
        "REMOVE PARTITIONING",
        "PARTITION BY HASH (id) PARTITIONS 3",
        "PARTITION BY LINEAR KEY ALGORITHM = 2 (id) PARTITIONS 2",
        "PARTITION BY RANGE COLUMNS (id) (PARTITION q0 VALUES LESS THAN (5), PARTITION q1 VALUES LESS THAN (MAXVALUE))",
        "ADD PARTITION (PARTITION p3 VALUES LESS THAN (2000) ENGINE = InnoDB)",
        "REORGANIZE PARTITION p0, p1 INTO (PARTITION p VALUES LESS THAN (5))",
        "REBUILD PARTITION p0, p1",
        "OPTIMIZE PARTITION ALL",
        "ANALYZE PARTITION p0",
        "CHECK PARTITION ALL",
        table=PARTITIONED,
    ),
    *_of(
        keeping_clauses.PARTITIONS.name,
        "ADD PARTITION PARTITIONS 2",
        "COALESCE PARTITION 2",
        "REORGANIZE PARTITION",
        table=PARTITIONED,
        before=HASHED,
    ),
)
"""Those of the list."""

OF_COLUMNS = (
    *_of(
        "definition",
        "ADD COLUMN x VARCHAR(9)",
        "ADD x INT DEFAULT 7 FIRST",
        "ADD x INT NOT NULL, ADD y VARCHAR(9) NOT NULL DEFAULT 'y' AFTER a",
        "ADD (x INT, y VARCHAR(9) DEFAULT 'y', INDEX (x))",
        "DROP COLUMN n",
        "DROP d",
        "DROP n, ADD n VARCHAR(9)",
        "MODIFY n BIGINT COMMENT 'AFTER d' AFTER d",
        "MODIFY id INT NOT NULL COMMENT 'the key' FIRST",
        "MODIFY k INT UNSIGNED NOT NULL",
        "CHANGE n x INT",
        "RENAME COLUMN n TO x",
        "RENAME COLUMN n TO d, RENAME COLUMN d TO n",
        "MODIFY e ENUM('y', 'x', 'z')",
        "MODIFY d DECIMAL(12, 3)",
    ),
    *_of(
        "",
        "ADD x TIMESTAMP",
        "ADD x TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP",
        "ADD x INT AS (a * 2) VIRTUAL",
        "ADD x INT GENERATED ALWAYS AS (n * 2) STORED",
        "ADD x BIGINT NOT NULL AUTO_INCREMENT UNIQUE",
        "ADD x SERIAL",
        "ADD x VARCHAR(36) DEFAULT (UUID())",
        "DROP g, DROP a",
        "DROP g, CHANGE a n INT, CHANGE n a INT",
        "MODIFY n INT NOT NULL",
        "MODIFY n VARCHAR(9)",
        "MODIFY a BIGINT",
        "MODIFY a INT NOT NULL DEFAULT 9",
        "MODIFY k INT NOT NULL AUTO_INCREMENT",
        "MODIFY d DECIMAL(10, 1)",
        "MODIFY ts TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP",
        "MODIFY ts DATETIME",
        "MODIFY v VARCHAR(20) CHARACTER SET utf8mb4",
        "MODIFY v VARCHAR(3) CHARACTER SET latin1",
        "MODIFY v VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_bin",
        "MODIFY c CHAR(9) COLLATE utf8mb4_bin",
        "MODIFY c CHAR(12)",
        "MODIFY c VARCHAR(9)",
        "MODIFY c TEXT",
        "MODIFY e ENUM('y', 'z')",
        "MODIFY g INT AS (a + 2) VIRTUAL",
        "MODIFY s VARCHAR(80) AS (CONCAT(v, '-')) STORED",
        "MODIFY s VARCHAR(80)",
        "CONVERT TO CHARACTER SET utf8mb4",
        "CONVERT TO CHARACTER SET utf16 COLLATE utf16_bin",
        "CONVERT TO CHARACTER SET ascii",
    ),
)

IN_OTHER_MODES = (
    *_of(
        "",
        "MODIFY n INT NOT NULL",
        "MODIFY a SMALLINT",
        "MODIFY v VARCHAR(3) CHARACTER SET latin1",
        "MODIFY e ENUM('y', 'z')",
        "CONVERT TO CHARACTER SET ascii",
        "CONVERT TO CHARACTER SET utf16 COLLATE utf16_bin",
        mode=MODES[1],
    ),
    *_of("", "MODIFY c VARCHAR(9)", "MODIFY c TEXT", 'ADD "x, y" INT NOT NULL, DROP "n"', mode=MODES[2]),
    *_of("", "MODIFY k INT NOT NULL AUTO_INCREMENT", "ADD x INT NOT NULL COMMENT '\\', DROP d", mode=MODES[3]),
)

OF_KEYS = (
    *_of(
        "",
        "MODIFY id BIGINT NOT NULL",
        "MODIFY id VARCHAR(9) NOT NULL",
        "MODIFY id INT NOT NULL AUTO_INCREMENT",
        "DROP COLUMN id, ADD id INT NOT NULL DEFAULT 0, DROP PRIMARY KEY, ADD PRIMARY KEY (k)",
        "DROP PRIMARY KEY, ADD PRIMARY KEY (k)",
        "DROP PRIMARY KEY, ADD PRIMARY KEY (id, k)",
        "DROP PRIMARY KEY",
        "CHANGE id k INT NOT NULL, CHANGE k id INT NOT NULL",
        "CHANGE id k INT NOT NULL, CHANGE k id INT NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (id)",
        "RENAME COLUMN id TO x",
    ),
    *_of(
        "",
        "CHANGE id k INT NOT NULL, CHANGE k id INT NOT NULL",
        "CHANGE id k INT NOT NULL, CHANGE k id INT NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (id, k)",
        before=("ALTER TABLE {t} DROP PRIMARY KEY, ADD PRIMARY KEY (id, k)",),
    ),
    *_of(
        "",
        "DROP id, ADD id INT NOT NULL AUTO_INCREMENT PRIMARY KEY FIRST",
        "DROP PRIMARY KEY, DROP id, ADD id INT NOT NULL AUTO_INCREMENT, ADD PRIMARY KEY (id)",
        before=("UPDATE {t} SET id = 10 * id",),
    ),
    Clause(
        "MODIFY id INT NOT NULL AUTO_INCREMENT",
        before=("DELETE FROM {t} WHERE id = 1", "UPDATE {t} SET id = 0 WHERE id = 3"),
    ),
    *(
        Clause(
            "MODIFY x DECIMAL(10, 1) NOT NULL",
            before=(
                "ALTER TABLE {t} DROP PRIMARY KEY, ADD x DECIMAL(10, 3) NOT NULL DEFAULT 0",
                "UPDATE {t} SET x = id + 0.125",
                "ALTER TABLE {t} ADD PRIMARY KEY (x)",
            ),
            after=("ALTER TABLE {t} MODIFY x DECIMAL(10, 3) NOT NULL",),
            mode=mode,
        )
        for mode in (MODES[0], MODES[2])  # In the other mode the first of the statements has rows read again.
    ),
    *_of(
        "",
        "MODIFY x VARCHAR(90) AS (CONCAT(HEX(w), '-')) STORED NOT NULL",
        "MODIFY w VARCHAR(9) CHARACTER SET utf8mb4",
        "MODIFY w VARCHAR(9) CHARACTER SET latin1 NOT NULL DEFAULT 'z'",
        before=(
            "ALTER TABLE {t} ADD w VARCHAR(9) CHARACTER SET latin1",
            "UPDATE {t} SET w = CONCAT('é', id)",
            "ALTER TABLE {t} DROP PRIMARY KEY, ADD x VARCHAR(90) AS (HEX(w)) STORED NOT NULL, ADD PRIMARY KEY (x)",
        ),
    ),
)

OF_ROWS = (
    *_of("", "DROP PARTITION p0", "DROP PARTITION p0, p1", "TRUNCATE PARTITION p1, p0", table=PARTITIONED),
    *_of("", "REPAIR PARTITION ALL", "DROP /*!50100 PARTITION p0 */", table=PARTITIONED),
    *_of("", "EXCHANGE PARTITION p0 WITH TABLE {t}_x", table=PARTITIONED, before=COPY),
    *_of("", "CONVERT PARTITION p0 TO TABLE {t}_y", table=PARTITIONED),
    *_of(
        "",
        "--\nDROP PARTITION p0",
        "/*!50100 DROP PARTITION p0 */",
        "/*M!100100 DROP PARTITION p0 */",
        table=PARTITIONED,
    ),
    *_of("", "ADD x INT NULL /*!50100 , DROP COLUMN n */", "--\nADD x INT NOT NULL DEFAULT 7"),
    Clause(
        "ADD SYSTEM VERSIONING",
        after=(
            "DELETE FROM {t} WHERE id = 3",
            "UPDATE {t} SET k = 41 WHERE id = 4",
            "ALTER TABLE {t} DROP SYSTEM VERSIONING",
        ),
    ),
    Clause(
        "ADD PERIOD FOR x (dx, dy)",
        before=(
            "ALTER TABLE {t} ADD dx DATE NOT NULL DEFAULT '2026-01-01', ADD dy DATE NOT NULL DEFAULT '2026-02-01'",
        ),
        after=("ALTER TABLE {t} DROP PERIOD FOR x",),
    ),
)

CLAUSES = (*KEEPING, *OF_COLUMNS, *IN_OTHER_MODES, *OF_KEYS, *OF_ROWS)


@dataclass(frozen=True)
class Case:
    """A table, and statements that alter it in one ``sql_mode``."""

    clauses: tuple[Clause, ...]
    mode: str = MODES[0]
    together: bool = True

    @property
    def table(self) -> str:
        return PARTITIONED if any(clause.table is PARTITIONED for clause in self.clauses) else TABLE

    @property
    def keeps(self) -> str:
        """Which entry says that rows are not read again."""
        return self.clauses[0].keeps if len(self.clauses) == 1 and self.mode == MODES[0] else ""

    @property
    def before(self) -> list[str]:
        return list(dict.fromkeys(statement for clause in self.clauses for statement in clause.before))

    @property
    def alter(self) -> list[str]:
        texts = [clause.text for clause in self.clauses]
        parts = [", ".join(texts)] if self.together else texts
        return [f"ALTER TABLE {{t}} {part}" for part in parts]

    @property
    def after(self) -> list[str]:
        return [statement for clause in self.clauses for statement in clause.after]


def alone() -> list[Case]:
    """Every clause on its own."""
    return [Case((clause,), clause.mode) for clause in CLAUSES]


def in_pairs() -> list[Case]:
    """Every clause with every other, half of them in one statement and half in two, in an order that is mixed."""
    cases = [
        Case(pair if number % 3 else pair[::-1], MODES[number % len(MODES)], together=number % 2 == 0)
        for number, pair in enumerate(combinations(CLAUSES, 2))
    ]
    Random(25).shuffle(cases)
    return cases
