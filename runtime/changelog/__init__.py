"""The writer of the change log, and a small reader of its events."""

from runtime.changelog.batch import Batch, BoundCollection
from runtime.changelog.events import events, json_line
from runtime.changelog.writer import LogWriter

__all__ = ["Batch", "BoundCollection", "LogWriter", "events", "json_line"]
