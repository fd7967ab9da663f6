"""Tables that are changed at random by everything that docs/mysql.md lists, while they are written to and captured by
sessions that are killed, and while nobody captures them; at the end every row is what the source has.

Five seconds by default, ``TIDEMARK_TEST_SECONDS`` when it is set; ``TIDEMARK_TEST_SEED`` is of what happens.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from random import Random

import pymysql
import pytest

from tests.captures.mysql.log.test_stream import global_setting
from tests.captures.mysql.table_chunks import run
from tests.captures.session import Rows, Session, bindings, session
from tests.captures.sessions import Sessions
from tidemark.testing.servers.mariadb import Database

SECONDS = float(os.environ.get("TIDEMARK_TEST_SECONDS", "5"))
SEED = int(os.environ.get("TIDEMARK_TEST_SEED", "1"))
ROWS = 60
TABLES = ("t", "other")
COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS * 2 + 900)]

KEYS = ("INT", "BIGINT", "DECIMAL(10, 1)", "DECIMAL(12, 3)", "DOUBLE")
TYPES = (
    "INT",
    "BIGINT",
    "TINYINT UNSIGNED",
    "VARCHAR(30)",
    "VARCHAR(1)",
    "DECIMAL(12, 2)",
    "DOUBLE",
    "VARCHAR(40) CHARACTER SET latin1",
    "CHAR(4) CHARACTER SET ucs2",
    "TEXT",
    "ENUM('1', '2', '3') CHARACTER SET latin1",
    "ENUM('2', '1', '4') CHARACTER SET latin1",
    "INT AS (n + 1) STORED",
)
OWN_TYPES = ("UUID", "INET4", "INET6", "JSON")
NARROW_CHARSETS = ("latin1", "utf8mb4", "ascii")
CHARSETS = (*NARROW_CHARSETS, "utf16")


class Changes:
    """What happens to the tables: ``id`` is the key, ``n`` a number that the writer changes, others come and go.

    While it holds ``writing`` nothing else is written.
    """

    def __init__(self, database: Database, random: Random) -> None:
        self._database = database
        self._random = random
        self._count = 0
        self.writing = threading.Lock()
        self.columns: dict[str, list[str]] = {table: [] for table in TABLES}

    def create(self, table: str) -> None:
        self.columns[table] = []
        values = ", ".join(f"({n}, {n % 5})" for n in range(1, ROWS + 1))
        run(
            self._database,
            f"CREATE TABLE {table} (id INT, n INT, PRIMARY KEY (id))",
            f"REPLACE INTO {table} VALUES {values}",  # The writer may have been there.
        )

    def step(self) -> str:
        """One of them, at random; its name."""
        table = self._random.choice(TABLES)
        steps: list[Callable[[str], None]] = [
            *[self.add] * 2,
            *[self.add_filled] * 2,
            self.redefault,
            self.convert,
            self.add_and_drop,
            self.retype_key,
            self.truncate,
            self.create_again,
            self.replace_by_another,
            self.swap,
            self.rename_and_back,
            self.drop_key,
            self.other_key,
            self.partition,
            self.statement,
            self.function,
            self.temporary,
            self.trigger,
            self.prepared,
            *([] if self._database.is_mysql else [self.ignore]),
        ]
        if self.columns[table]:
            steps += [self.drop, self.rename, self.retype, self.retype, self.add_again, self.rename_and_add]
            steps += [self.unlogged]
        if len(self.columns[table]) > 1:
            steps += [self.swap_columns] * 2
        step = self._random.choice(steps)
        step(table)
        return f"{step.__name__} {table}"

    # Columns.

    def add(self, table: str) -> None:
        self._count += 1
        name = f"c{self._random.randint(1, 4)}"
        if name in self.columns[table]:
            return
        self.columns[table].append(name)
        run(self._database, f"ALTER TABLE {table} ADD COLUMN {name} {self._random.choice(TYPES)}")
        self._unless_refused("SET sql_mode = ''", f"UPDATE {table} SET {name} = id WHERE id % 2 = 0")

    def add_filled(self, table: str) -> None:
        self._count += 1
        constants = ("INT DEFAULT 7", "INT NOT NULL", "VARCHAR(9) DEFAULT 'é'", "ENUM('b', 'a') NOT NULL FIRST")
        given = self._random.choice((*constants, "INT AS (n * 2)", "DATETIME DEFAULT CURRENT_TIMESTAMP"))
        # A table that was converted to ascii has no place for that default.
        if self._unless_refused(f"ALTER TABLE {table} ADD COLUMN f{self._count} {given}"):
            self.columns[table].append(f"f{self._count}")

    def add_and_drop(self, table: str) -> None:
        own = [kind for kind in OWN_TYPES if self._database.has_type(kind)]
        kind = self._random.choice(own if not self._database.is_mysql else ["JSON"])
        value = {"UUID": "UUID()", "INET4": "'10.0.0.1'", "INET6": "'::1'", "JSON": "'[1]'"}[kind]
        run(
            self._database,
            f"ALTER TABLE {table} ADD COLUMN own {kind}",
            f"UPDATE {table} SET own = {value} WHERE id % 3 = 0",
            f"ALTER TABLE {table} DROP COLUMN own",
        )

    def convert(self, table: str) -> None:
        with closing(self._database.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"SHOW COLUMNS FROM {table} WHERE Type LIKE 'enum%'")
            # Both servers take the bytes of labels for characters of utf16: no label is what it was.
            charset = self._random.choice(NARROW_CHARSETS if cursor.fetchall() else CHARSETS)
        self._unless_refused("SET sql_mode = ''", f"ALTER TABLE {table} CONVERT TO CHARACTER SET {charset}")

    def drop(self, table: str) -> None:
        run(self._database, f"ALTER TABLE {table} DROP COLUMN {self._take(table)}")

    def add_again(self, table: str) -> None:
        name = self._random.choice(self.columns[table])
        run(self._database, f"ALTER TABLE {table} DROP COLUMN {name}, ADD COLUMN {name} INT DEFAULT {self._count}")

    def redefault(self, table: str) -> None:
        """Right after the column was added, so that the log has not come to that."""
        self._count += 1
        name = f"f{self._count}"
        self.columns[table].append(name)
        run(
            self._database,
            f"ALTER TABLE {table} ADD COLUMN {name} INT DEFAULT 1",
            f"ALTER TABLE {table} ALTER {name} SET DEFAULT 2",
        )

    def rename_and_add(self, table: str) -> None:
        """In one statement: the new column has the other one's name."""
        self._count += 1
        name = self._random.choice(self.columns[table])
        self.columns[table].append(f"f{self._count}")
        rename = f"RENAME COLUMN {name} TO f{self._count}"
        run(self._database, f"ALTER TABLE {table} {rename}, ADD COLUMN {name} INT DEFAULT {self._count} AFTER id")

    def rename(self, table: str) -> None:
        old, new = self._take(table), f"d{self._random.randint(1, 4)}"
        while new in self.columns[table]:
            new += "x"
        self.columns[table].append(new)
        run(self._database, f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")

    def swap_columns(self, table: str) -> None:
        one, two = self._random.sample(self.columns[table], 2)
        run(self._database, f"ALTER TABLE {table} RENAME COLUMN {one} TO {two}, RENAME COLUMN {two} TO {one}")

    def retype(self, table: str) -> None:
        name, kind = self._random.choice(self.columns[table]), self._random.choice(TYPES)
        mode = self._random.choice(("''", "'STRICT_ALL_TABLES'"))
        null = self._random.choice(("NULL", "NOT NULL")) if " AS " not in kind else ""
        self._unless_refused(f"SET sql_mode = {mode}", f"ALTER TABLE {table} MODIFY {name} {kind} {null}")

    def unlogged(self, table: str) -> None:
        name = self._random.choice(self.columns[table])
        self._unless_refused(
            "SET sql_mode = ''",
            "SET sql_log_bin = 0",
            f"ALTER TABLE {table} MODIFY {name} {self._random.choice(('VARCHAR(50)', 'TINYINT', 'DOUBLE'))}",
            "SET sql_log_bin = 1",
            f"REPLACE INTO {table} (id, n) VALUES (1, 1)",  # The log shows nothing of it before the next row.
        )

    # Keys.

    def retype_key(self, table: str) -> None:
        run(self._database, f"ALTER TABLE {table} MODIFY id {self._random.choice(KEYS)} NOT NULL")

    def other_key(self, table: str) -> None:
        run(
            self._database,
            f"ALTER TABLE {table} ADD UNIQUE INDEX u (id), DROP PRIMARY KEY",
            f"ALTER TABLE {table} ADD PRIMARY KEY (id)",
            f"DROP INDEX u ON {table}",
        )

    def drop_key(self, table: str) -> None:
        with self.writing:
            run(
                self._database,
                f"ALTER TABLE {table} DROP PRIMARY KEY",
                f"UPDATE {table} SET n = n + 1 WHERE id % 3 = 0",
                f"ALTER TABLE {table} ADD PRIMARY KEY (id)",
            )

    def ignore(self, table: str) -> None:
        run(self._database, f"ALTER IGNORE TABLE {table} ADD UNIQUE INDEX u (n)", f"DROP INDEX u ON {table}")

    # Tables.

    def truncate(self, table: str) -> None:
        run(self._database, f"TRUNCATE TABLE {table}")

    def create_again(self, table: str) -> None:
        run(self._database, f"DROP TABLE {table}")
        self.create(table)

    def replace_by_another(self, table: str) -> None:
        copy = self._random.choice((f"_{table}_new", f"_{table}_gho", "some"))
        run(
            self._database,
            "SET sql_mode = ''",
            f"DROP TABLE IF EXISTS {copy}, gone",
            f"CREATE TABLE {copy} LIKE {table}",
            f"INSERT INTO {copy} (id, n) VALUES (1, 1), (7, 7), (500, 5)",
            f"RENAME TABLE {table} TO gone, {copy} TO {table}",
        )

    def swap(self, _: str) -> None:
        one, two = TABLES
        run(self._database, f"RENAME TABLE {one} TO middle, {two} TO {one}, middle TO {two}")
        self.columns = {one: self.columns[two], two: self.columns[one]}

    def rename_and_back(self, table: str) -> None:
        run(
            self._database,
            f"ALTER TABLE {table} RENAME TO away",
            "UPDATE away SET n = n + 1 WHERE id % 7 = 0",
            f"ALTER TABLE away RENAME TO {table}",
        )

    def partition(self, table: str) -> None:
        run(
            self._database,
            f"ALTER TABLE {table} PARTITION BY KEY (id) PARTITIONS 3",
            f"ALTER TABLE {table} TRUNCATE PARTITION p1",
            f"ALTER TABLE {table} REMOVE PARTITIONING",
        )

    # Statements instead of rows.

    def statement(self, table: str) -> None:
        self._in_statement_format(f"UPDATE {table} SET n = n + 1 WHERE id % 5 = 0")

    def function(self, table: str) -> None:
        run(
            self._database,
            f"CREATE OR REPLACE VIEW v AS SELECT id, n FROM {table}",
            "DROP FUNCTION IF EXISTS f",
            "CREATE FUNCTION f(x INT) RETURNS INT DETERMINISTIC MODIFIES SQL DATA "
            f"BEGIN UPDATE {table} SET n = x WHERE id < 5; RETURN 1; END",
            "SET binlog_format = STATEMENT",
            self._random.choice(("SELECT f(7)", "DO f(8)", "SET @x = f(9)", "UPDATE v SET n = 10 WHERE id < 9")),
        )

    def temporary(self, table: str) -> None:
        writes = f"INSERT INTO {table} VALUES (1)", f"DELETE FROM {table}", f"TRUNCATE TABLE {table}"
        self._in_statement_format(f"CREATE TEMPORARY TABLE {table} (id INT PRIMARY KEY)", *writes)

    def trigger(self, table: str) -> None:
        run(
            self._database,
            "DROP TABLE IF EXISTS fires",
            "CREATE TABLE fires (id INT)",
            "INSERT INTO fires VALUES (1)",
            f"CREATE TRIGGER comes AFTER INSERT ON fires FOR EACH ROW UPDATE {table} SET n = n + 2 WHERE id % 6 = 0",
            f"CREATE TRIGGER goes AFTER DELETE ON fires FOR EACH ROW DELETE FROM {table} WHERE id % 9 = 5",
        )
        reads = f"INSERT INTO fires SELECT id FROM {TABLES[1 - TABLES.index(table)]} LIMIT 1"
        self._in_statement_format(self._random.choice(("INSERT INTO fires VALUES (2)", reads, "DELETE FROM fires")))

    def prepared(self, table: str) -> None:
        xa = [f"XA {word} 'random'" for word in ("START", "END", "PREPARE", "COMMIT")]
        self._in_statement_format(xa[0], f"UPDATE {table} SET n = n + 3 WHERE id % 8 = 0", *xa[1:])

    def _in_statement_format(self, *statements: str) -> None:
        run(self._database, "SET binlog_format = STATEMENT", *statements)

    def _unless_refused(self, *statements: str) -> bool:
        """Whether the server took them. What it refuses leaves the table as it is, and is not in the log."""
        try:
            run(self._database, *statements)
        except pymysql.Error:
            return False
        return True

    def _take(self, table: str) -> str:
        columns = self.columns[table]
        return columns.pop(self._random.randrange(len(columns)))


def write(database: Database, random: Random, writing: threading.Lock, stop: threading.Event) -> None:
    """Writes rows all the time; while a table is away, or another one, there is nothing to write to."""
    with closing(database.connect(sql_mode="")) as connection, connection.cursor() as cursor:
        while not stop.is_set():
            table, key = random.choice(TABLES), random.randint(1, 2 * ROWS)
            statement = random.choice(
                [
                    f"INSERT INTO {table} (id, n) VALUES ({key}, {key % 5})",
                    f"UPDATE {table} SET n = n + 1 WHERE id BETWEEN {key} AND {key + 5}",
                    f"DELETE FROM {table} WHERE id = {key}",
                    f"UPDATE {table} SET id = {key + 2 * ROWS} WHERE id = {key}",
                ]
            )
            try:
                with writing:
                    cursor.execute(statement)
            except pymysql.Error:
                stop.wait(0.005)
            stop.wait(0.005)


def sessions_of(database: Database, stack: ExitStack) -> Sessions:
    bound = bindings(*(f"{database.name}.{table}" for table in TABLES))
    config = {**database.config(), "backfill": {"chunk_rows": 10}}
    # One that is opened while neither table is there, for a moment, cannot know that they come back.
    passing = ["TM-MY-007", "TM-MY-009", "TM-MY-010"]
    return Sessions(stack, lambda state: session(config, bound, state, command=COMMAND), passing)


def captured_now(database: Database) -> list[Rows]:
    """The rows of both tables, by a capture that begins now."""
    bound = bindings(*(f"{database.name}.{table}" for table in TABLES))
    with session({**database.config(), "server_id": 4711}, bound, stop=True, command=COMMAND) as fresh:
        assert fresh.finish() == 0, fresh.last_words()
        return [without_nulls(fresh.rows(binding)) for binding in range(len(TABLES))]


def without_nulls(rows: Rows) -> Rows:
    """A column that an old document does not have counts as null: so reads whoever added it to a table later."""
    return {key: {name: value for name, value in row.items() if value is not None} for key, row in rows.items()}


@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
def test_tables_that_are_changed_at_random(binlog_database: Database, metadata: str) -> None:
    random = Random(f"{SEED} {metadata}")
    changes = Changes(binlog_database, random)
    for table in TABLES:
        changes.create(table)
    stop = threading.Event()
    writer = threading.Thread(target=write, args=(binlog_database, Random(SEED), changes.writing, stop))
    done: list[str] = []
    with global_setting(binlog_database, "binlog_row_metadata", f"'{metadata}'"), ExitStack() as stack:
        sessions = sessions_of(binlog_database, stack)
        writer.start()
        try:
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                away = random.random() < 0.15
                if away:
                    sessions.kill()
                for _ in range(random.choice((1, 1, 3))):
                    done.append(changes.step())
                if away:
                    sessions.open_again(killed=True)
                sessions.listen(random.choice((0.0, 0.1, 0.5)))
        finally:
            stop.set()
            writer.join()
        expected = captured_now(binlog_database)

        def found(capture: Session) -> list[Rows]:
            return [without_nulls(capture.rows(binding)) for binding in range(len(TABLES))]

        def equal(capture: Session) -> bool:
            return capture.done() and found(capture) == expected

        try:
            sessions.current.until(equal, 60)
        except AssertionError as different:
            keys = [
                {
                    key: (mine.get(key), theirs.get(key))
                    for key in mine.keys() | theirs.keys()
                    if mine.get(key) != theirs.get(key)
                }
                for mine, theirs in zip(found(sessions.current), expected, strict=True)
            ]
            raise AssertionError(f"seed {SEED}, after {done}: {str(keys)[:2000]}: {different}") from different
    assert len(done) > SECONDS / 3
