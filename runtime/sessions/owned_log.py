"""The change log while this process is its writer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.messages import JsonObject
from tidemark.runtime.changelog.claim import Claim, claimed
from tidemark.runtime.sessions.known_log import KnownLog

if TYPE_CHECKING:
    from tidemark.runtime.changelog.writer import LogWriter


class OwnedLog:
    """Claims the log when it is entered, and again when it is written after ``close``, which follows a failed write.

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
            if self._known is not None:
                self._known.remember(self._root, self._log_id)
        return self._claim

    def _new_claim(self) -> Claim:
        if self._known is None or self._log_id:
            return claimed(self._root, self._capture, self._log_id)
        try:
            return claimed(self._root, self._capture, self._known.log_id(self._root))
        except ChangeLogError as error:
            if error.code != "TM-LOG-013":
                raise
            raise ChangeLogError(error.code, f"{error.message}, as {self._known.path} remembers") from None

    def known(self) -> tuple[str, JsonObject]:
        """The log's id and the connector's state when the log was last open. From any thread."""
        claim, writer = self._claim, self._writer
        if writer is not None:
            return self._log_id, writer.state
        return self._log_id, {} if claim is None else claim.summary.state

    def close(self) -> None:
        """Releases the log; uncommitted events are discarded."""
        claim, self._claim = self._claim, None
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        elif claim is not None:
            claim.lock.release()

    def __enter__(self) -> Self:
        self._claimed()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
