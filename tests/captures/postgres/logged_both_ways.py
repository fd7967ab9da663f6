"""The same changes of the log as columns, and as lines: what a change log has of both."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.captures.committed_events import Events, alike, committed
from tests.captures.log_reader import BATCH
from tests.captures.postgres.log_reading import capturing
from tests.captures.source_tables import end_of_log
from tidemark.captures.contract.wakeup import Wakeup
from tidemark.captures.rows import gathered_columns
from tidemark.protocol.batches import ARROW, HEAD
from tidemark.protocol.environment import BATCHES
from tidemark.testing.servers.postgres import Database


class BothWays:
    """Slots of a database from which changes are read both ways, each a moment before the first change.

    Args:
        folder: For change logs.
        fewest: Rows of a table that are worth a batch.
        options: Of the capture; ``resource`` of every table.

    Attributes:
        lines, batches: How many captured lines, and how many batches, came the last time that columns were offered.
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
        self._database, self._folder, self._monkeypatch = database, folder, monkeypatch
        self._tables, self._options = tables, options
        self.lines = self.batches = self.breaks = 0
        monkeypatch.setattr(gathered_columns, "FEWEST", fewest)
        monkeypatch.setattr(gathered_columns, "LINES", 0)
        for offered in ("", ARROW):
            with self._capturing(offered):
                pass
        end_of_log(database)  # After it both streams stand at one place.

    def _capturing(self, offered: str) -> Any:
        self._monkeypatch.setenv(BATCHES, offered)
        slot = f"{self._database.name[-50:]}_{offered or 'lines'}"
        return capturing(self._database, *self._tables, **{**self._options, "slot": slot})

    def compare(self, limit: int = BATCH, *, breaks: bool = False) -> list[Events]:
        """The events of each table, once they are known to be the same both ways.

        Args:
            limit: Of each read.
            breaks: The connection of columns breaks after each read that brings rows and ends inside of a transaction.
        """
        end = end_of_log(self._database)
        of_lines = self._committed("", end, limit)
        of_columns = self._committed(ARROW, end, limit, breaks=breaks)
        _number_transactions(of_lines)
        _number_transactions(of_columns)
        for one, other in zip(of_lines, of_columns, strict=True):
            alike(one, other)
        return of_lines

    def _committed(self, offered: str, end: int, limit: int, *, breaks: bool = False) -> list[Events]:
        output: list[bytes] = []
        wakeup = Wakeup()
        with self._capturing(offered) as reader:
            bindings = reader.source.followed.bindings
            schemas = [(binding.document_schema, binding.key) for binding in bindings]
            while not (reader.log.between_transactions and reader.log.position >= end):
                made = reader.log.read(limit, 1, wakeup.descriptor).lines
                output += made
                if breaks and made and not reader.log.between_transactions:
                    self.breaks += 1
                    reader.log.close()
                    reader.reconnect(time.monotonic() + 60)
        wakeup.close()
        if offered:
            self.batches = sum(piece.startswith(HEAD) for piece in output)
            self.lines = sum(piece.startswith(b'{"captured"') for piece in output)
        return committed(self._folder / (offered or "lines"), output, schemas)


def _number_transactions(tables: Sequence[Events]) -> None:
    """Puts numbers in the place of the first part of ``loc``: where a stream stood before a transaction.

    It grows from each to the next. How far depends on when the server tells where its log ends.
    """
    placed = [event for events in tables for event in events if event["_loc"] is not None]
    stood = {event["_offset"]: orjson.loads(event["_loc"]) for event in placed}
    numbers = {first: number for number, first in enumerate(sorted({loc[0] for loc in stood.values()}))}
    for event in placed:
        _, *rest = stood[event["_offset"]]
        event["_loc"] = [numbers[stood[event["_offset"]][0]], *rest]
