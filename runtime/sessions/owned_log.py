"""The change log while it is this process's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from tidemark.protocol.changelog.layout import LOCK
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.messages import JsonObject
from tidemark.runtime.changelog.claim import Claim, claimed
from tidemark.runtime.changelog.files.storage import WriterLock
from tidemark.runtime.sessions.known_log import KnownLog

if TYPE_CHECKING:
    from tidemark.runtime.changelog.writer import LogWriter


class OwnedLog:
    """Claims the log when it is entered, and again to write it after ``drop_writer``, which follows a failed write.

    The log is locked from the first claim to ``close``: while this process waits to try again, no other takes the log.

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
        self._claim: Claim | None = None
        self._writer: LogWriter | None = None
        self._known = known
        self._log_id = ""
        self._lock: WriterLock | None = None

    def writer(self) -> LogWriter:
        """The writer. Raises as ``claimed`` does."""
        claim = self._claimed()
        if self._writer is None:
            # Arrow takes long to load: the log is claimed without it, and then connectors have something to do, too.
            from tidemark.runtime.changelog.writer import LogWriter

            self._writer = LogWriter(claim)
        return self._writer

    def _claimed(self) -> Claim:
        if self._claim is None:
            self._claim = self._new_claim()
            self._log_id = self._claim.log_id
            if self._lock is None:
                self._lock = self._claim.lock.shared()
            if self._known is not None:
                self._known.remember(self._root, self._log_id)
        return self._claim

    def _new_claim(self) -> Claim:
        if self._lock is not None and not self._lock.is_of(self._root / LOCK):
            self._release()  # The folder was replaced.
        log_id = self._log_id or ("" if self._known is None else self._known.log_id(self._root))
        lock = None if self._lock is None else self._lock.shared()
        try:
            return claimed(self._root, self._capture, log_id, lock)
        except ChangeLogError as error:
            if lock is not None:
                lock.release()
            raise self.explained(error) from None

    def explained(self, error: ChangeLogError) -> ChangeLogError:
        """The error; of a log that has disappeared with the file that records it, which its remedy is about."""
        if error.code != "TM-LOG-013" or self._known is None or str(self._known.path) in error.message:
            return error
        return ChangeLogError(error.code, f"{error.message}; the file {self._known.path} records it")

    def known(self) -> tuple[str, JsonObject]:
        """The log's id and the connector's state when the log was last open. From any thread."""
        claim, writer = self._claim, self._writer
        if writer is not None:
            return self._log_id, writer.state
        return self._log_id, {} if claim is None else claim.summary.state

    def drop_writer(self) -> None:
        """Closes the writer; uncommitted events are discarded. The log stays this process's."""
        claim, self._claim = self._claim, None
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        elif claim is not None:
            claim.lock.release()

    def close(self) -> None:
        """Releases the log; uncommitted events are discarded."""
        self.drop_writer()
        self._release()

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def __enter__(self) -> Self:
        self._claimed()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
