"""What the columns of a part of the log have: see ``tidemark.captures.rows.log_parts``."""

from __future__ import annotations

from enum import StrEnum


class Cell(StrEnum):
    """What a value is, before it is one of Arrow."""

    TEXT = "text"
    """A byte text of UTF-8, in the form of documents."""
    JSON = "json"
    """The same: the JSON of the document's member."""
    BYTES = "bytes"
    """A byte text of any bytes."""
    INTEGER = "integer"
    """An integer of 64 bits."""
    DOUBLE = "double"
    DATE = "date"
    """Days since 1970."""
    DATETIME = "datetime"
    """Microseconds since 1970, without a zone."""
    TIMESTAMP = "timestamp"
    """The same, in UTC."""
