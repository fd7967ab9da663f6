"""Log sequence numbers: 64-bit positions in the write-ahead log, written as two hexadecimal halves: ``16/B374D848``."""

from __future__ import annotations

from tidemark.protocol.errors import SourceError


def parse_lsn(text: str) -> int:
    """The position that ``text`` names. Raises SourceError ``TM-PG-024`` when it is not an LSN."""
    high, slash, low = text.partition("/")
    try:
        return (int(high, 16) << 32) | int(low if slash else "", 16)
    except ValueError:
        raise SourceError("TM-PG-024", f"{text[:40]!r} is not a log sequence number") from None


def format_lsn(position: int) -> str:
    """The position as PostgreSQL writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"
