"""The ``sql_mode`` in which a statement was carried out, as far as it decides what the statement means."""

from __future__ import annotations

from enum import IntFlag


class SqlMode(IntFlag):
    """By the bits of the log's statements, of both servers."""

    ANSI_QUOTES = 1 << 2
    """What is in double quotes is a name."""
    NO_AUTO_VALUE_ON_ZERO = 1 << 19
    """0 in a column that counts up stays 0."""
    NO_BACKSLASH_ESCAPES = 1 << 20
    """A backslash in a string is a character like others."""
    STRICT_TRANS_TABLES = 1 << 21
    STRICT_ALL_TABLES = 1 << 22
    PAD_CHAR_TO_FULL_LENGTH = 1 << 31
    """A ``char`` is read with the spaces at its end, also by an ALTER that makes another type of it."""

    @property
    def strict(self) -> bool:
        """A statement fails rather than to change a value that does not fit."""
        return bool(self & (SqlMode.STRICT_TRANS_TABLES | SqlMode.STRICT_ALL_TABLES))


NONE = SqlMode(0)
