"""Statements and COPY on a bare libpq connection.

psycopg's cursor would cost twice as much per row; here libpq's rows go straight to the generated decoder.
"""

from __future__ import annotations

import contextlib
import select
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from psycopg import pq

from tidemark.backfill.chunk_size import CHUNK_BYTES
from tidemark.captures.contract.errors import TableAway
from tidemark.captures.postgres.catalog.encodings import Transcoder
from tidemark.captures.postgres.server.session import error_text, refusal
from tidemark.protocol.errors import SourceError

DECODE_BYTES = 48 * 1024
"""Rows handed to the decoder at once make documents of at most this size. What they need meanwhile stays in a
processor's own cache. Measured with rows of 230 bytes, twice as many took two fifths more time each."""

_CODES = {"42501": "TM-PG-008", "42703": "TM-PG-030"}  # The second: a condition names a column that is not there.

_NO_TABLE = "42P01"
_CANCELED = "57014"
_NO_CHARACTER = ("22P05", "22021")
"""untranslatable_character and character_not_in_repertoire."""


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """When a chunk ends before its last row, and how long the server may take.

    Attributes:
        chunk_bytes: The most bytes of documents in a chunk.
        decode_rows: The most rows handed to the decoder at once: enough to make the call cheap.
        statement_seconds: No statement runs longer. What was read by then is a chunk.
        answer_seconds: A server that is silent for so long counts as gone: it ends statements sooner.
    """

    chunk_bytes: int = CHUNK_BYTES
    decode_rows: int = 500
    statement_seconds: int = 30
    answer_seconds: float = 60


LIMITS = ChunkLimits()


class UnsayableText(SourceError):
    """The server cannot send a text outside of COPY: it has bytes that stand for no character."""


