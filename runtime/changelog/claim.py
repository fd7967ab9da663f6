"""Takes over a change log: what a process must do before it writes one, and without what writing itself needs.

A writer takes over a log by an empty commit with the next epoch. Importing this imports no Arrow, which takes long to
load: a capture claims its log before it asks its connector anything.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from tidemark.protocol.changelog import layout
from tidemark.protocol.changelog.commit_files import digest_of
from tidemark.protocol.changelog.models import FORMAT_VERSION, Commit, LogHeader, Summary
from tidemark.protocol.changelog.reader import ChangeLog
from tidemark.protocol.changelog.summaries import advance
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.changelog.files.failures import writing
from tidemark.runtime.changelog.files.lock import WriterLock
from tidemark.runtime.changelog.files.sweep import sweep

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Claim:
    """A log that belongs to this process.

    Attributes:
        store: That holds the log.
        lock: Keeps other processes of this machine from a log in a directory.
        summary: The log after the commit that claims it.
        previous: The hash of that commit.
        writer: An id of whoever claims it, which each of its commits has.
    """

    store: Store
    lock: WriterLock | None
    summary: Summary
    previous: str
    log_id: str
    writer: str


def claimed(place: Store | Path, capture: str, log_id: str = "", lock: WriterLock | None = None) -> Claim:
    """Creates a log, or takes it over from an earlier writer and deletes the unfinished files of that writer.

    Args:
        place: Its store, or its directory, which is created if it does not exist.
        capture: The name of the capture to which the log belongs.
        log_id: The id of a log that must exist; then none is created.
        lock: The log's, if this process holds it. It is released with an error, and by whoever gets the claim.

    Raises:
        ChangeLogError: ``TM-LOG-005`` another capture's log, ``TM-LOG-006`` another process of this machine writes
            it, ``TM-LOG-008`` it cannot be written, ``TM-LOG-002`` to ``TM-LOG-004``, ``TM-LOG-011`` and
            ``TM-LOG-012`` as ``ChangeLog``, ``TM-LOG-013`` it is not there.
    """
    store = place if isinstance(place, Store) else DirectoryStore(place)
    found = _existing(store, capture)  # before the lock: another capture's log is the better explanation
    if log_id and (found is None or found.header.log_id != log_id):
        what = f"the change log {log_id} of capture {capture} is no longer at {store.place}"
        raise ChangeLogError("TM-LOG-013", what)
    lock = _locked(store) if lock is None else lock
    try:
        log = _existing(store, capture) or _created(store, capture)
        _upgrade(log)
        writer = uuid4().hex
        summary, previous = _claim(log, writer)
        sweep(store, summary)
    except BaseException:
        if lock is not None:
            lock.release()
        raise
    return Claim(store, lock, summary, previous, log.header.log_id, writer)


def _locked(store: Store) -> WriterLock | None:
    """The lock of a log in a directory, which is made. An object store has none."""
    if not isinstance(store, DirectoryStore):
        return None
    with writing(store.place):
        store.make()
    return WriterLock(store.root / layout.LOCK)


def _existing(store: Store, capture: str) -> ChangeLog | None:
    """The log in ``store`` if there is one, which must be this capture's."""
    try:
        log = ChangeLog(store)
    except ChangeLogError as error:
        if error.code != "TM-LOG-001":
            raise
        return None
    if log.header.capture != capture:
        raise foreign(log, capture)
    return log


def foreign(log: ChangeLog, capture: str) -> ChangeLogError:
    """The error of a log that is not that of the capture of this name."""
    what = f"{log.store.place} is the change log of the capture {log.header.capture!r}, not of {capture!r}"
    return ChangeLogError("TM-LOG-005", what)


