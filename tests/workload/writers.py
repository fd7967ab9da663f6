"""Writer threads that change the tables at random: inserts, updates, deletes, key changes, TRUNCATE, rollbacks."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from random import Random
from types import TracebackType
from typing import Any, Self

from tests.workload.source import BIG, Source
from tests.workload.tables import Database, source_of

Execute = Callable[..., Any]
"""Executes a statement, or the one of that name in ``Source.sql``, with values."""

Operation = Callable[[Execute, Random, int], None]


class Workload:
    """Random writes by several threads, until stopped or until each has done its share.

    A thread's decisions follow from the seed and its number alone; how the threads interleave does not.

    Args:
        database: The database to write to; it holds the tables of ``tests.workload.source``.
        writers: Number of threads, each with its own connection.
        seed: Of the random decisions.
        keys: Keys are drawn from 1 to this; about half of them exist at any time.
        transactions: After how many a thread ends by itself; None means only ``stop`` ends it.
        rate: Transactions per second and thread at most; None means as fast as they go.
        truncate: Whether a thread empties a table once in about 500 operations.
    """

    def __init__(
        self,
        database: Database,
        *,
        writers: int = 3,
        seed: int = 0,
        keys: int = 2000,
        transactions: int | None = None,
        rate: float | None = None,
        truncate: bool = False,
    ) -> None:
        self._source: Source = source_of(database)
        self._writers = writers
        self._seed = seed
        self._keys = keys
        self._transactions = transactions
        self._pause = 1 / rate if rate else 0.0
        self._operations = [(weight, run) for weight, run in _OPERATIONS if run is not _truncate or truncate]
        self._stopping = threading.Event()
        self._threads = ThreadPoolExecutor(writers, thread_name_prefix="writer")
        self._results: list[Future[Counter[str]]] = []
        self._asked = False

    def __enter__(self) -> Self:
        self._results = [self._threads.submit(self._write, number) for number in range(self._writers)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._threads.shutdown()
        if error is None and not self._asked:
            self.finish()

    def stop(self) -> Counter[str]:
        """Ends the writers after the transaction each is in, and counts what they did (see ``finish``)."""
        self._stopping.set()
        return self.finish()

    def finish(self) -> Counter[str]:
        """Waits for the writers to end by themselves; raises what a writer died of.

        Returns:
            How many transactions were ``committed``, ``rolled back`` on purpose, and ``retried`` after a conflict.
        """
        self._asked = True
        return sum((result.result() for result in self._results), Counter[str]())

    @property
    def failed(self) -> bool:
        """Whether a writer died; ``stop`` raises what it died of."""
        return any(result.done() and result.exception() is not None for result in self._results)

    def _write(self, number: int) -> Counter[str]:
        random = Random(f"{self._seed}/{number}")
        done: Counter[str] = Counter()
        with closing(self._source.connect()) as connection, closing(connection.cursor()) as cursor:

            def execute(statement: str, values: list[Any] | None = None) -> None:
                cursor.execute(self._source.sql.get(statement, statement), values)

            while not self._stopping.is_set() and sum(done.values()) != self._transactions:
                try:
                    self._transaction(execute, random)
                    if random.random() < 0.1:
                        connection.rollback()
                        done["rolled back"] += 1
                    else:
                        connection.commit()
                        done["committed"] += 1
                except self._source.errors as error:
                    if not self._source.is_conflict(error):
                        raise
                    connection.rollback()
                    done["retried"] += 1
                self._stopping.wait(self._pause)
        return done

    def _transaction(self, execute: Execute, random: Random) -> None:
        for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
            weights = [weight for weight, _ in self._operations]
            (operation,) = random.choices([run for _, run in self._operations], weights)
            # MariaDB's TRUNCATE commits, and leaves no savepoint to go back to.
            if operation is not _truncate and random.random() < 0.15:
                execute("SAVEPOINT here")
                operation(execute, random, self._keys)
                if random.random() < 0.5:
                    execute("ROLLBACK TO SAVEPOINT here")
            else:
                operation(execute, random, self._keys)


def _insert(execute: Execute, random: Random, keys: int) -> None:
    key = random.randint(1, keys)
    match random.randrange(3):
        case 0:
            execute(
                "insert account",
                [key, f"new {key}", key / 4, None, f'{{"v": {key}.50}}', _big(random)],
            )
        case 1:
            execute(
                "insert entry",
                [key // 4, key % 4, key * 1000, "new"],
            )
        case _:
            execute(
                "insert label",
                [f"label {key}", random.random(), random.randbytes(9), f'["{_big(random) or ""}"]'],
            )


def _update(execute: Execute, random: Random, keys: int) -> None:
    """Leaves the big columns as they are: the log does not carry them."""
    key = random.randint(1, keys)
    match random.randrange(3):
        case 0:
            execute("UPDATE accounts SET balance = balance + 1, active = NOT active WHERE id = %s", [key])
        case 1:
            execute(
                "UPDATE entries SET amount = amount * 1.1, note = NULL WHERE account = %s AND line = %s",
                [key // 4, key % 4],
            )
        case _:
            execute(
                "tag label",
                [random.random(), "more" if random.random() < 0.5 else None, f"label {key}"],
            )


def _update_big(execute: Execute, random: Random, keys: int) -> None:
    key = random.randint(1, keys)
    execute("UPDATE accounts SET big = %s WHERE id = %s", [_big(random), key])


def _update_many(execute: Execute, random: Random, keys: int) -> None:
    key = random.randint(1, keys)
    execute("UPDATE accounts SET name = concat(name, '.') WHERE id BETWEEN %s AND %s", [key, key + 20])


def _delete(execute: Execute, random: Random, keys: int) -> None:
    key = random.randint(1, keys)
    match random.randrange(3):
        case 0:
            execute("DELETE FROM accounts WHERE id = %s", [key])
        case 1:
            execute("DELETE FROM entries WHERE account = %s AND line = %s", [key // 4, key % 4])
        case _:
            execute("DELETE FROM labels WHERE code = %s", [f"label {key}"])


def _change_key(execute: Execute, random: Random, keys: int) -> None:
    old, new = random.randint(1, keys), random.randint(1, keys)
    match random.randrange(3):
        case 0:
            execute("move account", [new, old, new])
        case 1:
            execute("move entry", [new // 4, old // 4, new // 4])
        case _:
            execute("move label", [f"label {new}", f"label {old}", f"label {new}"])


def _truncate(execute: Execute, random: Random, keys: int) -> None:
    execute("TRUNCATE TABLE labels")


def _big(random: Random) -> str | None:
    return random.randbytes(BIG // 2).hex() if random.random() < 0.5 else None


_OPERATIONS: list[tuple[float, Operation]] = [
    (35, _insert),
    (30, _update),
    (8, _update_big),
    (2, _update_many),
    (15, _delete),
    (10, _change_key),
    (0.2, _truncate),
]
"""Operations with their weights."""
