"""What the event trigger writes into the log about a table that an ALTER TABLE rewrites.

The trigger is that of ``tidemark.captures.postgres.server.rewrite_trigger``. Every user of the database may write such
a message, so one is a hint only: the catalogs decide.
"""

from __future__ import annotations

import re
from enum import IntFlag

PREFIX = b"tidemark.table_rewrite"

MOST = 10_000
"""How many relations of a transaction are remembered. The catalogs tell of the others."""

_CONTENT = re.compile(rb"([1-9][0-9]{0,9}) ([1-9][0-9]{0,8})")

# Message: 'M', flags, LSN, prefix and zero, length, content (PostgreSQL docs, logical replication message formats).
_FLAGS = 1
_PREFIX = 10
_TRANSACTIONAL = 1
_CONTENT_AT = _PREFIX + len(PREFIX) + 1 + 4


class Reason(IntFlag):
    """Why the server rewrites a table: ``pg_event_trigger_table_rewrite_reason`` (PostgreSQL docs, 9.30.3)."""

    PERSISTENCE = 1
    DEFAULT = 2
    COLUMN = 4
    ACCESS_METHOD = 8

    @property
    def text(self) -> str:
        """For people."""
        named = [text for reason, text in _TEXTS.items() if reason in self]
        return ", ".join(named) or f"reason {int(self)}"


_TEXTS = {
    Reason.PERSISTENCE: "its persistence changed",
    Reason.DEFAULT: "a column got a value in each row",
    Reason.COLUMN: "a column got another type or values by USING",
    Reason.ACCESS_METHOD: "it has another access method",
}


def note_rewrite(message: bytes, found: dict[int, Reason]) -> None:
    """Adds the reason that a logical message tells, by the oid of the relation.

    Passes over messages of others, and those that do not have the form of the trigger's.
    """
    if not message.startswith(PREFIX + b"\0", _PREFIX) or message[_FLAGS] != _TRANSACTIONAL:
        return
    if (told := _CONTENT.fullmatch(message, _CONTENT_AT)) is None:
        return
    oid, reason = map(int, told.groups())
    if oid in found or len(found) < MOST:
        found[oid] = found.get(oid, Reason(0)) | Reason(reason)
