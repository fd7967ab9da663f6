"""The output for a TRUNCATE, and for a table that is read again."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from tidemark.protocol.codec import encode
from tidemark.protocol.messages import BackfillBegin, BackfillComplete

TruncateOption = Annotated[
    Literal["auto", "emit", "ignore", "backfill"],
    Field(
        description=(
            "What a TRUNCATE becomes: emit writes a document with op t, ignore nothing, backfill the begin and "
            "end of a backfill, for runtimes that support them. auto is emit under tidemark's runtime, and "
            "ignore under any other"
        )
    ),
]
"""In a configuration."""


class Truncation(StrEnum):
    """What is written."""

    EMIT = "emit"
    """A document with op t, which has no key: only our runtime supports it."""
    IGNORE = "ignore"
    """Nothing."""
    BACKFILL = "backfill"
    """``backfillBegin`` and ``backfillComplete``."""


def emptied(binding: int) -> list[bytes]:
    """The lines of ``Truncation.BACKFILL`` for a TRUNCATE: all further rows come from the log."""
    return [encode(BackfillBegin(binding=binding)), encode(BackfillComplete(binding=binding))]


def ignored(table: str) -> str:
    """The warning of ``Truncation.IGNORE``."""
    return (
        f"{table} was truncated, but `truncate` is ignore: its rows stay downstream. To remove them, set truncate to "
        "emit under tidemark's runtime, or to backfill under a runtime that supports backfillBegin"
    )