class CopyConnection:
    """A connection that one thread reads from, while another may ``cancel``.

    All methods that ask the server raise SourceError: ``TM-PG-020`` the connection broke, ``TM-PG-008`` a privilege is
    missing, ``TM-PG-007`` the table is gone, ``TM-PG-019`` anything else. ``name`` is the table's in their messages.
    ``texts`` converts those of a database whose encoding is not UTF-8.
    """

    def __init__(
        self, connection: pq.abc.PGconn, texts: Transcoder | None = None, limits: ChunkLimits = LIMITS
    ) -> None:
        self._connection = connection
        self._limits = limits
        self._texts = texts

    @property
    def in_recovery(self) -> bool:
        """Whether the server was a standby as of the last statement."""
        return self._connection.parameter_status(b"in_hot_standby") == b"on"

    def execute(self, query: bytes, name: str) -> pq.abc.PGresult:
        """The result of one or several statements, the last one's."""
        self._send(query, name)
        result = None
        while (following := self._next_result()) is not None:
            result = following
        if result is None or result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
            raise self._failure(result, name)
        return result

    def copy(self, query: bytes, take: Callable[[list[bytes]], int], name: str, *, whole: bool = False) -> bool:
        """Hands the lines of ``COPY (query) TO STDOUT`` to ``take``, some at a time, which returns bytes of memory.

        Returns:
            False when the rest was left out: another row would make more than ``chunk_bytes``, or the statement ran
            into its timeout, or was canceled, after some rows. With ``whole`` neither is taken for an end.
        """
        connection, limits = self._connection, self._limits
        self._send(b"COPY (%b) TO STDOUT%b" % (query, self._encoding()), name)
        started = self._next_result()
        if started is None or started.status != pq.ExecStatus.COPY_OUT:
            failure = self._failure(started, name)
            self._drain()
            raise failure
        lines: list[bytes] = []
        size, count, cut = 0, 0, False
        batch, held = 1, 0
        receive = connection.get_copy_data
        try:
            while True:
                length, data = receive(1)
                if length > 0:
                    if cut:
                        continue
                    lines.append(bytes(data))
                    held += length
                    del data  # A row may be large, and taking it needs room for it several times.
                    # Rows may become wider than those before them: what is held is bounded, too.
                    if len(lines) >= batch or held > limits.chunk_bytes // 8:
                        count += len(lines)
                        size += take(self._utf8(lines))
                        lines, held = [], 0
                        batch = min(limits.decode_rows, 1 + DECODE_BYTES * count // (size + 1))
                        if size + size // count > limits.chunk_bytes and not whole:
                            cut = True
                            self.cancel()
                elif length == 0:
                    self._wait()
                else:
                    break
        except psycopg.OperationalError as error:
            raise _broken(error, name) from None
        ended = self._next_result()
        self._drain()
        if cut:
            return False
        complete = ended is not None and ended.status == pq.ExecStatus.COMMAND_OK
        if not complete and (whole or not (lines or count) or refusal(ended)[0] != _CANCELED):
            raise self._failure(ended, name)
        if lines:
            take(self._utf8(lines))
        return complete

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open that more can be read in."""
        return self._connection.transaction_status == pq.TransactionStatus.INTRANS

    @property
    def closed(self) -> bool:
        """Whether the connection is closed or broken."""
        return self._connection.status != pq.ConnStatus.OK

    def _encoding(self) -> bytes:
        """COPY's option by which texts come as they are stored. Statements, and so keys, are UTF-8 all the same."""
        if self._texts is None:
            return b""
        return b" (ENCODING '%b')" % (self._connection.parameter_status(b"server_encoding") or b"")

    def _utf8(self, lines: list[bytes]) -> list[bytes]:
        return lines if self._texts is None else list(map(self._texts.utf8, lines))

    def rollback(self) -> None:
        """Ends the transaction; with its connection, if a statement that is no longer needed still runs."""
        if self.closed:
            return
        if self._connection.transaction_status == pq.TransactionStatus.ACTIVE:
            self._connection.finish()
        else:
            self._connection.exec_(b"ROLLBACK")

    def cancel(self) -> None:
        """Ends the statement that runs, from any thread."""
        with contextlib.suppress(psycopg.Error):  # A cancel request that does not arrive changes nothing.
            self._connection.get_cancel().cancel()

    def close(self) -> None:
        self._connection.finish()

    def _send(self, query: bytes, name: str) -> None:
        try:
            self._connection.send_query(query)
        except psycopg.OperationalError as error:
            raise _broken(error, name) from None

    def _next_result(self) -> pq.abc.PGresult | None:
        # A blocking call of libpq would keep the thread that cancels from running: wait for the socket instead.
        while self._connection.is_busy():
            self._wait()
        return self._connection.get_result()

    def _drain(self) -> None:
        while self._connection.status == pq.ConnStatus.OK:
            if self._next_result() is None:
                return

    def _wait(self) -> None:
        try:
            seconds = self._limits.answer_seconds
            if not select.select([self._connection.socket], [], [], seconds)[0]:
                raise SourceError("TM-PG-020", f"reading a chunk: the server has not answered for {seconds} s")
            self._connection.consume_input()
        except psycopg.OperationalError as error:
            raise _broken(error, "") from None

    def _failure(self, result: pq.abc.PGresult | None, name: str) -> SourceError:
        if result is None or self._connection.status != pq.ConnStatus.OK:
            return SourceError("TM-PG-020", f"reading a chunk of {name}: {error_text(self._connection)}")
        return chunk_failure(*refusal(result), name)


def chunk_failure(state: str, text: str, name: str) -> SourceError:
    """The error for a statement that the server refused; without a SQLSTATE, for a connection that broke."""
    if not state:
        return SourceError("TM-PG-020", f"reading a chunk of {name}: {text}")
    what = f"reading a chunk of {name}: {text} (SQLSTATE {state})"
    if state == _NO_TABLE:
        return TableAway("TM-PG-007", what)
    if state in _NO_CHARACTER:
        return UnsayableText("TM-PG-019", what)
    return SourceError(_CODES.get(state, "TM-PG-019"), what)


def _broken(error: psycopg.OperationalError, name: str) -> SourceError:
    where = f"reading a chunk of {name}: " if name else "reading a chunk: "
    return SourceError("TM-PG-020", where + " ".join(str(error).split()))
