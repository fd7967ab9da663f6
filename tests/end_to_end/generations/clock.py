"""A table whose rows follow from one of them, the clock: what anybody reads of it shows whether it is of one moment."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tidemark.protocol.changelog.shown import shown
from tidemark.spark_sink.live.state_partitions import plan_state, read_state
from tidemark.spark_sink.live.table_view import table_view
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.testing.deadline import let_pass
from tidemark.testing.servers.postgres import Database

TABLE = "public.items"
ROWS = 60
EXTRA = ROWS
"""A row that comes and goes."""

Rows = dict[int, int]


def rows_at(clock: int) -> Rows:
    """The rows after so many transactions."""
    rows = dict.fromkeys(range(ROWS), 0)
    for number in range(max(1, clock - ROWS), clock + 1):
        rows[1 + number % (ROWS - 1)] = number
    return {**rows, 0: clock, **({EXTRA: clock} if clock % 2 else {})}


def create_table(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("CREATE TABLE items (id int PRIMARY KEY, v bigint NOT NULL)")
        connection.execute("INSERT INTO items SELECT i, 0 FROM generate_series(0, %s) i", [ROWS - 1])


class Beside(ABC, threading.Thread):
    """A context beside which a thread works. What goes wrong in the thread is raised at the context's end."""

    def __init__(self) -> None:
        super().__init__(name=type(self).__name__)
        self._stopping = threading.Event()
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self.join()
        if self._error is not None and error is None:
            raise self._error

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001  the context raises it
            self._error = error

    @abstractmethod
    def _work(self) -> None:
        """Works until ``_stopping`` is set."""


class Writer(Beside):
    """A context in which transactions follow each other."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self.clock = 0

    def _work(self) -> None:
        with closing(self._database.connect()) as connection:
            while not self._stopping.is_set():
                number = self.clock + 1
                with connection.transaction():
                    update = "UPDATE items SET v = %s WHERE id = %s"
                    connection.execute(update, [number, 0])
                    connection.execute(update, [number, 1 + number % (ROWS - 1)])
                    if number % 2:
                        connection.execute("INSERT INTO items VALUES (%s, %s)", [EXTRA, number])
                    else:
                        connection.execute("DELETE FROM items WHERE id = %s", [EXTRA])
                self.clock = number
                let_pass(0.03)

    def alter(self, type_: str) -> None:
        """The column gets another type, between two transactions."""
        with closing(self._database.connect()) as connection:
            connection.execute(f"ALTER TABLE items ALTER v TYPE {type_}")


class Reader(Beside):
    """A context in which the live view is read after each commit of the log.

    Attributes:
        seen: The clock's last value in each generation that was shown.
        wrong: What was read that was of no moment, or of an earlier one than before.
    """

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._log = FollowedLog(root)
        self.seen: dict[int, int] = {}
        self.wrong: list[str] = []

    def _work(self) -> None:
        last = -1
        while not self._stopping.is_set():
            end = self._log.end()
            if end == last:
                self._stopping.wait(0.02)
                continue
            self._read(end)
            last = end

    def _read(self, end: int) -> None:
        found = shown(self._log.summary_at(end), TABLE.replace(".", "/"))
        assert found is not None
        number = found.newest.number
        rows = view(self._log, end)
        clock = rows.get(0, -1)
        if rows != rows_at(clock) or clock < max(self.seen.values(), default=0):
            self.wrong.append(f"generation {number} at offset {end} with clock {clock}, after {self.seen}")
        self.seen[number] = clock


def view(log: FollowedLog, end: int) -> Rows:
    """The rows of the live view as of an offset."""
    batches: Any = (
        batch
        for partition in plan_state(table_view(log, TABLE, end, None), ["id", "v"])
        for batch in read_state(partition)
    )
    return {row["id"]: int(row["v"]) for batch in batches for row in batch.to_pylist()}
