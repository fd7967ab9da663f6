"""Reads the log of some tables, through the source that a connector opens."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson

from captures.contract.log import LogBatch, Transaction
from captures.mysql.config import parse_endpoint, parse_resource
from captures.mysql.log.stream import BinlogLog
from captures.mysql.source import MysqlSource
from protocol.errors import SourceError
from protocol.messages import Binding
from tests.servers.deadline import wait_until
from tests.servers.mariadb import Database

Document = dict[str, Any]


class CapturedLog:
    """A source with an open log, and what was read of it so far.

    Attributes:
        lines: Captured lines, as they came.
        schemas: Bindings whose schema was announced, in order.
        transactions: Those that changed captured tables.
        restarted, to_read_again, changed, set_aside, away, passed: As ``LogBatch`` has them, over everything read.
        read_sizes: Bytes of output of each read.
    """

    def __init__(
        self,
        database: Database,
        *tables: str,
        cursor: str | None = None,
        identity: dict[str, Any] | None = None,
        exclude: Sequence[str] = (),
        hash: Sequence[str] = (),
        on_bad_value: str | dict[str, str] = "stop",
        key: Sequence[str] | None = None,
        scan: str | None = None,
        **config: Any,
    ) -> None:
        self.database = database
        options: dict[str, Any] = {"exclude": list(exclude), "hash": list(hash), "on_bad_value": on_bad_value}
        if key is not None:
            options["key"] = list(key)
        if scan is not None:
            options["scan"] = scan
        resources = [{"schema": database.name, "table": table, **options} for table in tables]
        bindings = [
            Binding.model_validate(
                {
                    "collection": {"name": f"acme/{table}", "key": ["/id"]},
                    "resourceConfig": resource,
                    "resourcePath": [database.name, table],
                    "stateKey": table,
                }
            )
            for table, resource in zip(tables, resources, strict=True)
        ]
        self.source = MysqlSource(
            parse_endpoint({**database.config(), **config}), bindings, [parse_resource(r) for r in resources]
        )
        start = self.source.start_position(cursor, identity or self.source.identity())
        self.log: BinlogLog = self.source.open_log(start)
        self._wakeup, self._waker = os.pipe()
        self.lines: list[bytes] = []
        self.schemas: list[int] = []
        self.transactions: list[Transaction] = []
        self.restarted: set[int] = set()
        self.to_read_again: set[int] = set()
        self.changed: set[int] = set()
        self.away: dict[int, SourceError] = {}
        self.set_aside: dict[int, SourceError] = {}
        self.passed: set[int] = set()
        self.read_sizes: list[int] = []

    def read_once(self, limit: int = 1 << 20) -> LogBatch:
        batch = self.log.read(limit, 0.05, self._wakeup)
        for line in b"".join(batch.lines).splitlines():
            message = orjson.loads(line)
            if "sourcedSchema" in message:
                self.schemas.append(message["sourcedSchema"].get("binding", 0))
            else:
                self.lines.append(line)
        self.transactions += batch.transactions
        self.restarted |= batch.restarted
        self.to_read_again |= batch.read_again
        self.changed |= batch.changed
        self.away |= batch.away
        self.set_aside |= batch.set_aside
        self.passed |= batch.passed
        self.read_sizes.append(batch.size)
        return batch

    def read(self, limit: int = 1 << 20) -> list[Document]:
        """Everything up to where the server's log ends now: the documents of these reads."""
        before = len(self.lines)
        end = self.source.end_of_log()

        def there() -> bool:
            self.read_once(limit)
            return self.log.between_transactions and self.log.position >= end

        wait_until(there, 60, "the log is read to its end", every=0)
        return self.documents(before)

    def documents(self, since: int = 0) -> list[Document]:
        return [orjson.loads(line)["captured"]["doc"] for line in self.lines[since:]]

    def close(self) -> None:
        self.log.close()
        self.source.close()
        os.close(self._wakeup)
        os.close(self._waker)


@contextmanager
def captured_log(database: Database, *tables: str, **options: Any) -> Iterator[CapturedLog]:
    log = CapturedLog(database, *tables, **options)
    try:
        yield log
    finally:
        log.close()


def plain(documents: Sequence[Document]) -> list[tuple[str, Document]]:
    """``op`` and columns of each document."""
    return [
        (document["_meta"]["op"], {name: value for name, value in document.items() if name != "_meta"})
        for document in documents
    ]
