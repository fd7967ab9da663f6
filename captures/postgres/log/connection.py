"""The walsender connection: START_REPLICATION, CopyData in both directions (PostgreSQL docs §55.4).

psycopg has no replication API; libpq's COPY_BOTH, which it wraps, is all that is needed.
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from psycopg import pq, sql

from tidemark.backfill.keys import WINDOW_LIMIT
from tidemark.captures.contract.errors import LostPosition
from tidemark.captures.postgres.server.config import EndpointConfig
from tidemark.captures.postgres.server.positions import format_lsn
from tidemark.captures.postgres.server.session import connect_pq, error_text, execute_within, refusal
from tidemark.captures.server.shutdown_watch import HangUpWatch
from tidemark.protocol.errors import SourceError

STATUS_SECONDS = 10.0
"""A standby status update goes out at least this often, so that the server knows that we live."""

POSTGRES_EPOCH = 946684800
"""2000-01-01 UTC in seconds since 1970: the server's clock counts microseconds from there."""

_NOT_IN_PREREQUISITE_STATE = "55000"

_STATUS_UPDATE = struct.Struct(">cQQQQB")


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How long a server may be silent, in seconds, and what a stream remembers.

    Attributes:
        silence: A server that sends nothing for this long is asked whether it lives. By itself it says so every 150
            seconds, half of ``wal_sender_timeout``.
        answer: The server may take this long to answer that, or to take in what we send. Then the connection counts as
            broken.
        incomplete_keys: Rows of a transaction that need a reread. With more of them, their tables are read again.
    """

    silence: float = 30.0
    answer: float = 30.0
    incomplete_keys: int = WINDOW_LIMIT


LIMITS = StreamLimits()


class SlotInUse(SourceError):
    """Another process reads the slot."""


class ReplicationConnection:
    """A started stream. ``receive`` is libpq's ``get_copy_data``: the log reader calls it in its own loop.

    Args:
        position: Where to start; the server starts no earlier than the slot's confirmed position.
        flushed: Everything up to there is durable downstream: what the server is told until ``confirm`` is called.
        application: The stream's name at the server.
        session: The descriptor of a session with the same server. When the server ends that, the stream breaks, too.
        unpublished: What to raise when the server cannot decode for want of the publication.
        stored: Gives a name as the database's encoding has it.
        limits: How long the server may be silent.

    Raises:
        SlotInUse: ``TM-PG-014``.
        LostPosition: ``TM-PG-015`` the slot has lost its log, and what ``unpublished`` gives.
        SourceError: ``TM-PG-012`` the slot does not exist, ``TM-PG-020`` anything else.

    Attributes:
        backend_pid: The walsender's process.
    """

    def __init__(
        self,
        config: EndpointConfig,
        position: int,
        *,
        flushed: int,
        application: str,
        session: int,
        unpublished: Callable[[], LostPosition],
        stored: Callable[[str], bytes],
        limits: StreamLimits = LIMITS,
    ) -> None:
        self._lost_publication = unpublished
        self._limits = limits
        self._slot = config.slot
        self._unpublished = False
        self._connection = connect_pq(config, replication=True, application=application)
        self.backend_pid = self._connection.backend_pid  # A closed connection does not tell it any more.
        self._connection.notice_handler = self._noticed
        self.receive = self._connection.get_copy_data
        self._flushed = flushed
        self._received = position
        self._status_due = 0.0
        self._heard_at = time.monotonic()
        self._asked_at: float | None = None
        statement = sql.SQL(
            "START_REPLICATION SLOT {} LOGICAL {} (proto_version '1', publication_names {}, messages 'true')"
        ).format(
            sql.Identifier(config.slot),
            sql.SQL(format_lsn(position)),
            sql.Literal(sql.Identifier(config.publication).as_string(None)),
        )
        try:
            self._send_as_stored()
            result = execute_within(self._connection, stored(statement.as_string(None)), limits.answer)
            if result.status != pq.ExecStatus.COPY_BOTH:
                raise self._refusal(result)
            self._watch = HangUpWatch(session, self._connection.socket)
        except BaseException:
            self._connection.finish()
            raise

    def _send_as_stored(self) -> None:
        """Leaves texts in the database's encoding: see ``tidemark.captures.postgres.catalog.encodings``."""
        encoding = (self._connection.parameter_status(b"server_encoding") or b"").decode()
        statement = sql.SQL("SET client_encoding = {}").format(sql.Literal(encoding))
        execute_within(self._connection, statement.as_bytes(None), self._limits.answer)

    def wait(self, seconds: float, wakeup: int) -> None:
        """Waits for data, for ``wakeup``, or for the time to pass; takes in what has arrived."""
        self._flush()
        ready, _, _ = select.select([self._connection.socket, wakeup], [], [], max(seconds, 0.0))
        if self._connection.socket in ready:
            self.heard()
            self.consume()
        else:
            self._check_alive()

    @property
    def silent_seconds(self) -> float:
        """How long nothing has come from the server."""
        return time.monotonic() - self._heard_at

    def heard(self) -> None:
        """Something came from the server."""
        self._heard_at = time.monotonic()
        self._asked_at = None

    def _check_alive(self) -> None:
        # Only asked where nothing can be read: silence while we are busy ourselves is not the server's.
        now = time.monotonic()
        if self._asked_at is None:
            if now - self._heard_at >= self._limits.silence:
                self.send_status(request_reply=True)
                self._asked_at = now
        elif now - self._asked_at >= self._limits.answer:
            raise SourceError(
                "TM-PG-020",
                f"the server has sent nothing on the stream of slot {self._slot} for {now - self._heard_at:.0f} s",
            )

    def consume(self) -> None:
        """Takes in what has arrived on the socket, without waiting."""
        try:
            self._connection.consume_input()
        except psycopg.OperationalError as error:
            raise self.broken(error) from None

    def confirm(self, position: int) -> None:
        """The slot may move to ``position``."""
        if position > self._flushed:
            self._flushed = position
            self.send_status()

    def keep_alive(self, received: int, *, reply: bool) -> None:
        """Tells the server that we live, when it asked or when it is time."""
        self._received = received
        if reply or time.monotonic() >= self._status_due:
            self.send_status()

    def send_status(self, *, request_reply: bool = False) -> None:
        """A standby status update: received so far, flushed and applied as far as was acknowledged."""
        now = int((time.time() - POSTGRES_EPOCH) * 1_000_000)
        received = max(self._received, self._flushed)
        update = _STATUS_UPDATE.pack(b"r", received, self._flushed, self._flushed, now, int(request_reply))
        try:
            self._connection.put_copy_data(update)
        except psycopg.OperationalError as error:
            raise self.broken(error) from None
        self._flush()
        self._status_due = time.monotonic() + STATUS_SECONDS

    def check_published(self) -> None:
        """Raises LostPosition when the server has begun to leave changes out.

        Since version 18 a publication that is not there is only a warning in the stream; what nothing publishes is then
        passed over, and before it an error. The warning comes before the commit of the first change that is missing.
        """
        if self._unpublished:
            raise self._lost_publication()

    def _noticed(self, notice: pq.abc.PGresult) -> None:
        # "skipped loading publication …": there is no other warning of this state in a stream.
        state, _ = refusal(notice)
        self._unpublished = self._unpublished or state == _NOT_IN_PREREQUISITE_STATE

    def ended(self) -> SourceError:
        """Why the stream ended, once ``receive`` returned -1 or failed."""
        result = self._connection.get_result()
        text = error_text(self._connection)
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            return self._refusal(result)
        return SourceError(
            "TM-PG-020", f"the server ended the stream of slot {self._slot}: {text or 'no reason given'}"
        )

    def close(self) -> None:
        self._watch.close()
        self._connection.finish()

    def _flush(self) -> None:
        try:
            while self._connection.flush() != 0:
                if not select.select([], [self._connection.socket], [], self._limits.answer)[1]:
                    raise SourceError("TM-PG-020", f"the server accepts nothing on the stream of slot {self._slot}")
        except psycopg.OperationalError as error:
            raise self.broken(error) from None

    def broken(self, error: psycopg.Error) -> SourceError:
        """What libpq raised, ``receive`` too, where the connection is lost in the middle of the stream."""
        return SourceError("TM-PG-020", f"the stream of slot {self._slot} broke: {' '.join(str(error).split())}")

    def _refusal(self, result: pq.abc.PGresult) -> SourceError:
        state, text = refusal(result)
        text = text or error_text(self._connection)
        if state == "42704" and "publication" in text:  # undefined_object
            return self._lost_publication()
        streaming = f"streaming from slot {self._slot}: {text}"
        match state:
            case "55006":  # object_in_use
                return SlotInUse("TM-PG-014", streaming)
            case "42704":
                return SourceError("TM-PG-012", streaming)
            case "55000" if "wal_level" in text:  # object_not_in_prerequisite_state
                return SourceError("TM-PG-005", streaming)
            case "55000":
                # Words for a slot that was invalidated since it was looked at: until version 16, and from 17 on.
                lost = "cannot read from" in text or "can no longer" in text
                return (LostPosition if lost else SourceError)("TM-PG-015", streaming)
            case _:
                return SourceError("TM-PG-020", streaming)
