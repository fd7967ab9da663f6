"""The messages about tables besides their rows: schemas, the begin and end of backfills, and TRUNCATE."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from tidemark.captures.contract.source import Source
from tidemark.captures.engine.checkpoints import Checkpoints
from tidemark.captures.scheduling.backfills import Backfills
from tidemark.captures.scheduling.state import CaptureState
from tidemark.captures.scheduling.table_backfill import TableBackfill
from tidemark.protocol.codec import encode
from tidemark.protocol.messages import BackfillBegin, BackfillComplete, Message, SourcedSchema

logger = logging.getLogger(__name__)


class Announcements:
    """Writes these messages between transactions; the next checkpoint covers them."""

    def __init__(self, source: Source, backfills: Backfills, checkpoints: Checkpoints) -> None:
        self._source = source
        self._backfills = backfills
        self._checkpoints = checkpoints

    def session(self, state: CaptureState) -> None:
        """At the start of a session: the schemas of all captured tables, and the begin of new tables' backfills."""
        self.schemas(backfill.table.binding for backfill in self._backfills.tables if not backfill.left_out)
        for backfill in self._backfills.tables:
            new = state.binding(backfill.table.state_key) is None and not backfill.from_scratch
            if new and not backfill.done and not backfill.left_out:
                self.begin(backfill)

    def schemas(self, bindings: Iterable[int]) -> None:
        """Announces the current schemas of tables."""
        for binding in bindings:
            schema = self._backfills.latest[binding].document_schema
            self._write(SourcedSchema(binding=binding, document_schema=schema))

    def begin(self, backfill: TableBackfill) -> None:
        """Announces the begin of a backfill, if configured: downstream discards the table's earlier documents."""
        if self._source.options.announced:
            reread = backfill.reread if self._source.options.identifies_columns else None
            why = None if reread is None or reread.ended else reread.why
            self._write(BackfillBegin(binding=backfill.table.binding, why=why))
            backfill.begun = True

    def ends(self) -> None:
        """Announces the end of backfills that are done, if their begin was announced."""
        for backfill in self._backfills.tables:
            if backfill.begun and backfill.done:
                self._write(BackfillComplete(binding=backfill.table.binding))
                backfill.begun = False

    def emptied(self, binding: int, position: int) -> None:
        """Empties a table downstream, at ``position`` of the log, and announces the begin of its backfill."""
        if self._source.options.announced:
            self.begin(self._backfills.tables[binding])
            return
        line = self._source.truncation(binding, position)
        if not line:
            logger.warning(
                "%s is read again without being emptied, since `truncate` is ignore: rows that it no longer has "
                "stay downstream",
                self._backfills.latest[binding].name,
            )
        self._checkpoints.write_piece(line)

    def _write(self, message: Message) -> None:
        self._checkpoints.write_piece(encode(message))
