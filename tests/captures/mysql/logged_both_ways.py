"""The same changes of the binary log as columns, and as lines: what a change log has of both."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from tests.captures.committed_events import Events, alike, committed
from tests.captures.log_reader import BATCH
from tests.captures.mysql.captured_log import CapturedLog
from tidemark.captures.contract.wakeup import Wakeup
from tidemark.captures.rows import gathered_columns
from tidemark.protocol.batches import ARROW, HEAD
from tidemark.protocol.environment import BATCHES
from tidemark.testing.servers.mariadb import Database


class BothWays:
    """The log of some tables, which is read both ways from where it ends now.

    Args:
        folder: For change logs.
        fewest: Rows of a table that are worth a batch.
        options: Of ``CapturedLog``.

    Attributes:
        lines, batches: How many captured lines, and how many batches, came as columns were offered.
        breaks: How often the connection broke.
    """

    def __init__(
        self,
        database: Database,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        *tables: str,
        fewest: int = 1,
        **options: Any,
    ) -> None:
        self._folder = folder
        self.lines = self.batches = self.breaks = 0
        monkeypatch.setattr(gathered_columns, "FEWEST", fewest)
        monkeypatch.setattr(gathered_columns, "LINES", 0)
        self._readers = []
        own = crc32(database.name.encode()) >> 1  # The server knows each reader by another number.
        for server_id, offered in ((own, ""), (own + 1, ARROW)):
            monkeypatch.setenv(BATCHES, offered)
            self._readers.append(CapturedLog(database, *tables, server_id=server_id, **options))

    def compare(self, limit: int = BATCH, *, breaks: bool = False) -> list[Events]:
        """The events of each table, and those that are kept apart, once they are known to be the same both ways.

        Args:
            limit: Of each read.
            breaks: The connection of columns breaks after each read that brings rows and ends inside of a transaction.
        """
        of_lines, of_columns = self._readers
        found = self._committed(of_lines, "lines", limit, breaks=False)
        for one, other in zip(found, self._committed(of_columns, ARROW, limit, breaks=breaks), strict=True):
            alike(one, other)
        return found

    def _committed(self, reader: CapturedLog, name: str, limit: int, *, breaks: bool) -> list[Events]:
        output: list[bytes] = []
        wakeup = Wakeup()
        captured = reader.source.captured
        bindings = [captured[number] for number in range(len(reader.source.tables))]
        schemas = [(binding.announced or binding.document_schema, binding.key) for binding in bindings]
        end = reader.source.end_of_log()
        while not (reader.log.between_transactions and reader.log.position >= end):
            made = reader.log.read(limit, 1, wakeup.descriptor).lines
            output += made
            if breaks and made and not reader.log.between_transactions:
                self.breaks += 1
                reader.log.close()
                reader.reconnect(time.monotonic() + 60)
        wakeup.close()
        reader.close()
        self.batches = sum(piece.startswith(HEAD) for piece in output)
        self.lines = sum(piece.count(b'{"captured"') for piece in output)
        return committed(self._folder / name, output, schemas)
