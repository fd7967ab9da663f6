"""The replication slot of a source: whose it is, made, dropped and waited for, and whether it can be resumed.

The server ends a stream whose client is gone when it hears nothing for ``wal_sender_timeout``, unless the network tells
it sooner. A network that fails without an error does not, so an earlier process of a capture may hold the slot for
minutes. A new process knows the stream by its name, which is the capture's own (see ``Owner.application``). That
another process of the capture reads it still is possible, for example with a copy of the change log, so only a stream
that has been silent for a while is ended: ours says something every ``STATUS_SECONDS``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

import psycopg

from tidemark.captures.contract.errors import LostPosition
from tidemark.captures.postgres.log.connection import STATUS_SECONDS, SlotInUse
from tidemark.captures.postgres.server.config import EndpointConfig
from tidemark.captures.postgres.server.positions import parse_lsn
from tidemark.captures.postgres.server.resumption import Slot, check_resumption, check_usable, read_slot
from tidemark.captures.postgres.server.session import APPLICATION_NAME, asking
from tidemark.captures.postgres.server.setup import Made, create_slot, drop_slot, slot_statement
from tidemark.captures.postgres.server.slot_ownership import Owner, check_owner, note_owner
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import JsonObject

logger = logging.getLogger(__name__)

SLOT_WAIT_SECONDS = 10.0
"""How long a slot may stay busy before that is an error: a walsender outlives a killed client for a moment."""

TOLD_SECONDS = 2.0
"""After so long somebody is told that the slot is busy, and by whom."""

SILENT_SECONDS = STATUS_SECONDS * 1.5
"""A stream of ours that has said nothing for so long is nobody's any more."""

# Without pg_read_all_stats the time of the last reply is null. Then the slot's position alone tells.
_READER = """
SELECT a.pid, a.backend_start::text, r.reply_time::text, s.confirmed_flush_lsn::text
FROM pg_catalog.pg_replication_slots s
JOIN pg_catalog.pg_stat_activity a ON a.pid = s.active_pid
LEFT JOIN pg_catalog.pg_stat_replication r ON r.pid = a.pid
WHERE s.slot_name = %s AND a.application_name = %s
"""

_END = """
SELECT pg_terminate_backend(a.pid)
FROM pg_catalog.pg_replication_slots s JOIN pg_catalog.pg_stat_activity a ON a.pid = s.active_pid
WHERE s.slot_name = %s AND a.pid = %s AND a.backend_start::text = %s
"""

T = TypeVar("T")