def _created(store: Store, capture: str) -> ChangeLog:
    """Creates a log, or opens the one that another machine, without our lock, created first."""
    with writing(store.where(layout.COMMITS)):
        lost = any(store.list(layout.COMMITS))
    if lost:
        where = store.where(layout.HEADER)
        raise ChangeLogError("TM-LOG-004", f"{where} is missing, but {store.place} holds commits")
    header = LogHeader(log_id=str(uuid4()), capture=capture, created=datetime.now(UTC))
    with suppress(FileExistsError), writing(store.where(layout.HEADER)):
        store.create(layout.HEADER, header.model_dump_json(indent=2).encode())
        logger.info("created the change log %s", store.place)
    log = _existing(store, capture)
    if log is None:
        where = store.where(layout.HEADER)
        raise ChangeLogError("TM-LOG-001", f"{where} disappeared while the log was being opened")
    return log


def _upgrade(log: ChangeLog) -> None:
    """Makes a log of an earlier version one of this version. Its commits and segments stay as they are."""
    if log.header.format_version == FORMAT_VERSION:
        return
    header = log.header.model_copy(update={"format_version": FORMAT_VERSION})
    with writing(log.store.where(layout.HEADER)):
        log.store.replace(layout.HEADER, header.model_dump_json(indent=2).encode())
    logger.info(
        "%s has format version %d from now on; earlier versions cannot read it", log.store.place, FORMAT_VERSION
    )


def _claim(log: ChangeLog, writer: str) -> tuple[Summary, str]:
    """Takes the next epoch by an empty commit of it. Returns the log after it, and the hash of that commit."""
    while True:
        summary = log.summary()
        with writing(log.store.where(layout.DATA)):
            lost = summary.number < 0 and any(log.store.list(layout.DATA))
        if lost:
            raise ChangeLogError("TM-LOG-004", f"the commits in {log.store.where(layout.COMMITS)} are missing")
        claim = Commit(
            number=summary.number + 1,
            epoch=summary.epoch + 1,
            time=max(datetime.now(UTC), summary.time),
            first_offset=summary.next_offset,
            next_offset=summary.next_offset,
            previous=log.digest(summary.number) if summary.number >= 0 else "",
            writer=writer,
        )
        try:
            return write_commit(log.store, claim, summary)
        except FileExistsError:
            logger.info(
                "another writer made commit %d of %s meanwhile: reading the log again", claim.number, log.store.place
            )


def write_commit(store: Store, commit: Commit, summary: Summary) -> tuple[Summary, str]:
    """Writes a commit, and a summary if one is due.

    Returns:
        The log after it, and the hash of its file.

    Raises:
        FileExistsError: Another writer has its number.
        ChangeLogError: ``TM-LOG-007`` another writer has a later one, and may have seen this commit; ``TM-LOG-008``.
    """
    data = commit.model_dump_json().encode()
    _create(store, layout.commit_name(commit.number), data)
    if store.directory is None and _is_passed(store, commit.number):
        text = f"{store.place}: another writer made a commit after {commit.number}; this one has epoch {commit.epoch}"
        raise ChangeLogError("TM-LOG-007", text)
    summary = advance(summary, commit)
    if commit.number % layout.SUMMARY_EVERY == 0:
        _create(store, layout.summary_name(commit.number), summary.model_dump_json().encode())
    return summary, digest_of(data)


def _create(store: Store, name: str, data: bytes) -> None:
    path = f"{layout.COMMITS}/{name}"
    with writing(store.where(path)):
        store.create(path, data)


def _is_passed(store: Store, number: int) -> bool:
    """Whether there is a commit after one that was just created: then another writer has the log.

    Of a directory the lock keeps others away. In an object store a writer may have been stalled for so long that others
    have made its number and deleted it since, with all that is too old to be kept. Then its commit is no part of the
    log, and only the later ones show it.
    """
    after = layout.commit_path(number)
    with writing(store.where(layout.COMMITS)):
        # Commits come before summaries.
        later = next(store.list(layout.COMMITS, after=after), None)
    return later is not None and layout.commit_number(later.path.rpartition("/")[2]) is not None
