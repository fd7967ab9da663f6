"""What is written of tables besides their rows: schemas, begins and ends of backfills, and that tables are emptied."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from captures.contract.source import Source
from captures.engine.checkpoints import Checkpoints
from captures.engine.state import CaptureState
from captures.scheduling.backfills import Backfills
from captures.scheduling.table_backfill import TableBackfill
from protocol.codec import encode
from protocol.messages import BackfillBegin, BackfillComplete, Message, SourcedSchema

logger = logging.getLogger(__name__)


class Announcements:
    """Writes it, between transactions, for the next checkpoint to cover."""

    def __init__(self, source: Source, backfills: Backfills, checkpoints: Checkpoints) -> None:
        self._source = source
        self._backfills = backfills
        self._checkpoints = checkpoints

    def session(self, state: CaptureState) -> None:
        """A session begins after ``state``: what all captured tables are, and of new ones that they are backfilled."""
        self.schemas(backfill.table.binding for backfill in self._backfills.tables if not backfill.left_out)
        for backfill in self._backfills.tables:
            new = state.binding(backfill.table.state_key) is None and not backfill.anew
            if new and not backfill.done and not backfill.left_out:
                self.begin(backfill)

    def schemas(self, bindings: Iterable[int]) -> None:
        """The schemas of tables as they are now."""
        for binding in bindings:
            schema = self._backfills.latest[binding].document_schema
            self._write(SourcedSchema(binding=binding, document_schema=schema))

    def begin(self, backfill: TableBackfill) -> None:
        """Where that is wanted: what came of the table before, to whatever end, counts no more downstream."""
        if self._source.options.announced:
            self._write(BackfillBegin(binding=backfill.table.binding))
            backfill.begun = True

    def ends(self) -> None:
        """Of backfills whose begin was announced, and that are done."""
        for backfill in self._backfills.tables:
            if backfill.begun and backfill.done:
                self._write(BackfillComplete(binding=backfill.table.binding))
                backfill.begun = False

    def emptied(self, binding: int, position: int) -> None:
        """The table is emptied downstream, at ``position``, and its backfill begins."""
        self.begin(self._backfills.tables[binding])
        line = self._source.truncation(binding, position)
        if not line and not self._source.options.announced:
            logger.warning(
                "%s is read again without being emptied, since `truncate` is ignore: rows that it no longer has "
                "stay downstream",
                self._backfills.latest[binding].name,
            )
        self._checkpoints.write_piece(line)

    def _write(self, message: Message) -> None:
        self._checkpoints.write_piece(encode(message))