class SourceSlot:
    """The slot that the configuration names, and ``owner`` is to have. The attribute ``session`` may be replaced."""

    def __init__(
        self, config: EndpointConfig, session: psycopg.Connection, owner: Owner, made: Callable[[Made], None]
    ) -> None:
        self._config = config
        self._owner = owner
        self._made = made
        self.session = session

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Inside, no other capture of this database takes the slot. Raises SourceError ``TM-PG-014`` if one does."""
        key = f"tidemark slot {self._config.slot}"
        with asking("looking for another capture that starts with the replication slot"):
            locked = self.session.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [key]).fetchone()
        if locked != (True,):
            raise SourceError("TM-PG-014", f"another capture is starting with replication slot {self._config.slot}")
        try:
            yield
        finally:
            # A session that is broken has let go of it.
            with suppress(psycopg.Error):
                self.session.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [key])

    def check_owner(self, *, begun: bool) -> None:
        """Raises SourceError where it is another capture's; ``begun`` is whether this one has captured from it."""
        with asking("looking for the owner of the replication slot"):
            check_owner(self.session, self._config, self._owner, begun=begun)

    def note_owner(self, *, standby: bool) -> None:
        """Writes down whose it is, where that may be written."""
        if not self._owner.capture or not self._config.create or self._config.read_only or standby:
            return
        with asking("recording the owner of the replication slot"):
            if not note_owner(self.session, self._config, self._owner):
                logger.debug("the user may not comment on publication %s", self._config.publication)

    def usable(self) -> Slot | None:
        """The slot, None where there is none. Raises SourceError where it is of no use."""
        slot = read_slot(self.session, self._config.slot)
        if slot is not None:
            check_usable(self.session, self._config, slot)
        return slot

    def made(self, ended: Callable[[], bool]) -> int:
        """Makes the slot where there is none; its confirmed position. Raises SourceError, SessionEnded."""
        slot = self.usable()
        if slot is None:
            with asking("preparing the replication slot"):
                self._made(create_slot(self.session, self._config, ended))
            slot = self.usable()
        if slot is None:
            raise SourceError("TM-PG-012", f"replication slot {self._config.slot} was just dropped")
        return slot.confirmed

    def drop_useless(self, *, undecodable: bool) -> None:
        """Drops a slot from which nothing more can be captured, so that another one takes its place.

        Args:
            undecodable: The server cannot decode its log.

        Raises:
            SourceError: ``TM-PG-015`` that is for a person to do.
        """
        slot = read_slot(self.session, self._config.slot)
        if slot is None or not (slot.invalidated or undecodable):
            return
        if self._config.create:
            # The walsender of our own broken stream may not have noticed yet.
            _while_in_use(lambda: self.session.execute(drop_slot(self._config)), psycopg.errors.ObjectInUse)
        elif undecodable:
            again = f"{drop_slot(self._config).as_string(None)}; {slot_statement(self.session, self._config)};"
            raise SourceError(
                "TM-PG-015",
                f"replication slot {self._config.slot} is useless: the server cannot decode the log from its position",
                remedy=f"Run: {again}",
            )

    def once_free(self, take: Callable[[], T]) -> T:
        """What ``take`` gives, tried for a while as long as it raises SlotInUse: then that says by whom it is used."""
        left = LeftStream(self.session, self._config, self._owner)

        def tell() -> None:
            error = self._in_use()
            extra = {"code": error.code, "remedy": error.remedy}
            logger.warning("%s; the capture waits for it", error.message, extra=extra)

        try:
            return _while_in_use(take, SlotInUse, left, tell)
        except SlotInUse:
            raise self._in_use() from None

    def _in_use(self) -> SlotInUse:
        """Says who reads the slot. Raises SourceError if the server cannot be asked."""
        slot = read_slot(self.session, self._config.slot)
        pid = None if slot is None else slot.active_pid
        return in_use(self.session, self._config, self._owner, pid)

    def end_walsender(self, pid: int) -> None:
        """Ends the process of our own broken stream, which may not have noticed yet and would hold the slot."""
        with asking("ending the stream that broke"):
            self.session.execute(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
                " WHERE slot_name = %s AND active_pid = %s::int",
                [self._config.slot, str(pid)],
            )


class LeftStream:
    """Watches who reads the slot, while it is in use, and ends a stream that this capture left.

    Attributes:
        expected: The slot may become free: a stream of this capture reads it, and has not been silent for long enough
            yet, or has just been ended.
    """

    def __init__(self, session: psycopg.Connection, config: EndpointConfig, owner: Owner) -> None:
        self._session = session
        self._slot = config.slot
        self._application = owner.application
        self._seen: tuple[object, ...] | None = None
        self._seen_at = 0.0
        self.expected = False

    def look(self) -> None:
        """Looks once. Raises SourceError if the server cannot be asked."""
        if self._application == APPLICATION_NAME:
            return
        with asking("looking for the reader of the replication slot"):
            seen = self._session.execute(_READER, [self._slot, self._application]).fetchone()
        now = time.monotonic()
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        silent = now - self._seen_at
        self.expected = seen is not None and silent < SILENT_SECONDS
        if seen is None or self.expected:
            return
        pid, begun, *_ = seen
        with asking("ending the stream that an earlier process left"):
            try:
                self._session.execute(_END, [self._slot, pid, begun])
            except psycopg.errors.InsufficientPrivilege:
                return  # Of another user, which the capture had before: a person must end it.
        self._seen, self.expected = None, True  # It takes a moment to end.
        logger.warning(
            "ended process %s of the server: the stream of slot %s that an earlier process of this capture left there. "
            "It had been silent for %.0f s",
            pid,
            self._slot,
            silent,
        )


