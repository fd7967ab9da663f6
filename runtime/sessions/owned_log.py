"""The change log while it is this process's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from tidemark.protocol.changelog import layout
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.messages import JsonObject
from tidemark.protocol.store import Store
from tidemark.runtime.changelog.claim import Claim, claimed
from tidemark.runtime.changelog.files.failures import writing
from tidemark.runtime.changelog.files.lock import WriterLock
from tidemark.runtime.changelog.files.probe import probe
from tidemark.runtime.progress.sign_of_life import refuse_while_alive
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.sessions.known_log import KnownLog

if TYPE_CHECKING:
    from tidemark.runtime.changelog.upkeep import UpkeepThread
    from tidemark.runtime.changelog.writer import LogWriter


class OwnedLog:
    """Claims the log when it is entered, and again to write it after ``drop_writer``, which follows a failed write.

    The state folder is locked meanwhile, and so is a log in a directory: while this process waits to try again, no
    other of this machine takes the log. Of a log in an object store a sign of life keeps other machines away.

    Only the first start of a capture creates a log. If a log has disappeared, for example with a volume that is not
    mounted, a new one would cause everything to be read again.

    Args:
        store: That holds the log.
        capture: Its name.
        folder: The capture's state folder.
        known: The record of the log's id beside the capture file; None to keep no record.
        take_over: Whatever sign of life another capture has given.
        upkeep: Begins what is done for the log of a writer in the background; None for nothing.
    """

    def __init__(
        self,
        store: Store,
        capture: str,
        folder: StateFolder,
        known: KnownLog | None = None,
        *,
        take_over: bool = False,
        upkeep: Callable[[LogWriter], UpkeepThread] | None = None,
    ) -> None:
        self.folder = folder
        self._store = store
        self._capture = capture
        self._claim: Claim | None = None
        self._writer: LogWriter | None = None
        self._known = known
        self._take_over = take_over
        self._begin_upkeep = upkeep
        self._upkeep: UpkeepThread | None = None
        self._log_id = ""
        self._lock: WriterLock | None = None
        self._folder_lock: WriterLock | None = None

    def writer(self) -> LogWriter:
        """The writer. Raises as ``claimed`` does."""
        claim = self._claimed()
        if self._writer is None:
            # Arrow takes long to load: the log is claimed without it, and then connectors have something to do, too.
            from tidemark.runtime.changelog.writer import LogWriter

            self._writer = LogWriter(claim)
            if self._begin_upkeep is not None:
                self._upkeep = self._begin_upkeep(self._writer)
        return self._writer

    def _claimed(self) -> Claim:
        if self._claim is None:
            self._claim = self._new_claim()
            self._log_id = self._claim.log_id
            self._keep_lock(self._claim.lock)
            if self._known is not None:
                self._known.remember(self._store, self._log_id)
        return self._claim

    def _keep_lock(self, lock: WriterLock | None) -> None:
        if self._lock is None and lock is not None:
            self._lock = lock.shared()
            with writing(self._store.where(layout.LOCK)):
                lock.note(str(self.folder.path))

    def _new_claim(self) -> Claim:
        directory = self._store.directory
        if self._lock is not None and directory is not None and not self._lock.is_of(directory / layout.LOCK):
            self._release()  # The folder was replaced.
        if directory is None and not self._log_id:
            now = probe(self._store)
            if not self._take_over:
                refuse_while_alive(self._store, now, self.folder.id)
        log_id = self._log_id or ("" if self._known is None else self._known.log_id(self._store))
        lock = None if self._lock is None else self._lock.shared()
        try:
            return claimed(self._store, self._capture, log_id, lock)
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
        upkeep, self._upkeep = self._upkeep, None
        if upkeep is not None:
            upkeep.close()
        claim, self._claim = self._claim, None
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        elif claim is not None and claim.lock is not None:
            claim.lock.release()

    def close(self) -> None:
        """Releases the log; uncommitted events are discarded."""
        self.drop_writer()
        self._release()
        lock, self._folder_lock = self._folder_lock, None
        if lock is not None:
            lock.release()

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def __enter__(self) -> Self:
        self._folder_lock = self.folder.take(self._store.place)
        try:
            self._claimed()
        except BaseException:
            self.close()
            raise
        if self._store.directory is not None:
            self.folder.adopt(self._store.directory)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
