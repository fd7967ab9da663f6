"""Reading a log stream by hand, as the engine does, and what came of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from captures.contract.log import LogBatch, Transaction
from captures.postgres.config import parse_endpoint, parse_resource
from captures.postgres.database import PostgresDatabase
from captures.postgres.log.stream import PgoutputLog
from captures.postgres.source import PostgresSource
from protocol.codec import split_captured
from protocol.error_codes import Policy
from protocol.errors import SourceError
from protocol.messages import Binding, CaptureSpec
from tests.captures.session import begin
from tests.captures.source_tables import end_of_log
from tests.servers.postgres import Database

Json = dict[str, Any]

BATCH = 64 * 1024


def binding(table: str, **resource: Any) -> Binding:
    """A binding of ``public.table``."""
    return Binding(
        resource_config={"schema": "public", "table": table, **resource},
        resource_path=["public", table],
        state_key=f"public%2F{table}",
    )


@contextmanager
def capturing(database: Database, *tables: str, **config: Any) -> Iterator[LogReader]:
    """Applies a capture of these tables, opens it, and reads its log from the slot's position on."""
    bound = [binding(table) for table in tables]
    settings = {**database.config(), "slot": database.name[-60:], **config}
    begin(PostgresDatabase(), CaptureSpec(config=settings, bindings=bound))
    resources = [parse_resource(one.resource_config) for one in bound]
    with closing(PostgresSource(parse_endpoint(settings), bound, resources)) as source:
        source.identity()
        with closing(source.open_log(source.start_position(None, None))) as log:
            yield LogReader(database, source, log)


class LogReader:
    """A log stream, and everything that it has returned.

    Attributes:
        documents: In order, those of every binding.
        schemas: How often a schema was announced.
        transactions: Those that ended.
        changed: The bindings whose columns changed.
        restarted: The bindings that must be read anew.
        set_aside: Why bindings cannot be captured any more.
        passed: The bindings of which changes were passed over.
        acknowledging: Everything that is read counts as durable at once.
        failures: Codes of the errors after which the log was connected anew.
    """

    def __init__(self, database: Database, source: PostgresSource, log: PgoutputLog) -> None:
        self._database = database
        self.source = source
        self.log = log
        self.documents: list[Json] = []
        self.schemas: list[Json] = []
        self.transactions: list[Transaction] = []
        self.changed: set[int] = set()
        self.restarted: set[int] = set()
        self.set_aside: dict[int, SourceError] = {}
        self.passed: set[int] = set()
        self.failures: list[str] = []
        self.acknowledging = False

    def read(self) -> LogBatch:
        """Reads once."""
        wakeup, unused = os.pipe()
        try:
            batch = self.log.read(BATCH, 0.05, wakeup)
        finally:
            os.close(wakeup)
            os.close(unused)
        for line in b"".join(batch.lines).splitlines():
            cut = split_captured(line)
            if cut is None:
                self.schemas.append(json.loads(line)["sourcedSchema"]["documentSchema"])
            else:
                self.documents.append(json.loads(cut[1]))
        if self.acknowledging and self.log.between_transactions:
            self.log.acknowledge(self.log.position)
        self.transactions += batch.transactions
        self.changed |= batch.changed
        self.restarted |= batch.restarted
        self.set_aside |= batch.set_aside
        self.passed |= batch.passed
        return batch

    def until(self, condition: Callable[[], Any], seconds: float = 30) -> None:
        """Reads until ``condition`` holds, connecting anew whenever the connection breaks."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"{len(self.documents)} documents after {seconds} s"
            try:
                self.read()
            except SourceError as error:
                if error.entry.policy is not Policy.RETRY:
                    raise
                self.failures.append(error.code)
                self.reconnect(deadline)

    def reconnect(self, deadline: float) -> None:
        """Connects anew, as often as it takes."""
        while True:
            try:
                self.source.reconnect()
                self.log.reconnect()
                return
            except SourceError as error:
                assert error.entry.policy is Policy.RETRY, error
                assert time.monotonic() < deadline, error

    def read_to(self, position: int) -> None:
        """Reads everything up to a position of the server."""
        self.until(lambda: self.log.between_transactions and self.log.position >= position)

    def all_there_is(self) -> None:
        """Reads everything that the server has now."""
        self.read_to(end_of_log(self._database))

    def ids(self) -> list[tuple[str, Any]]:
        """Operation and id of every document."""
        return [(document["_meta"]["op"], document.get("id")) for document in self.documents]