def in_use(session: psycopg.Connection, config: EndpointConfig, owner: Owner, pid: int | None) -> SlotInUse:
    """The error for a slot that another process reads. Raises SourceError if the server cannot be asked."""
    with asking("looking for the reader of the replication slot"):
        reader = session.execute(
            "SELECT application_name, client_addr::text FROM pg_catalog.pg_stat_activity WHERE pid = %s", [pid]
        ).fetchone()
    application, address = reader or (None, None)
    what = f"replication slot {config.slot} is in use by process {pid} "
    where = f"from {address or 'the server itself'}"
    end = f"SELECT pg_terminate_backend({pid});"
    if application == owner.application != APPLICATION_NAME:
        return SlotInUse(
            "TM-PG-014",
            f"{what}({application} {where}), which is a stream of this capture",
            remedy=(
                f"Stop the other process of this capture. If there is none any more, run: {end} Do not configure "
                "another slot: this one has the capture's position."
            ),
        )
    return SlotInUse(
        "TM-PG-014",
        f"{what}({application} {where})",
        remedy=(
            f"Stop that process. If it is a stream that this capture left, run: {end} Configure another `slot` only "
            "before the capture's first start: a new slot does not have its position."
        ),
    )


def _while_in_use(
    attempt: Callable[[], T],
    busy: type[Exception],
    left: LeftStream | None = None,
    tell: Callable[[], None] | None = None,
) -> T:
    """The result of ``attempt``, tried while it raises ``busy``, and longer for ``left``; ``tell`` if it takes long."""
    begun = time.monotonic()
    while True:
        try:
            return attempt()
        except busy:
            if left is not None:
                left.look()
            expected = left is not None and left.expected
            waited = time.monotonic() - begun
            if waited >= SLOT_WAIT_SECONDS + (SILENT_SECONDS if expected else 0.0):
                raise
            if tell is not None and waited >= TOLD_SECONDS:
                tell()
                tell = None
            # Each attempt takes a connection, and to see a stream be silent takes long.
            time.sleep(min(0.1 + waited / 10, 1.0))


def standing_failures(
    session: psycopg.Connection, config: EndpointConfig, owner: Owner, state: JsonObject, *, running: bool
) -> Iterator[SourceError]:
    """The errors that ``open`` would raise now, without creating anything. Raises psycopg.Error.

    Args:
        state: The small members of the capture's state; empty before its first start.
        running: The capture is running, and holds its slot.
    """
    slot = read_slot(session, config.slot)
    cursor = state.get("cursor")
    checks: list[Callable[[], object]] = []
    if slot is not None:
        checks.append(partial(check_owner, session, config, owner, begun=bool(cursor)))
        if not running:
            checks.append(partial(_check_free, session, config, owner, slot.active_pid))
    if cursor:
        position, identity = parse_lsn(str(cursor)), state.get("source")
        known = identity if isinstance(identity, dict) else {}
        checks.append(partial(check_resumption, session, config, slot, position, position, known))
    for check in checks:
        try:
            check()
        except LostPosition as lost:
            if config.on_lost_position == "fail":
                yield lost
            else:
                logger.warning("%s; all tables will be read again", lost.message, extra={"code": lost.code})
        except SourceError as error:
            yield error


def _check_free(session: psycopg.Connection, config: EndpointConfig, owner: Owner, reader: int | None) -> None:
    if reader is not None:
        raise in_use(session, config, owner, reader)
