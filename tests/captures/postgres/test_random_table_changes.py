"""Tables that are changed in every way at random, while they are written to, read, and the connector is killed.

Five seconds by default, ``TIDEMARK_TEST_SECONDS`` when it is set; ``make soak`` takes ten minutes.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from contextlib import ExitStack
from itertools import islice
from random import Random
from time import monotonic
from typing import Any

import psycopg
import pytest

from tests.captures.column_identities import Document, LoggedColumns, identified
from tests.captures.postgres.table_changes import CHANGES, KEYED, KEYLESS, TABLES
from tests.captures.session import ConnectorEnded, Json, Session
from tests.captures.sessions import Sessions
from tests.captures.source_tables import prepare
from tests.conformance.postgres import PostgresEngine
from tests.conformance.test_random_alterations import SECONDS, sessions_of
from tidemark.captures.postgres.server.rewrite_trigger import SCRIPT
from tidemark.testing.servers.postgres import Database

ROWS = 120
SEED = int(os.environ.get("TIDEMARK_TEST_SEED", "1"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * SECONDS + 900)]


class Changes:
    """Does them, and knows which columns there are besides ``id`` and ``n``."""

    def __init__(self, database: Database, random: Random) -> None:
        self._database = database
        self._random = random
        self._columns: dict[str, list[str]] = {table: [] for table in TABLES}
        self._count = 0
        self.done: list[str] = []

    def create(self) -> None:
        self._run([statement for made in TABLES.values() for statement in made])
        fill = "INSERT INTO {} (id, n) SELECT i, 0 FROM generate_series(-{}, {}) i"
        self._run([fill.format(table, ROWS // 2, ROWS // 2) for table in TABLES])

    def step(self) -> None:
        """One change of one table."""
        table = self._random.choice(list(TABLES))
        columns = self._columns[table]
        fitting = [change for change in CHANGES if table in change.tables and (columns or "{old}" not in str(change))]
        (change,) = self._random.choices(fitting, [change.weight for change in fitting])
        self._count += 1
        names = {"t": table, "new": f"c{self._count}", "old": ""}
        if "{old}" in str(change.statements):
            names["old"] = self._random.choice(columns)
        self.done.append(f"{table}: {change.name} {names['old']} {names['new'] * change.adds}".strip())
        self._run([statement.format(**names) for statement in change.statements])
        if change.drops:
            columns.remove(names["old"])
        if change.adds:
            columns.append(names["new"])
        if change.name == "it is made again":
            columns.clear()

    def _run(self, statements: list[str]) -> None:
        with self._database.connect() as connection:
            for statement in statements:
                self._until_done(connection, statement)

    @staticmethod
    def _until_done(connection: psycopg.Connection[Any], statement: str) -> None:
        """Writers hold locks for a moment, in another order, and move rows; a table may be published already."""
        for _ in range(20):
            try:
                connection.execute(statement.encode())
            except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
                connection.execute("ROLLBACK")
                continue
            except psycopg.errors.UniqueViolation:
                connection.execute("ROLLBACK")  # A writer's row has the key that a row was to get.
            except psycopg.errors.DuplicateObject:
                assert "ADD TABLE" in statement
            return
        raise AssertionError(f"writers are in the way again and again: {statement}")


def write(database: Database, random: Random, stop: threading.Event) -> None:
    """Writes to the columns that stay; while a table is away there is nothing to write to."""
    with database.connect() as connection:
        while not stop.is_set():
            table, key = random.choice(list(TABLES)), random.randint(-ROWS, ROWS)
            statement = random.choice(
                [
                    f"INSERT INTO {table} (id, n) VALUES ({key}, -1)",
                    f"UPDATE {table} SET n = n + 1 WHERE id BETWEEN {key} AND {key + 10}",
                    f"DELETE FROM {table} WHERE id = {key}",
                    f"UPDATE {table} SET id = {key + 2 * ROWS} WHERE id = {key}",
                ]
            )
            try:
                connection.execute(statement.encode())
            except psycopg.Error:
                stop.wait(0.005)
            stop.wait(0.005)


def counted(database: Database) -> Counter[tuple[Any, ...]]:
    """How often the table without a key has each row."""
    with database.connect() as connection:
        return Counter(connection.execute(f"SELECT id, n FROM {KEYLESS}").fetchall())


class AddedUp:
    """The same by the events of a binding: what came counts one more, what went one less, since it was emptied last."""

    def __init__(self, binding: int) -> None:
        self._binding = binding
        self._added = 0
        self._found: Counter[str] = Counter()  # JSON of the values, by the columns' identities.
        self._log: LoggedColumns | None = None

    def rows(self, capture: Session) -> Counter[tuple[Any, ...]]:
        """Takes in what came since the last call."""
        for index, doc in islice(capture.documents, self._added, None):
            if index == self._binding:
                self._add(doc)
        self._added = len(capture.documents)
        rows: Counter[tuple[Any, ...]] = Counter()
        for text, count in self._found.items():
            row = json.loads(text) if self._log is None else self._log.shown(json.loads(text))
            # Some events are of a moment at which there was no ``n``: they come before the table is emptied for that.
            rows[row["id"], row.get("n")] += count
        return Counter({row: count for row, count in rows.items() if count})

    def _add(self, doc: Json) -> None:
        meta = doc["_meta"]
        self._log = doc.log if isinstance(doc, Document) else None
        if meta["op"] == "t":
            self._found.clear()
            return
        self._found[json.dumps(identified(doc), sort_keys=True)] += -1 if meta["op"] == "d" else 1
        if meta["op"] == "u":
            self._found[json.dumps(identified(doc, meta["before"]), sort_keys=True)] -= 1


def until_equal(sessions: Sessions, engine: PostgresEngine, database: Database) -> None:
    """Row by row, keyed tables by their keys."""
    added_up, wanted = AddedUp(list(TABLES).index(KEYLESS)), counted(database)
    for _ in range(5):
        try:
            for binding, table in enumerate(TABLES):
                if table in KEYED:
                    # A capture that was killed every few seconds for ten minutes has much of the log before it.
                    engine.until_equal(sessions.current, table, binding=binding, seconds=30 + SECONDS / 3)
            sessions.current.until(lambda capture: capture.done() and added_up.rows(capture) == wanted)
        except ConnectorEnded:
            sessions.open_again()
        else:
            return
    raise AssertionError(f"the connector ends again and again: {sessions.current.logs[-1]}")


@pytest.mark.drawn(1)
@pytest.mark.parametrize("trigger", ["", SCRIPT], ids=["inferred", "told"])
def test_tables_that_are_changed_in_every_way_at_random(database: Database, trigger: str) -> None:
    """With and without the event trigger that tells of rewrites."""
    random = Random(SEED)
    prepare(database, *filter(None, [trigger]))
    changes = Changes(database, random)
    changes.create()
    engine = PostgresEngine(database)
    stop = threading.Event()
    writer = threading.Thread(target=write, args=(database, Random(SEED), stop))
    with ExitStack() as stack:
        # A session that is opened while the publication lacks a kind of change, for a moment, can capture nothing.
        sessions = sessions_of(engine, stack, *TABLES, passing=["TM-PG-011"])
        writer.start()
        try:
            end = monotonic() + SECONDS
            while monotonic() < end:
                sessions.listen(random.choice([0.0, 0.05, 0.3]))
                changes.step()
                if random.random() < 0.1:
                    sessions.current.process.kill()
                    sessions.open_again(killed=True)
        finally:
            stop.set()
            writer.join()
        try:
            until_equal(sessions, engine, database)
        except AssertionError as different:
            raise AssertionError(f"seed {SEED}, after {changes.done}: {different}") from different
    assert len(changes.done) > SECONDS / 2
