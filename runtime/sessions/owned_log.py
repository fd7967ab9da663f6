"""The change log while this process is its writer."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.messages import JsonObject
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.sessions.known_log import KnownLog


class OwnedLog:
    """Opens the log's writer when it is needed, and again after ``close``, which follows a failed write.

    Only the first start of a capture creates a log. If a log has disappeared, for example with a volume that is not
    mounted, a new one would cause everything to be read again.

    Args:
        root: The log's folder.
        capture: Its name.
        known: The record of the log's id beside the capture file; None to keep no record.
    """

    def __init__(self, root: Path, capture: str, known: KnownLog | None = None) -> None:
        self._root = root
        self._capture = capture
        self._writer: LogWriter | None = None
        self._known = known
        self._log_id = ""

    def writer(self) -> LogWriter:
        """The writer. Raises as ``LogWriter.open`` does."""
        if self._writer is None:
            self._writer = self._open()
            self._log_id = self._writer.log_id
            if self._known is not None:
                self._known.remember(self._root, self._log_id)
        return self._writer

    def _open(self) -> LogWriter:
        if self._known is None or self._log_id:
            return LogWriter.open(self._root, self._capture, self._log_id)
        try:
            return LogWriter.open(self._root, self._capture, self._known.log_id(self._root))
        except ChangeLogError as error:
            if error.code != "TM-LOG-013":
                raise
            raise ChangeLogError(error.code, f"{error.message}, as {self._known.path} remembers") from None

    def known(self) -> tuple[str, JsonObject]:
        """The log's id and the connector's state when the log was last open. From any thread."""
        writer = self._writer
        return self._log_id, {} if writer is None else writer.state

    def close(self) -> None:
        """Releases the log; uncommitted events are discarded."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def __enter__(self) -> Self:
        self.writer()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
