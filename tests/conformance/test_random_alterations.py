"""A table that is altered at random while it is written to, backfilled, and captured by sessions that are killed.

Five seconds by default, ``TIDEMARK_TEST_SECONDS`` when it is set; ``make soak`` takes ten minutes.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from random import Random

import pytest

from tests.captures.session import ConnectorEnded, Json, Session
from tests.captures.sessions import Sessions
from tests.conformance.engine import Code, Engine

SECONDS = float(os.environ.get("TIDEMARK_TEST_SECONDS", "5"))

ROWS = 400

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS + 900)]


class Alterations:
    """Alters the table ``users (id, n, …)``; ``id`` and ``n`` stay, the names of the others are never used twice.

    A row that was read before a column was added, and never written since, does not have it: that reads as null. After
    a column got another name or type every row is written once more, as no consumer can know what it holds.
    """

    def __init__(self, engine: Engine, random: Random) -> None:
        self._engine = engine
        self._random = random
        self._count = 0
        self.columns: list[str] = []

    def create(self) -> None:
        self.columns = []
        self._engine.execute("CREATE TABLE users (id int PRIMARY KEY, n int)")
        # Negative, as the writer may have inserted others already.
        self._engine.insert("users", [(-n, 0) for n in range(1, ROWS + 1)])

    def step(self) -> str:
        """One random alteration; its name."""
        steps: list[tuple[float, Callable[[], None]]] = [
            (6, self.add),
            (2, self.truncate),
            (1, self.create_again),
            (2, self.rename_table),
        ]
        if self.columns:
            steps += [(3, self.drop), (3, self.rename), (3, self.retype), (3, self.add_and_drop)]
        (step,) = self._random.choices([step for _, step in steps], [weight for weight, _ in steps])
        step()
        return step.__name__

    def add(self) -> None:
        name = self._new_name()
        self.columns.append(name)
        self._engine.execute(
            f"ALTER TABLE users ADD COLUMN {name} int", f"UPDATE users SET {name} = id WHERE id % 2 = 0"
        )

    def drop(self) -> None:
        self._engine.execute(f"ALTER TABLE users DROP COLUMN {self._take()}")

    def rename(self) -> None:
        old, new = self._take(), self._new_name()
        self.columns.append(new)
        self._engine.execute(f"ALTER TABLE users RENAME COLUMN {old} TO {new}", "UPDATE users SET n = n + 1")

    def retype(self) -> None:
        name = self._random.choice(self.columns)
        retype = self._engine.statements["retype extra to text"].replace("extra", name)
        self._engine.execute(retype, "UPDATE users SET n = n + 1")

    def add_and_drop(self) -> None:
        """In one statement."""
        old, new = self._take(), self._new_name()
        self.columns.append(new)
        self._engine.execute(f"ALTER TABLE users DROP COLUMN {old}, ADD COLUMN {new} varchar(30)")
        self._engine.execute(f"UPDATE users SET {new} = 'value ' || id WHERE id % 3 = 0")

    def truncate(self) -> None:
        self._engine.execute("TRUNCATE TABLE users")

    def create_again(self) -> None:
        self._engine.execute("DROP TABLE users")
        self.create()
        self._engine.publish(self._engine.bindings("users"))
        self._engine.execute("UPDATE users SET n = 1")

    def rename_table(self) -> None:
        self._engine.execute(
            "ALTER TABLE users RENAME TO people",
            "UPDATE people SET n = n + 1 WHERE id % 20 = 0",
            "ALTER TABLE people RENAME TO users",
        )

    def _new_name(self) -> str:
        self._count += 1
        return f"c{self._count}"

    def _take(self) -> str:
        return self.columns.pop(self._random.randrange(len(self.columns)))


def sessions_of(engine: Engine, stack: ExitStack, *tables: str, passing: Sequence[str] = ()) -> Sessions:
    """Sessions with these tables. ``passing``: codes of further errors that pass."""
    bound = engine.bindings(*tables)

    def begin(state: Json | None) -> AbstractContextManager[Session]:
        return engine.capture(bound, state, backfill={"chunk_rows": 20})

    # One that is opened while a table has its other name, for a moment, cannot know that it comes back.
    return Sessions(stack, begin, [engine.code(Code.NO_TABLE), *passing])


def until_equal(sessions: Sessions, engine: Engine) -> None:
    for _ in range(5):
        try:
            engine.until_equal(sessions.current, "users")
        except ConnectorEnded:
            sessions.open_again()
        else:
            return
    raise AssertionError(f"the connector ends again and again: {sessions.current.logs[-1]}")


def write(engine: Engine, random: Random, stop: threading.Event) -> None:
    """Writes to the columns that stay; while the table is away, or another one, there is nothing to write to.

    A statement writes one row. One of several rows could come into a deadlock with an alteration's UPDATE of all.
    """
    with closing(engine.connect(autocommit=True)) as connection, closing(connection.cursor()) as cursor:
        while not stop.is_set():
            key = random.randint(-ROWS, ROWS)
            statement = random.choice(
                [
                    f"INSERT INTO users (id, n) VALUES ({abs(key)}, -1)",
                    f"UPDATE users SET n = n + 1 WHERE id = {key}",
                    f"DELETE FROM users WHERE id = {key}",
                    f"UPDATE users SET id = {key + 2 * ROWS} WHERE id = {key}",
                ]
            )
            try:
                cursor.execute(statement)
            except engine.errors:
                stop.wait(0.005)
            stop.wait(0.002)


@pytest.mark.drawn(1)
def test_a_table_that_is_altered_at_random(engine: Engine) -> None:
    seed = int(os.environ.get("TIDEMARK_TEST_SEED", "1"))
    random = Random(seed)
    alterations = Alterations(engine, random)
    alterations.create()
    stop = threading.Event()
    writer = threading.Thread(target=write, args=(engine, Random(seed), stop))
    done: list[str] = []
    with ExitStack() as stack:
        sessions = sessions_of(engine, stack, "users")
        writer.start()
        try:
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                sessions.listen(random.choice([0.0, 0.05, 0.3]))
                done.append(alterations.step())
                if random.random() < 0.1:
                    sessions.current.process.kill()
                    sessions.open_again(killed=True)
        finally:
            stop.set()
            writer.join()
        try:
            until_equal(sessions, engine)
        except AssertionError as different:
            raise AssertionError(f"seed {seed}, after {done}: {different}") from different
    assert len(done) > SECONDS / 2
