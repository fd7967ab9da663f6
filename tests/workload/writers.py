"""Writer threads that change the tables at random: inserts, updates, deletes, key changes, TRUNCATE, rollbacks."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random
from types import TracebackType
from typing import Self

import psycopg

from tests.servers.postgres import Connection, Postgres
from tests.workload.tables import BIG

Operation = Callable[[Connection, Random, int], None]

RETRIED = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.UniqueViolation,
    psycopg.errors.SerializationFailure,
)
"""What concurrent writers run into; the transaction is rolled back and the next one comes."""


class Workload:
    """Random writes by several threads, until stopped or until each has done its share.

    A thread's decisions follow from the seed and its number alone; how the threads interleave does not.

    Args:
        postgres: The database to write to; it holds the tables of ``tests.workload.tables``.
        writers: Number of threads, each with its own connection.
        seed: Of the random decisions.
        keys: Keys are drawn from 1 to this; about half of them exist at any time.
        transactions: After how many a thread ends by itself; None means only ``stop`` ends it.
        rate: Transactions per second and thread at most; None means as fast as they go.
        truncate: Whether a thread empties a table once in about 500 operations.
    """

    def __init__(
        self,
        postgres: Postgres,
        *,
        writers: int = 3,
        seed: int = 0,
        keys: int = 2000,
        transactions: int | None = None,
        rate: float | None = None,
        truncate: bool = False,
    ) -> None:
        self._postgres = postgres
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
        with self._postgres.connect(autocommit=False) as connection:
            while not self._stopping.is_set() and sum(done.values()) != self._transactions:
                try:
                    done[self._transaction(connection, random)] += 1
                except RETRIED:
                    connection.rollback()
                    done["retried"] += 1
                self._stopping.wait(self._pause)
        return done

    def _transaction(self, connection: Connection, random: Random) -> str:
        for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
            operation = random.choices([run for _, run in self._operations], [weight for weight, _ in self._operations])
            if random.random() < 0.15:
                with connection.transaction() as savepoint:
                    operation[0](connection, random, self._keys)
                    if random.random() < 0.5:
                        raise psycopg.Rollback(savepoint)
            else:
                operation[0](connection, random, self._keys)
        if random.random() < 0.1:
            connection.rollback()
            return "rolled back"
        connection.commit()
        return "committed"


def _insert(connection: Connection, random: Random, keys: int) -> None:
    key = random.randint(1, keys)
    match random.randrange(3):
        case 0:
            connection.execute(
                "INSERT INTO accounts VALUES (%s, %s, %s, %s, %s, now(), %s) ON CONFLICT DO NOTHING",
                [key, f"new {key}", key / 4, None, f'{{"v": {key}.50}}', _big(random)],
            )
        case 1:
            connection.execute(
                "INSERT INTO entries VALUES (%s, %s, %s, %s, localtimestamp, current_date) ON CONFLICT DO NOTHING",
                [key // 4, key % 4, key * 1000, "new"],
            )
        case _:
            connection.execute(
                "INSERT INTO labels VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                [f"label {key}", random.random(), random.randbytes(9), ["a", None, 'b"c'], f'["{_big(random) or ""}"]'],
            )


def _update(connection: Connection, random: Random, keys: int) -> None:
    """Leaves the big columns as they are: the log does not carry them."""
    key = random.randint(1, keys)
    match random.randrange(3):
        case 0:
            connection.execute("UPDATE accounts SET balance = balance + 1, active = NOT active WHERE id = %s", [key])
        case 1:
            connection.execute(
                "UPDATE entries SET amount = amount * 1.1, note = NULL WHERE account = %s AND line = %s",
                [key // 4, key % 4],
            )
        case _:
            connection.execute(
                "UPDATE labels SET value = %s, tags = tags || %s::text WHERE code = %s",
                [random.random(), "more" if random.random() < 0.5 else None, f"label {key}"],
            )


def _update_big(connection: Connection, random: Random, keys: int) -> None:
    key = random.randint(1, keys)
    connection.execute("UPDATE accounts SET big = %s WHERE id = %s", [_big(random), key])


def _update_many(connection: Connection, random: Random, keys: int) -> None:
    key = random.randint(1, keys)
    connection.execute("UPDATE accounts SET name = name || '.' WHERE id BETWEEN %s AND %s", [key, key + 20])


def _delete(connection: Connection, random: Random, keys: int) -> None:
    key = random.randint(1, keys)
    match random.randrange(3):
        case 0:
            connection.execute("DELETE FROM accounts WHERE id = %s", [key])
        case 1:
            connection.execute("DELETE FROM entries WHERE account = %s AND line = %s", [key // 4, key % 4])
        case _:
            connection.execute("DELETE FROM labels WHERE code = %s", [f"label {key}"])


def _change_key(connection: Connection, random: Random, keys: int) -> None:
    old, new = random.randint(1, keys), random.randint(1, keys)
    match random.randrange(3):
        case 0:
            connection.execute(
                "UPDATE accounts SET id = %(new)s WHERE id = %(old)s "
                "AND NOT EXISTS (SELECT FROM accounts WHERE id = %(new)s)",
                {"old": old, "new": new},
            )
        case 1:
            connection.execute(
                "UPDATE entries SET account = %(new)s WHERE account = %(old)s AND line = 1 "
                "AND NOT EXISTS (SELECT FROM entries WHERE account = %(new)s AND line = 1)",
                {"old": old // 4, "new": new // 4},
            )
        case _:
            connection.execute(
                "UPDATE labels SET code = %(new)s WHERE code = %(old)s "
                "AND NOT EXISTS (SELECT FROM labels WHERE code = %(new)s)",
                {"old": f"label {old}", "new": f"label {new}"},
            )


def _truncate(connection: Connection, random: Random, keys: int) -> None:
    connection.execute("TRUNCATE labels")


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
