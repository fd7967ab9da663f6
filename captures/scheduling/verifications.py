"""When verifications of tables begin and end: see ``tidemark.captures.scheduling.verification``."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidemark.backfill.hidden import HiddenSet
from tidemark.backfill.range_scan import Emission
from tidemark.captures.contract.chunk import Chunk
from tidemark.captures.contract.chunk_rows import ChunkHead
from tidemark.captures.scheduling.table_backfill import TableBackfill
from tidemark.captures.scheduling.table_states import Captured
from tidemark.captures.scheduling.verification import Verification
from tidemark.protocol.codec import encode
from tidemark.protocol.messages import VerifyBegin, VerifyEnd

INTERRUPTED = "the table was read again, or set aside, meanwhile"


class Verifications:
    """Those of all tables.

    Args:
        tables: All tables of the capture.
        hidden: What snapshots may not show yet.
    """

    def __init__(self, tables: Iterable[TableBackfill], hidden: Callable[[], HiddenSet]) -> None:
        self._hidden = hidden
        self._tables = {each.table.binding: each for each in tables if each.verification is not None}

    def ask(self, backfill: TableBackfill, run: int, share: float) -> None:
        """A command asks for a table's. One that is under way is replaced."""
        backfill.ranges.end_comparison()
        backfill.verification = Verification(run, share)
        self._tables[backfill.table.binding] = backfill

    def attend(self, write: Callable[[bytes], None]) -> bool:
        """Begins those that were asked for, and ends those that are over, between two transactions.

        Nothing begins before everything that was written is visible.

        Returns:
            Whether a message was written.
        """
        written = False
        for binding, backfill in list(self._tables.items()):
            verification = backfill.verification
            if verification is None:
                del self._tables[binding]
                continue
            if not verification.begun and not (why := why_not(backfill)):
                verification.waits_for = self._waits_for(backfill)
                if not verification.waits_for:
                    write(encode(VerifyBegin(binding=binding, run=verification.run)))
                    backfill.ranges.compare()
                    verification.begun = written = True
                continue
            if verification.begun:
                under_way = backfill.ranges.compares and not backfill.left_out
                if under_way and not verification.failure:
                    verification.waits_for = "tidemark resume, since it is paused" if backfill.paused else ""
                    continue
                why = verification.failure or ("" if verification.whole else INTERRUPTED)
            self._end(backfill, verification, why, write)
            written = True
        return written

    def _waits_for(self, backfill: TableBackfill) -> str:
        """What has to end before a verification begins, for people; empty if nothing has."""
        if not backfill.done:
            return "rows that are read again by their keys"
        if hidden := len(self._hidden()):
            some = "a transaction" if hidden == 1 else f"{hidden:,} transactions"
            return f"{some} of the log that a snapshot may not show yet"
        return ""

    def brought(self, backfill: TableBackfill, chunk: Chunk, emission: Emission, now: float) -> None:
        """A chunk is about to be written. It may have taken a share of the time only: the next one waits."""
        backfill.measured(chunk, progressed=emission.progressed, now=now)
        if backfill.verification is not None:
            backfill.not_before = max(backfill.not_before, now + backfill.verification.rest(chunk.seconds))

    def write(
        self,
        backfill: TableBackfill,
        chunk: Chunk,
        emission: Emission,
        head: ChunkHead,
        write: Callable[[bytes], None],
    ) -> None:
        """Writes the rows of a chunk that the log has not touched."""
        verification = backfill.verification
        if verification is None or verification.failure or not emission.progressed:
            return
        for piece in chunk.rows.messages(head.verified(), emission.keep):
            write(piece)
        rows = len(chunk.rows) if emission.keep is None else sum(kept.stop - kept.start for kept in emission.keep)
        write(verification.chunk(backfill.table.binding, rows, last=not backfill.ranges.compares))

    def _end(
        self, backfill: TableBackfill, verification: Verification, why: str, write: Callable[[bytes], None]
    ) -> None:
        binding = backfill.table.binding
        backfill.ranges.end_comparison()
        backfill.verification = None
        del self._tables[binding]
        end = VerifyEnd(
            binding=binding,
            run=verification.run,
            chunks=verification.chunks,
            rows=verification.rows,
            why=why or None,
            covered=is_covered(backfill),
        )
        write(encode(end))


def is_covered(backfill: TableBackfill) -> bool:
    """Whether a table can be verified, now or later."""
    return bool(backfill.table.key) and backfill.table.scan.reads


def why_not(backfill: TableBackfill) -> str:
    """Why a table cannot be verified now, for people; empty if it can."""
    if backfill.left_out or not isinstance(backfill.capture, Captured):
        return "it is not captured at present: see tidemark status"
    if not backfill.table.key:
        return "it has no key by which its rows could be compared"
    if not backfill.table.scan.reads:
        return "it is captured only from its log (scan: none)"
    if backfill.paused:
        return "it is paused: see tidemark resume"
    # Rows that the log gave in part may still be read by their keys: that is soon over.
    if not backfill.ranges.scanned or (backfill.failed is not None and not backfill.done):
        return "its backfill is not done"
    if backfill.reread is not None and backfill.reread.put_off:
        return "it waits to be read again: see tidemark resume"
    return ""
