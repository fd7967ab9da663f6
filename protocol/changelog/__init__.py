"""The change log on disk: its layout, its models, and how to read its commits."""

from tidemark.protocol.changelog.error_codes import CODES
from tidemark.protocol.changelog.models import (
    Column,
    Commit,
    Consumer,
    Generation,
    KeyValue,
    KnownGeneration,
    LogHeader,
    Replacement,
    Run,
    Segment,
    StateChange,
    Summary,
    TableSchema,
)
from tidemark.protocol.changelog.reader import ChangeLog
from tidemark.protocol.error_codes import register

__all__ = [
    "ChangeLog",
    "Column",
    "Commit",
    "Consumer",
    "Generation",
    "KeyValue",
    "KnownGeneration",
    "LogHeader",
    "Replacement",
    "Run",
    "Segment",
    "StateChange",
    "Summary",
    "TableSchema",
]

register(CODES)
